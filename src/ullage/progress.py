"""Progress of a study on stderr: live on a terminal, plain lines elsewhere.

One line stays for each family that is done; below it, on a terminal, a bar with how many runs are done,
running and failed, what C is by now, and the time that is left at least.
"""

from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ullage.campaign import Planned
from ullage.observations import observe
from ullage.present import counted, duration, interval
from ullage.record import LEARNED, RunRecord, Status
from ullage.study import Watcher, is_evidence
from ullage.summary import boundary_of, capacity_summary, level_summaries


class Teller:
    """Tells a person how a study goes; a context manager around its run."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.running: dict[str, str] = {}
        self.failed = self.done = self.settled = self.left = self.lanes = 0
        self.seconds = 0.0  # of the runs that were done here
        self.finals: list[RunRecord] = []
        self.capacity = ""
        self.bar = Bar(
            BarColumn(bar_width=12),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.file.isatty(),  # not `is_terminal`, which a variable can force
            transient=True,
        )
        self.task = self.bar.add_task("", total=None)
        self.watcher = Watcher(
            self._planned,
            self._recalled,
            self._left,
            self._started,
            self._progressed,
            self._ended,
            self._family_ended,
        )

    def __enter__(self) -> Watcher:
        self.bar.start()
        return self.watcher

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def _planned(self, stored: int, missing: int) -> None:
        self.settled, self.left = stored, missing
        if missing:
            kept = f"; {counted(stored, 'run')} stored" if stored else ""
            self.console.print(f"the next batch: {counted(missing, 'run')}{kept}", highlight=False)

    def _recalled(self, records: Sequence[RunRecord]) -> None:
        self.finals = list(records)
        self._measure()

    def _left(self, count: int) -> None:
        self.left = count
        self._draw()

    def _started(self, planned: Planned) -> None:
        self.running[planned.job.run_id] = f"{planned.family} {planned.job.task['level']}"
        self.lanes = max(self.lanes, len(self.running))
        self.left -= 1
        self._draw()

    def _progressed(self, planned: Planned, step: int, score: float) -> None:
        name = f"{planned.family} {planned.job.task['level']} ({planned.job.phase})"
        self.running[planned.job.run_id] = f"{name}: step {step}, {score:.0%}"
        self._draw()

    def _ended(self, planned: Planned, record: RunRecord) -> None:
        self.running.pop(planned.job.run_id, None)
        self.done += 1
        self.seconds += record.seconds
        self.failed += not is_evidence(record)
        if record.is_evidence:
            self.finals.append(record)
            self._measure()
        self._draw()
        if record.status == Status.FAILED and self.failed == 1:
            self.console.print(f"a run failed: {record.reason}", highlight=False, markup=False)

    def _family_ended(self, family: str, records: Sequence[RunRecord]) -> None:
        self.console.print(family_line(family, records), highlight=False, markup=False)

    def _measure(self) -> None:
        """What C is by now; nobody sees it where there is no terminal."""
        if not self.bar.disable:
            self.capacity = capacity_line(self.finals)

    def _draw(self) -> None:
        total = self.settled + self.done + len(self.running) + max(self.left, 0)
        self.bar.update(
            self.task, completed=self.settled + self.done, total=total, description=escape(self.line())
        )

    def line(self) -> str:
        """Runs done, running and failed, C by now, the time left at least, and what is running."""
        told = [counted(self.settled + self.done, "run"), f"{len(self.running)} running"]
        told += [f"{self.failed} failed"] if self.failed else []
        told += [self.capacity] if self.capacity else []
        if self.done and self.left > 0:
            seconds = self.seconds / self.done * self.left / max(self.lanes, 1)
            told.append(f"{duration(seconds)} left at least")
        return "; ".join([*told, *list(self.running.values())[:2]])


class FitTeller:
    """Tells a person how many fits are done: one line that moves on a terminal, one a model elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = console.file.isatty()
        self.bar = Bar(
            BarColumn(bar_width=12),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not self.live,
            transient=True,
        )
        self.task = self.bar.add_task("the first fit compiles its program", total=None)
        self.last = ""

    def __enter__(self) -> Callable[[int, int, str], None]:
        self.bar.start()
        return self._told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def _told(self, done: int, count: int, what: str) -> None:
        self.bar.update(self.task, completed=done, total=count, description=f"{what}: fit {done} of {count}")
        if not self.live and what != self.last:
            self.console.print(f"{what}: fit {done} of {count}", highlight=False)
        self.last = what


def capacity_line(records: Sequence[RunRecord]) -> str:
    """C on the typical family so far, each family in its own bits; nothing where no run bounds it.

    >>> capacity_line([])
    ''
    """
    found = capacity_summary(observe(records).runs, "nominal", {})["capacity_bits"]
    told = interval(found)
    return "" if told == "not bounded" else f"C {told} bits"


def family_line(family: str, records: Sequence[RunRecord]) -> str:
    """What a family's runs say, in one line."""
    runs = observe(records).runs
    learned = [row["level"] for row in level_summaries(runs) if row["skill"] >= LEARNED]
    boundary = boundary_of(runs, "nominal") if runs else None
    if not runs:
        return f"{family}: no run finished"
    bits = interval(boundary.interval().to_json()) if boundary else "not bounded"
    unit = "" if bits == "not bounded" else " bits"
    return f"{family}: learned {_up_to(learned)}; boundary {bits}{unit}; {counted(len(runs), 'run')}"


def _up_to(levels: Sequence[int]) -> str:
    return f"up to level {max(levels)}" if levels else "at no level"
