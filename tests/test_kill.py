"""A campaign survives the death of its driver: no process is left, nothing is lost, the result is the same.

The driver alone is killed with SIGKILL twenty times: five times at any moment, thirteen times after it
has stored a run of its own, twice in the middle of an append (half a line is on the disk). Then the
campaign is finished and its export compared with that of one that was left alone. A campaign that
searches, with one worker, is killed ten times: it must store the same runs in the same order.
"""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

EARLY, LATE, TORN = 5, 13, 2
CAMPAIGN = (
    *("parity", "memorise:length=2,symbols=32", "--levels", "5,6,7,8,9,10"),
    *("--protocol", "grid", "--trials", "0", "--seeds", "4"),
    *("--steps", "120", "--workers", "2"),
    *("--d-model", "8", "--heads", "2", "--d-ff", "16"),
)
# One worker: what is searched, stopped by its rivals and judged follows from the runs before it.
SEARCHING = (
    *("memorise:length=2,symbols=32", "--levels", "5,256", "--trials", "5"),
    *("--steps", "120", "--workers", "1"),
    *("--d-model", "8", "--heads", "2", "--d-ff", "16"),
)
SEARCHING_EARLY, SEARCHING_LATE = 5, 5
DIFFERING = ("seconds", "host", "attempt")
SECONDS_TO_DIE = 5.0

# Runs the command line, but the driver kills itself halfway through its second line of runs.
TORN_DRIVER = """
import os, signal, sys
real_write, lines = os.write, 0

def write(file, data):
    global lines
    if os.readlink(f"/proc/self/fd/{file}").endswith("runs.jsonl") and len(data) > 1:
        lines += 1
        if lines == 2:
            real_write(file, bytes(data)[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
    return real_write(file, data)

os.write = write
from ullage.cli import main
main(sys.argv[1:])
"""


class Campaign:
    """One store, and drivers of it that can be killed."""

    def __init__(self, store: Path, asked: tuple[str, ...] = CAMPAIGN) -> None:
        self.store, self.asked = store, asked
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, "ULLAGE_TEST_MARK": self.mark}

    def start(self, *, torn: bool = False) -> subprocess.Popen[bytes]:
        entry = ["-c", TORN_DRIVER] if torn else ["-m", "ullage"]
        command = [sys.executable, *entry, "measure", *self.asked, "--store", str(self.store)]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def stored(self) -> int:
        runs = self.store / "runs.jsonl"
        return runs.read_bytes().count(b"\n") if runs.exists() else 0

    @property
    def order(self) -> list[str]:
        lines = (self.store / "runs.jsonl").read_text().splitlines()
        return [json.loads(line)["run_id"] for line in lines]

    def living(self) -> list[int]:
        return [
            int(place.parent.name) for place in Path("/proc").glob("[0-9]*/environ") if self._is_ours(place)
        ]

    def _is_ours(self, place: Path) -> bool:
        try:
            return f"ULLAGE_TEST_MARK={self.mark}".encode() in place.read_bytes()
        except OSError:  # it has ended since, or is not ours to look at
            return False

    def wait_for_death(self) -> list[int]:
        deadline = time.monotonic() + SECONDS_TO_DIE
        while self.living() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.living()

    def finish(self) -> int:
        return self.start().wait(timeout=300)

    def export(self, folder: Path, *flags: str) -> list[dict[str, str]]:
        file = folder / f"{self.mark}.csv"
        command = [sys.executable, "-m", "ullage", "export", str(file), *flags, "--store", str(self.store)]
        subprocess.run(command, check=True, capture_output=True)
        with file.open(newline="") as lines:
            return [{k: v for k, v in row.items() if k not in DIFFERING} for row in csv.DictReader(lines)]


def kill_at(campaign: Campaign, moment: str, delay: float) -> bool:
    """Start a driver and kill it at the moment; False if the campaign was finished before."""
    before = campaign.stored
    driver = campaign.start(torn=moment == "torn")
    while moment == "late" and campaign.stored == before and driver.poll() is None:
        time.sleep(0.01)
    if moment == "torn":
        driver.wait(timeout=120)
    else:
        time.sleep(delay)
    in_time = driver.poll() in (None, -signal.SIGKILL)
    driver.kill()
    driver.wait()
    return in_time


@pytest.fixture(scope="module")
def killed_and_whole(tmp_path_factory):
    """The exports of a campaign killed twenty times and of one left alone, and what lived on after kills."""
    folder = tmp_path_factory.mktemp("kill")
    generator = random.Random(1)
    moments = ["early"] * EARLY + ["torn"] * TORN + ["late"] * LATE
    generator.shuffle(moments)
    campaign, whole = Campaign(folder / "killed"), Campaign(folder / "whole")
    survivors, in_time, half_lines = [], [], 0
    for moment in moments:
        delay = generator.uniform(0.0, 4.0 if moment == "early" else 0.3)
        in_time.append(kill_at(campaign, moment, delay))
        survivors += campaign.wait_for_death()
        runs = campaign.store / "runs.jsonl"
        half_lines += runs.exists() and not runs.read_bytes().endswith(b"\n")
    assert campaign.finish() == 0
    assert whole.finish() == 0
    return {
        "in_time": in_time,
        "survivors": survivors,
        "half_lines": half_lines,
        "runs": (campaign.export(folder), whole.export(folder)),
        "curves": (campaign.export(folder, "--curves"), whole.export(folder, "--curves")),
    }


def test_all_twenty_kills_hit_a_living_driver(killed_and_whole):
    assert killed_and_whole["in_time"] == [True] * (EARLY + LATE + TORN)


def test_two_kills_tear_a_line_apart(killed_and_whole):
    assert killed_and_whole["half_lines"] >= TORN


def test_no_process_lives_five_seconds_after_its_driver(killed_and_whole):
    assert killed_and_whole["survivors"] == []


def test_a_killed_campaign_ends_with_the_runs_of_an_unkilled_one(killed_and_whole):
    killed, whole = killed_and_whole["runs"]

    assert len(whole) == 48
    assert killed == whole


def test_a_killed_campaign_ends_with_the_curves_of_an_unkilled_one(killed_and_whole):
    killed, whole = killed_and_whole["curves"]

    assert killed == whole


def test_a_search_killed_ten_times_stores_the_same_runs_in_the_same_order(tmp_path):
    generator = random.Random(2)
    moments = ["early"] * SEARCHING_EARLY + ["late"] * SEARCHING_LATE
    generator.shuffle(moments)
    killed, whole = Campaign(tmp_path / "killed", SEARCHING), Campaign(tmp_path / "whole", SEARCHING)
    in_time = [
        kill_at(killed, moment, generator.uniform(0.0, 3.0 if moment == "early" else 0.2))
        for moment in moments
    ]
    codes = (killed.finish(), whole.finish())
    runs = whole.export(tmp_path)

    assert in_time == [True] * len(moments)
    assert codes == (0, 0)
    assert killed.order == whole.order
    assert killed.export(tmp_path) == runs
    assert {run["status"] for run in runs} == {"finished", "pruned"}
    assert {run["phase"] for run in runs} == {"search", "final"}
