"""From which step limit on more steps no longer move a family's boundary.

    python benchmarks/step_limit.py [TASK…] [--limits 2000,4000,…] [--levels 8,16,…] [--effort quick]
                                    [--workers N] [--store DIR] [--json]

Every family is measured at each limit, the shortest first, with one model and one recipe, by the
adaptive protocol without a search; the learning rate falls over the whole limit, so that a longer one
is another training and not the same one continued. A line is printed as soon as a family is known at
a limit:

    steps 4000  modulo  C 5.31 bits [4.87, 5.64]  median moved by -0.02  mean skill by level 5:1.00 …

C is in bits of the family's nominal demand, with its 90 % interval, and the move is in log2 C against
the former limit: of the median, or of an end where a limit does not bound both. A boundary has settled
at the first limit from which every further one moved it by less than a quarter. A family that learns
all or none of its levels tells a bound and not a boundary, and settles as such.

Seconds are those of all runs added up, whichever ran side by side. A store that holds the runs already
gives the same table without training; with several families, give `--levels` to one at a time.
Efforts differ in how narrow an interval they ask for: `quick` one bit, `standard` half a bit.
"""

import argparse
import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ullage.boundary import UNKNOWN, Interval
from ullage.observations import observe
from ullage.record import RunRecord
from ullage.study import Watcher
from ullage.summary import FamilySummary, family_summary
from ullage.verbs.measure import default_workers, measure

FAMILIES = ("modulo", "parity", "copy", "memorise", "induction")
LIMITS = (2000, 4000, 8000, 16_000, 32_000)
SETTLED = 0.25  # in log2 bits: a fifth more or less, what three seeds can just tell apart


@dataclasses.dataclass(frozen=True)
class Row:
    """One family at one step limit."""

    family: str
    step_limit: int
    capacity_bits: Interval
    skills: dict[int, float]  # the mean over seeds, by level
    moved_end: str | None  # which end of the interval was compared with the former limit
    moved_log2: float | None
    train_steps: int
    seconds: float


def interval_of(summary: FamilySummary) -> Interval:
    """The capacity of a family in bits of its nominal demand."""
    return summary.capacity_bits.get(summary.nominal, UNKNOWN)


def move(former: Interval, latter: Interval) -> tuple[str | None, float | None]:
    """Which end both intervals have, the median if they can, and how far it moved in log2 bits."""
    for end in ("median", "low", "high"):
        before, after = getattr(former, end), getattr(latter, end)
        if before is not None and after is not None:
            return end, math.log2(after / before)
    return None, None


def row_of(family: str, step_limit: int, records: Sequence[RunRecord], former: Row | None) -> Row:
    """What the runs of one family at one limit say."""
    runs = observe(records).runs
    summary = family_summary(family, runs[0].nominal if runs else "", runs, {})
    interval = interval_of(summary)
    end, moved = move(former.capacity_bits, interval) if former else (None, None)
    return Row(
        family,
        step_limit,
        interval,
        {level["level"]: level["skill"] for level in summary.levels},
        end,
        moved,
        sum(record.train_steps for record in records),
        sum(record.seconds for record in records),
    )


def told(interval: Interval) -> str:
    """An interval in words, an unbounded end said so."""
    if interval.low is None and interval.high is None:
        return "not bounded"
    if interval.high is None:
        return f"at least {interval.low:.4g} bits"
    if interval.low is None:
        return f"at most {interval.high:.4g} bits"
    middle = "" if interval.median is None else f"{interval.median:.4g} bits "
    return f"{middle}[{interval.low:.4g}, {interval.high:.4g}]"


def line(row: Row) -> str:
    """One row as text."""
    moved = "" if row.moved_log2 is None else f"  {row.moved_end} moved by {row.moved_log2:+.2f}"
    skills = " ".join(f"{level}:{skill:.2f}" for level, skill in row.skills.items())
    cost = f"{row.train_steps} steps, {row.seconds:.0f} s"
    where = f"steps {row.step_limit:<6}  {row.family:<10}"
    return f"{where}  C {told(row.capacity_bits)}{moved}  mean skill by level {skills}  ({cost})"


def settled_from(rows: Sequence[Row]) -> int | None:
    """The first limit from which every further one moved the boundary by less than a quarter."""
    settled = None
    for former, row in zip(reversed(rows[:-1]), reversed(rows[1:]), strict=True):
        if row.moved_log2 is None or abs(row.moved_log2) >= SETTLED:
            break
        settled = former.step_limit
    return settled


def verdict(family: str, rows: Sequence[Row]) -> str:
    """One sentence on one family."""
    settled, last = settled_from(rows), rows[-1]
    if settled is None:
        return f"{family}: not settled by {last.step_limit} steps, C {told(last.capacity_bits)}"
    what = "boundary" if last.capacity_bits.bounded else "bound"
    return f"{family}: {what} settled from {settled} steps on, C {told(last.capacity_bits)}"


def study(chosen: argparse.Namespace) -> dict[str, list[Row]]:
    """Measure all families at all limits and tell each row when it is known."""
    rows: dict[str, list[Row]] = {}
    store = chosen.store or tempfile.mkdtemp()
    for limit in sorted(chosen.limits):

        def note(family: str, records: Sequence[RunRecord], limit: int = limit) -> None:
            known = rows.setdefault(family, [])
            known.append(row_of(family, limit, records, known[-1] if known else None))
            print(line(known[-1]), flush=True, file=sys.stderr if chosen.json else sys.stdout)

        measure(
            chosen.tasks,
            steps=limit,
            effort=chosen.effort,
            trials=0,
            levels=chosen.levels,
            workers=chosen.workers,
            store=store,
            watcher=Watcher(family_ended=note),
        )
    return rows


def document(rows: dict[str, list[Row]]) -> dict[str, Any]:
    """All rows and what they say, for `--json`."""
    return {
        family: {"settled_from": settled_from(found), "rows": [dataclasses.asdict(row) for row in found]}
        for family, found in rows.items()
    }


def numbers(text: str) -> list[int]:
    """Whole numbers that are separated by commas."""
    return [int(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=list(FAMILIES), metavar="TASK")
    parser.add_argument("--limits", type=numbers, default=list(LIMITS), help="step limits")
    parser.add_argument("--levels", type=numbers, default=[], help="levels, hardest first to end sooner")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument(
        "--store", type=Path, default=None, help="keep the runs here and go on with them later"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Measure, then say from where on each family has settled."""
    chosen = arguments()
    rows = study(chosen)
    if chosen.json:
        json.dump(document(rows), sys.stdout, indent=1)
        return
    for family, found in rows.items():
        print(verdict(family, found))


if __name__ == "__main__":
    main()
