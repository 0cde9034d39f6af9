"""The command line: one sentence for what cannot be done, one document for scripts, a user's own file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ullage import cli
from ullage.stores.jsonl import JsonlStore

ROOT = Path(__file__).resolve().parents[1]
TINY = ("--d-model", "8", "--heads", "2", "--d-ff", "16", "--steps", "20", "--workers", "1")
QUICKLY = ("--protocol", "grid", "--seeds", "1", "--trials", "0", *TINY)

TWO_TASKS = """
from ullage.tasks.parity import Parity
class One(Parity): pass
class Two(Parity): pass
"""
NO_FLOOR = """
import dataclasses
from ullage.tasks.parity import Parity
from ullage.knobs import knob
from ullage.task import Task
@dataclasses.dataclass(frozen=True)
class Cheat(Task):
    level: int = knob(3, "how hard it is", low=1)
"""


def run(capsys, *arguments):
    """The exit code, what was said on stdout and on stderr."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def page_file(folder, name="reverse.py"):
    """The file that `docs/add/task.md` gives to copy."""
    text = (ROOT / "docs" / "add" / "task.md").read_text("utf-8")
    code = text.split("```python\n", 1)[1].split("```", 1)[0]
    path = folder / name
    path.write_text(code, encoding="utf-8")
    return path


