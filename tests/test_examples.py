"""Every example runs with its small budget, draws its figure and holds what it says it holds.

    pytest tests/test_examples.py

Examples are found, not listed. Each has a constant SMALL, the part of its JSON that must come of
`--budget small`. Its figures come from pure functions, which are tested on records made by hand.
"""

import functools
import importlib.util
import json
import subprocess
import sys
import types
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ullage.record import COLUMNS, CurveRow, RunRecord

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
CONTENTS = {"toy": 100}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_holds_what_it_says(path, tmp_path):
    figure = tmp_path / "figure.svg"
    command = [sys.executable, str(path), "--budget", "small", "--workers", "1", "--json"]

    result = subprocess.run(
        [*command, "--store", str(tmp_path / "store"), "--figure", str(figure)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )

    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    expected = example(path.stem).SMALL
    assert expected
    assert {name: found[name] for name in expected} == expected
    assert ET.parse(figure).getroot().tag.endswith("svg")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_tells_its_command(path):
    assert f"python examples/{path.name} " in (example(path.stem).__doc__ or "")


# ── seen_fraction ────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_waits_at_the_step_limit_is_kept_with_the_least_delay():
    record = made("a", late_generalisation_steps=None)
    curve = curve_of("a", {50: (0.6, 0.5), 100: (1.0, 0.5), 150: (1.0, 0.6), 200: (1.0, 0.7)})

    (row,) = example("seen_fraction").data([record], curve, CONTENTS)

    assert (row.delay_steps, row.still_waiting, row.seen_fraction) == (100, True, 0.1)


def test_a_run_that_generalises_has_the_delay_of_its_record():
    record = made("a", late_generalisation_steps=100)
    curve = curve_of("a", {50: (1.0, 0.5), 100: (1.0, 0.6), 150: (1.0, 1.0)})

    (row,) = example("seen_fraction").data([record], curve, CONTENTS)

    assert (row.delay_steps, row.still_waiting) == (100, False)


def test_a_run_that_learns_nothing_has_no_delay_and_does_not_wait():
    record = made("a", late_generalisation_steps=None)

    (row,) = example("seen_fraction").data([record], curve_of("a", {200: (0.5, 0.5)}), CONTENTS)

    assert (row.delay_steps, row.still_waiting, row.confidently_wrong) == (None, False, None)


@pytest.mark.parametrize(
    ("entropy", "cross_entropy", "verdict"),
    [(0.1, 3.0, True), (0.9, 3.0, False), (0.1, 0.5, False)],
    ids=["sure and wrong", "unsure", "sure and right"],
)
def test_who_is_sure_and_wrong_is_told_from_the_checkpoints_of_the_delay(entropy, cross_entropy, verdict):
    record = made("a", late_generalisation_steps=100)
    before = curve_of("a", {50: (0.5, 0.5)}, entropy=1.0, cross_entropy=1.0)
    waiting = curve_of("a", {100: (1.0, 0.5), 150: (1.0, 0.6)}, entropy=entropy, cross_entropy=cross_entropy)
    after = curve_of("a", {200: (1.0, 1.0)}, entropy=0.0, cross_entropy=0.0)

    (row,) = example("seen_fraction").data([record], [*before, *waiting, *after], CONTENTS)

    assert row.waiting_entropy_bits == pytest.approx(entropy)
    assert row.confidently_wrong is verdict


def test_rows_are_in_the_order_of_their_fraction_and_a_failed_run_is_none():
    records = [
        made("b", train_examples=50),
        made("c", status="failed", score=None),
        made("a", train_examples=10),
    ]

    rows = example("seen_fraction").data(records, [], CONTENTS)

    assert [row.seen_fraction for row in rows] == [0.1, 0.5]
    assert example("seen_fraction").document(records, rows)["failed"] == 1


def test_a_run_that_still_waits_counts_as_longer_than_all_that_were_seen():
    seen_fraction = example("seen_fraction")
    records = [
        made("a", seed=0, late_generalisation_steps=150),
        made("b", seed=1, late_generalisation_steps=None),
        made("c", seed=2, late_generalisation_steps=None),
    ]
    curves = [
        *curve_of("a", {50: (1.0, 0.5), 200: (1.0, 1.0)}),
        *curve_of("b", {100: (1.0, 0.5), 200: (1.0, 0.5)}),
        *curve_of("c", {150: (1.0, 0.5), 200: (1.0, 0.5)}),
    ]

    (point,) = seen_fraction.points(seen_fraction.data(records, curves, CONTENTS))

    assert (point.delay_steps, point.still_waiting, point.waited, point.never_fitted) == (50, True, 3, 0)


def test_the_middle_skill_and_its_range_are_told():
    seen_fraction = example("seen_fraction")
    records = [made(name, score=score) for name, score in (("a", 0.5), ("b", 1.0), ("c", 0.6))]

    (point,) = seen_fraction.points(seen_fraction.data(records, [], CONTENTS))

    assert (point.lowest_skill, point.validation_skill, point.highest_skill) == pytest.approx((0, 0.2, 1))


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_runs_of_every_kind_can_be_drawn(suffix, tmp_path):
    seen_fraction = example("seen_fraction")
    records = [
        made("a", late_generalisation_steps=100, train_examples=80),
        made("b", late_generalisation_steps=None),
        made("c", late_generalisation_steps=None, train_examples=100),
    ]
    curves = [
        *curve_of("a", {50: (1.0, 0.5), 150: (1.0, 1.0)}),
        *curve_of("b", {50: (1.0, 0.5)}),
        *curve_of("c", {50: (0.5, 0.5)}),
    ]

    seen_fraction.draw(seen_fraction.data(records, curves, CONTENTS), tmp_path / f"figure.{suffix}")

    assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000


# ── how the questions above are answered ─────────────────────────────────────────────────────────


@functools.cache
def example(name: str) -> types.ModuleType:
    path = next(path for path in EXAMPLES if path.stem == name)
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up the module in which they are defined
    spec.loader.exec_module(module)
    return module


def made(run_id: str, **changed) -> RunRecord:
    """A run of a toy family whose answer has one bit and whose floor is a half."""
    known = {
        "run_id": run_id,
        "task": "toy",
        "level": 1,
        "status": "finished",
        "seed": 0,
        "train_examples": 10,
        "train_steps": 200,
        "demand_answer_bits": 1.0,
        "score": 0.75,
        "score_floor": 0.5,
        "score_ceiling": 1.0,
        "generalisation_gap": 0.5,
        "entropy_bits": 0.25,
    }
    return RunRecord(**{**dict.fromkeys(COLUMNS), **known, **changed})


def curve_of(run_id: str, scores, entropy=0.5, cross_entropy=2.0) -> list[CurveRow]:
    """The scores of training and validation questions by step; entropies are the same at each."""
    return [
        CurveRow(run_id, step, split, metric, value)
        for step, (trained, validated) in scores.items()
        for split, metric, value in [
            ("train", "score", trained),
            ("validation", "score", validated),
            ("validation", "entropy_bits", entropy),
            ("validation", "cross_entropy_bits", cross_entropy),
        ]
    ]
