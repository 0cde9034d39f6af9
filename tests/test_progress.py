"""Progress: what is done, running, failed and left, and what C is by now."""

import dataclasses
import io

import pytest
from hand_made import NANO
from report_worlds import world
from rich.console import Console
from scripted_runs import Script, Scripted
from test_study import study_of

from ullage.progress import Teller, capacity_line
from ullage.stores.memory import MemoryStore


class Terminal(io.StringIO):
    def isatty(self):
        return True


def followed(store, file, **script):
    """Run a study under a teller; what its line said at every change."""
    teller = Teller(Console(file=file, width=200))
    lines = []

    def drawing(draw):
        def drawn():
            draw()
            lines.append(teller.line())

        return drawn

    teller._draw = drawing(teller._draw)
    with teller as watcher:
        study_of(store).run(Scripted(Script(**script), lanes=3), watcher)
    return lines


@pytest.fixture(scope="module")
def lines():
    return followed(MemoryStore(), Terminal(), failing=0.1, log2_capacity=3.6)


def test_runs_are_counted_as_they_begin_and_end(lines):
    assert lines[0].startswith("0 runs; 1 running")
    assert any("3 running" in line for line in lines)
    assert "; 0 running" in lines[-1]


def test_what_failed_is_counted_only_where_something_did(lines):
    assert "failed" not in lines[0]
    assert " failed" in lines[-1]


def test_the_interval_of_c_appears_and_moves(lines):
    told = [part for line in lines for part in line.split("; ") if part.startswith("C ")]

    assert told[-1].endswith("bits")
    assert len(set(told)) > 2


def test_the_time_that_is_left_is_told_while_runs_wait(lines):
    assert any("left at least" in line for line in lines)
    assert "left at least" not in lines[-1]


def test_what_is_stored_counts_from_the_start():
    store = MemoryStore()
    followed(store, Terminal(), log2_capacity=3.6)
    records = list(store.read().records.values())
    kept = MemoryStore()
    with kept:
        for record in records[: len(records) - 1]:
            kept.append(record, ())
    lines = followed(kept, Terminal(), log2_capacity=3.6)

    assert lines[0].startswith(f"{len(records) - 1} runs")
    assert "; C " in lines[0]


def test_without_a_terminal_nothing_moves_and_nothing_is_computed():
    file = io.StringIO()
    lines = followed(MemoryStore(), file, log2_capacity=3.6)

    assert not any("; C " in line for line in lines)
    assert "\x1b" not in file.getvalue()
    assert "boundary" in file.getvalue()


def test_a_hostile_name_is_no_markup_of_the_terminal():
    teller = Teller(Console(file=Terminal(), width=200))
    teller.running["x"] = "[bold]parity[/nonsense]"
    with teller:
        teller._draw()

    assert teller.line().endswith("[bold]parity[/nonsense]")


def test_c_is_that_of_the_finals():
    finals = world({"parity": 3.0}, (NANO,))

    assert capacity_line(finals).startswith("C ")
    assert capacity_line([dataclasses.replace(one, status="failed") for one in finals]) == ""