# ── bad requests ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["measure", "parrity"], "there is no task 'parrity'"),
        (["measure", "parity:bits=3"], "has no knob 'bits'"),
        (["measure", "modulo:base=1"], "base=1 is out of range"),
        (["measure", "modulo:base=x"], "base=x is not allowed"),
        (["measure", "parity:level=6"], "use --levels"),
        (["measure", "--model", "huge"], "there is no model 'huge'"),
        (["measure", "--d-model", "30"], "d_model=30"),
        (["measure", "--precision", "f8"], "precision=f8"),
        (["measure", "--effort", "lots"], "there is no effort 'lots'"),
        (["measure", "--protocol", "random"], "there is no protocol 'random'"),
        (["measure", "--seeds", "3"], "add --protocol grid"),
        (["measure", "--steps", "0"], "steps=0 is out of range"),
        (["measure", "--trials", "-1"], "trials=-1 is out of range"),
        (["measure", "--train-examples", "-5"], "train_examples=-5 is out of range"),
        (["measure", "parity", "--levels", "3"], "level=3 is out of range"),
        (["measure", "parity", "--levels", "six"], "levels=six is not allowed"),
        (["measure", "--demand", "weight"], "there is no notion of demand 'weight'"),
        (["measure", "--workers", "0"], "workers=0 is out of range"),
        (["measure", "--minutes", "0"], "minutes=0"),
        (["measure", "--retry", "all"], "retry=all is not allowed"),
        (["measure", "--seed", "-1"], "seed=-1 is out of range"),
        (["measure", "--speed", "9"], "--speed"),
        (["measure", "nowhere.py"], "nowhere.py"),
        (["plan", "parrity"], "there is no task 'parrity'"),
        (["list", "colours"], "colours"),
        (["export", "runs.xls"], "runs.xls"),
        (["frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_request_is_one_sentence_and_exit_code_2(arguments, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    code, out, err = run(capsys, *arguments)

    assert code == 2
    assert told in err
    assert err.startswith("ullage: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "ullage-store").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import nothing_of_this_name\n", "nothing_of_this_name"),
        ("x = 1\n", "0 subclasses of Task"),
        (TWO_TASKS, "One"),
        (NO_FLOOR, "floor"),
    ],
    ids=["syntax", "import", "no task", "two tasks", "incomplete"],
)
def test_a_file_that_makes_no_task_is_told_in_one_sentence(text, told, capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")

    code, _, err = run(capsys, "measure", path, "--store", tmp_path / "store")

    assert code == 2
    assert told in err
    assert err.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_every_broken_clause_of_a_users_task_is_named_before_anything_is_trained(capsys, tmp_path):
    path = page_file(tmp_path)
    wrong = path.read_text("utf-8").replace(
        "return np.array([stack.pop()", "return 0 * np.array([stack.pop()"
    )
    wrong = wrong.replace("return 2.0 ** -(self.level * math.log2(self.symbols))", "return 0.9")
    path.write_text(wrong, encoding="utf-8")

    code, _, err = run(capsys, "measure", path, "--store", tmp_path / "store")

    assert code == 2
    assert "solve" in err
    assert "floor" in err
    assert not (tmp_path / "store").exists()


def test_a_folder_that_is_no_store_is_left_as_it_is(capsys, tmp_path):
    (tmp_path / "letters.txt").write_text("dear", encoding="utf-8")

    code, _, err = run(capsys, "measure", "parity", *QUICKLY, "--store", tmp_path)

    assert code == 2
    assert "holds other files" in err
    assert [file.name for file in tmp_path.iterdir()] == ["letters.txt"]


def test_a_second_driver_is_told_who_holds_the_store(capsys, tmp_path):
    with JsonlStore.at(tmp_path / "store"):
        code, _, err = run(capsys, "measure", "parity", *QUICKLY, "--store", tmp_path / "store")

    assert code == 2
    assert f"process {os.getpid()}" in err


# ── what scripts rely on ──────────────────────────────────────────────────────────────────────────


def measured(capsys, tmp_path, *arguments):
    code, out, err = run(capsys, "measure", *arguments, "--store", tmp_path / "store", "--json")
    return code, json.loads(out), err


def test_json_is_one_document_with_the_promised_keys_and_progress_goes_elsewhere(capsys, tmp_path):
    code, found, err = measured(capsys, tmp_path, "parity", "--levels", "5,6", *QUICKLY)

    promised = {"model", "effort", "demand_notion", "budgets", "capacity_bits", "families", "utilisation"}
    promised |= {"by_notion", "tasks", "runs", "new_runs", "train_steps", "seconds", "store", "report"}
    assert code == 0
    assert promised <= found.keys()
    assert found["runs"] == {"finished": 2}
    assert found["tasks"]["parity"].keys() >= {
        "capacity_bits",
        "boundary_level",
        "binding_budget",
        "monotone",
        "levels",
    }
    assert "parity" in err


def test_the_same_command_again_trains_nothing_and_says_the_same(capsys, tmp_path):
    _, first, _ = measured(capsys, tmp_path, "parity", "--levels", "5,6", *QUICKLY)
    _, second, _ = measured(capsys, tmp_path, "parity", "--levels", "5,6", *QUICKLY)

    assert (first["new_runs"], second["new_runs"]) == (2, 0)
    differing = {"new_runs", "seconds"}
    assert {key: value for key, value in first.items() if key not in differing} == {
        key: value for key, value in second.items() if key not in differing
    }


def test_a_search_tells_its_optimism_and_what_its_runs_differ_by(capsys, tmp_path):
    arguments = ("parity", "--levels", "5,6", *TINY, "--trials", "2")

    _, found, _ = measured(capsys, tmp_path, *arguments)

    search = found["tasks"]["parity"]["search"]
    assert search["trials"] >= 2
    assert search["winners"].keys() <= {"5", "6"}
    assert isinstance(search["optimism"], float)
    assert search["variance_shares"] is None or sum(search["variance_shares"].values()) == pytest.approx(1.0)


def test_a_task_file_is_checked_measured_and_measured_anew_when_it_was_edited(capsys, tmp_path):
    path = page_file(tmp_path)

    checked = run(capsys, "check", path)
    _, first, _ = measured(capsys, tmp_path, path, "--levels", "4", *QUICKLY)
    _, again, _ = measured(capsys, tmp_path, path, "--levels", "4", *QUICKLY)
    path.write_text(path.read_text("utf-8") + "\n# edited\n", encoding="utf-8")
    _, edited, _ = measured(capsys, tmp_path, path, "--levels", "4", *QUICKLY)

    assert checked[0] == 0
    assert [one["new_runs"] for one in (first, again, edited)] == [1, 0, 1]


def test_the_module_is_the_command():
    outputs = [
        subprocess.run([*start, "--help"], capture_output=True, text=True, check=True).stdout
        for start in ([sys.executable, "-m", "ullage"], [Path(sys.executable).parent / "ullage"])
    ]

    assert outputs[0] == outputs[1]
    assert "measure" in outputs[0]
