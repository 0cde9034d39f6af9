"""From memorising to generalising: what a model does with questions that it has not seen.

    python examples/seen_fraction.py --store seen-store --figure seen.svg

The knob is the share of the training content that a run may see. Two families, the remainder of a
number of two digits and the parity of ten bits, are trained at seven shares with three seeds each;
everything else stays as it is. Against the share stand, all of validation questions:

    skill      0 is guessing, 1 is perfect; below 0 means that what was memorised misleads
    gap        training skill − validation skill
    entropy    of the output: while the run waits (training learned, validation not) and at its end
    delay      steps from learning the training questions to learning the others (late generalisation)

What to see: few examples are memorised and tell nothing of the others; with more of them the skill rises
and the delay falls from "not within the step limit" to a few hundred steps and less. Look at the entropy
of the runs that wait. A model that is unsure has as much of it as a guess; one that is sure and wrong has
little, with a cross-entropy above that of a guess: these do not look unsure before they generalise. And
see parity where all is seen: there the steps do not suffice to learn even the training questions, and
there alone the entropy is high. A run ends when validation is solved, or at the step limit; a run that
still waits then is kept, as a delay that is at least so long.

The test questions are not touched. `--budget full` (the default) takes about ten minutes of one
core, `--budget small` a few seconds. A store that holds the runs gives the same table without training.
The suffix of the figure chooses its kind: svg, pdf, png.
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage import architecture
from ullage.campaign import Planned
from ullage.executor import make_executor
from ullage.job import Job, describe_task
from ullage.recipe import Recipe
from ullage.record import EVIDENCE, LEARNED, CurveRow, Phase, RunRecord
from ullage.split import training_data
from ullage.store import open_store
from ullage.study import Listed, Study, Watcher
from ullage.task import Task, find

# What the JSON of the small budget must hold; tests/test_examples.py compares it.
SMALL = {"runs": 2, "failed": 0, "few_examples_are_memorised": True}

# Colours of Okabe and Ito; form and filling tell the same to who sees no colours.
AT_END: Mapping[str, Any] = {"color": "#0072B2", "marker": "o", "markerfacecolor": "none"}
WAITING: Mapping[str, Any] = {"color": "#D55E00", "marker": "^"}
SEEN: Mapping[str, Any] = {"color": "#0072B2", "marker": "o"}
AT_LEAST: Mapping[str, Any] = {"color": "#D55E00", "marker": "^", "markerfacecolor": "none"}
NEVER_FITTED: Mapping[str, Any] = {"color": "#000000", "marker": "x"}
GUESS: Mapping[str, Any] = {"color": "#777777", "linewidth": 0.9, "linestyle": ":"}


@dataclasses.dataclass(frozen=True)
class Budget:
    """What is trained."""

    tasks: tuple[Task, ...]
    fractions: tuple[float, ...]
    seeds: int
    recipe: Recipe


@dataclasses.dataclass(frozen=True)
class Row:
    """One run. Skills are 0 for guessing; a number that a run does not have is None."""

    family: str
    level: int
    seen_fraction: float
    train_examples: int
    seed: int
    answer_bits: float  # the entropy of an answer, which is that of a guess
    validation_skill: float
    gap: float | None
    entropy_bits: float | None
    delay_steps: int | None  # None where not even the training questions were learned
    still_waiting: bool  # the delay is at least so long
    waiting_entropy_bits: float | None  # the median over the checkpoints of the delay
    waiting_cross_entropy_bits: float | None

    @property
    def confidently_wrong(self) -> bool | None:
        """While it waits: surer than unsure by half, and yet more surprised by the truth than a guess."""
        if self.waiting_entropy_bits is None or self.waiting_cross_entropy_bits is None:
            return None
        sure = self.waiting_entropy_bits < self.answer_bits / 2
        return sure and self.waiting_cross_entropy_bits > self.answer_bits


@dataclasses.dataclass(frozen=True)
class Point:
    """The runs of one family and fraction: medians, and the range of the skill."""

    family: str
    level: int
    seen_fraction: float
    train_examples: int
    runs: int
    validation_skill: float
    lowest_skill: float
    highest_skill: float
    gap: float | None
    entropy_bits: float | None
    waiting_entropy_bits: float | None
    waiting_cross_entropy_bits: float | None
    confidently_wrong: int
    waited: int
    delay_steps: int | None
    still_waiting: bool  # whether that holds of the median delay
    never_fitted: int  # runs that did not even learn the training questions


# ── what is run ──────────────────────────────────────────────────────────────────────────────────


def full() -> Budget:
    """The sweep: the smallest model, the default recipe with ten times its weight decay."""
    tasks = (find("modulo:base=36,digits=2").at(11), find("parity").at(10))
    recipe = Recipe(architecture.find("nano", {}), step_limit=2000, evaluate_every=50, weight_decay=0.3)
    return Budget(tasks, (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0), seeds=3, recipe=recipe)


def small() -> Budget:
    """Seconds: a model of one narrow layer that memorises a handful of examples."""
    tiny = architecture.find("nano", {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 32})
    recipe = Recipe(tiny, batch_size=32, step_limit=200, evaluate_every=50, warmup_steps=20)
    return Budget((find("parity").at(6),), (0.1, 1.0), seeds=1, recipe=recipe)


BUDGETS: Mapping[str, Callable[[], Budget]] = {"full": full, "small": small}


def plan(budget: Budget, contents: Mapping[str, int]) -> list[Planned]:
    """Every task at every fraction: search runs, which are judged on validation questions."""
    return [
        Planned(task.family, Job(describe_task(task), recipe.to_json(), seed, phase=str(Phase.SEARCH)))
        for task in budget.tasks
        for fraction in budget.fractions
        for recipe in [
            dataclasses.replace(budget.recipe, train_examples=max(1, round(fraction * contents[task.family])))
        ]
        for seed in range(budget.seeds)
    ]


# ── what came of it ──────────────────────────────────────────────────────────────────────────────


def data(records: Iterable[RunRecord], curves: Iterable[CurveRow], contents: Mapping[str, int]) -> list[Row]:
    """One row a run that ended as runs should; `contents` counts a family's training content."""
    told = [record for record in records if record.status in EVIDENCE and record.skill is not None]
    by_run: dict[str, dict[int, dict[tuple[str, str], float]]] = {record.run_id: {} for record in told}
    for one in curves:
        if one.run_id in by_run:
            by_run[one.run_id].setdefault(one.step, {})[one.split, one.metric] = one.value
    rows = [row(record, by_run[record.run_id], contents[record.task]) for record in told]
    return sorted(rows, key=lambda one: (one.family, one.level, one.seen_fraction, one.seed))


def row(record: RunRecord, curve: Mapping[int, Mapping[tuple[str, str], float]], content: int) -> Row:
    """What one run says."""
    memorised, generalised = (first_learned(record, curve, split) for split in ("train", "validation"))
    end = math.inf if generalised is None else generalised
    waiting = [] if memorised is None else [curve[step] for step in curve if memorised <= step < end]
    delay = record.late_generalisation_steps
    still_waiting = memorised is not None and delay is None
    return Row(
        family=record.task,
        level=record.level,
        seen_fraction=record.train_examples / content,
        train_examples=record.train_examples,
        seed=record.seed,
        answer_bits=number(record.demand_answer_bits),
        validation_skill=number(record.skill),
        gap=record.generalisation_gap,
        entropy_bits=record.entropy_bits,
        delay_steps=record.train_steps - memorised if still_waiting and memorised is not None else delay,
        still_waiting=still_waiting,
        waiting_entropy_bits=median(one.get(("validation", "entropy_bits")) for one in waiting),
        waiting_cross_entropy_bits=median(one.get(("validation", "cross_entropy_bits")) for one in waiting),
    )


def first_learned(
    record: RunRecord, curve: Mapping[int, Mapping[tuple[str, str], float]], split: str
) -> int | None:
    """The first step at which a split's skill counts as learned."""
    floor, ceiling = number(record.score_floor), number(record.score_ceiling)
    least = floor + LEARNED * (ceiling - floor)
    return min(
        (step for step, found in curve.items() if found.get((split, "score"), 0) >= least), default=None
    )


def number(value: float | None) -> float:
    """A number that every run has which was judged."""
    assert value is not None
    return value


def median(values: Iterable[float | None]) -> float | None:
    """The median of what is known, or None."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.median(known) if known else None


def middle_delay(rows: Sequence[Row]) -> tuple[int | None, bool]:
    """The median delay, and whether it is only a least one; who still waits counts as longest."""
    known = [(one.still_waiting, one.delay_steps) for one in rows if one.delay_steps is not None]
    if not known:
        return None, False
    still_waiting, steps = statistics.median_high(known)
    return steps, still_waiting


def points(rows: Sequence[Row]) -> list[Point]:
    """The rows of each family and fraction, in their order, drawn together."""
    groups: dict[tuple[str, int, float], list[Row]] = {}
    for one in rows:
        groups.setdefault((one.family, one.level, one.seen_fraction), []).append(one)
    return [point(group) for group in groups.values()]


def point(rows: Sequence[Row]) -> Point:
    """The runs of one family and fraction."""
    skills = [one.validation_skill for one in rows]
    steps, still_waiting = middle_delay(rows)
    verdicts = [one.confidently_wrong for one in rows if one.confidently_wrong is not None]
    return Point(
        family=rows[0].family,
        level=rows[0].level,
        seen_fraction=rows[0].seen_fraction,
        train_examples=rows[0].train_examples,
        runs=len(rows),
        validation_skill=statistics.median(skills),
        lowest_skill=min(skills),
        highest_skill=max(skills),
        gap=median(one.gap for one in rows),
        entropy_bits=median(one.entropy_bits for one in rows),
        waiting_entropy_bits=median(one.waiting_entropy_bits for one in rows),
        waiting_cross_entropy_bits=median(one.waiting_cross_entropy_bits for one in rows),
        confidently_wrong=sum(verdicts),
        waited=len(verdicts),
        delay_steps=steps,
        still_waiting=still_waiting,
        never_fitted=sum(one.delay_steps is None for one in rows),
    )


def document(records: Sequence[RunRecord], rows: Sequence[Row]) -> dict[str, Any]:
    """All that is known, for `--json`."""
    drawn = points(rows)
    first = {(one.family, one.level): one for one in reversed(drawn)}  # the smallest fraction of each
    verdicts = [one.confidently_wrong for one in rows if one.confidently_wrong is not None]
    return {
        "runs": len(records),
        "failed": len(records) - len(rows),
        "few_examples_are_memorised": all((one.gap or 0) > 0.5 for one in first.values()),
        "waited": len(verdicts),
        "confidently_wrong": sum(verdicts),
        "points": [dataclasses.asdict(one) for one in drawn],
        "rows": [{**dataclasses.asdict(one), "confidently_wrong": one.confidently_wrong} for one in rows],
    }


# ── how it looks ─────────────────────────────────────────────────────────────────────────────────


def line(one: Point) -> str:
    """One point as a line of the table."""
    skills = f"{one.validation_skill:.2f} [{one.lowest_skill:.2f}, {one.highest_skill:.2f}]"
    delay = "–" if one.delay_steps is None else f"{'≥' if one.still_waiting else ''}{one.delay_steps}"
    waiting = (one.waiting_entropy_bits, one.waiting_cross_entropy_bits)
    cells = [f"{one.seen_fraction:.2f}", str(one.train_examples), skills, *map(cell, (one.gap, *waiting))]
    cells += [f"{one.confidently_wrong} of {one.waited}", cell(one.entropy_bits), delay]
    return laid_out([*cells, f"{one.never_fitted} of {one.runs}"])


def cell(value: float | None) -> str:
    """A number, or a dash for one that there is not."""
    return "–" if value is None else f"{value:.2f}"


def laid_out(cells: Sequence[str]) -> str:
    """Cells under one another, ranged right."""
    widths = (5, 8, 20, 6, 8, 8, 9, 8, 7, 9)
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def table(rows: Sequence[Row]) -> str:
    """Medians over the runs, one line a fraction."""
    head = ["seen", "examples", "skill [least, most]", "gap", "waiting", "waiting", "sure and", "entropy"]
    units = ["", "", "", "", "entropy", "surprise", "wrong", "at end"]
    lines: list[str] = []
    for family, level in dict.fromkeys((one.family, one.level) for one in rows):
        own = [one for one in rows if (one.family, one.level) == (family, level)]
        lines += [f"{family} at {level}: an answer has {own[0].answer_bits:.2f} bits"]
        lines += [laid_out([*head, "delay", "never"]), laid_out([*units, "steps", "fitted"])]
        lines += [*map(line, points(own)), ""]
    return "\n".join(lines)


def draw(rows: Sequence[Row], file: Path) -> None:
    """The four quantities against the seen fraction, a family a column; marks are runs, lines medians."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    families = list(dict.fromkeys((one.family, one.level) for one in rows))
    style: dict[Any, Any] = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context({**style, "svg.hashsalt": "ullage", "svg.fonttype": "none"}):
        figure = Figure(figsize=(3.4 * len(families) + 0.6, 9.0), layout="constrained")
        panels = figure.subplots(4, len(families), sharex=True, sharey="row", squeeze=False)
        for column, (family, level) in enumerate(families):
            own = [one for one in rows if (one.family, one.level) == (family, level)]
            for axes, (panel, _) in zip(panels[:, column], PANELS, strict=True):
                panel(axes, own)
            panels[0, column].set_title(f"{family}, level {level}")
            panels[-1, column].set_xlabel("seen fraction of the training content")
        for axes, (_, label) in zip(panels[:, 0], PANELS, strict=True):
            axes.set_ylabel(label)
        for axes in panels.flat:
            _fractions(axes, rows)
        _legends(figure, panels)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _fractions(axes: Any, rows: Sequence[Row]) -> None:
    """An axis on which every fraction has as much room as its ratio to the next, and its number."""
    ticks = sorted({round(one.seen_fraction, 2) for one in rows})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _legends(figure: Any, panels: Any) -> None:
    """Below the figure, where no run can be: what the marks of the two lower rows mean."""
    known = {
        label: handle
        for axes in panels[2:].flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        known.values(), known.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=8
    )


def _skill(axes: Any, rows: Sequence[Row]) -> None:
    axes.axhline(0, **GUESS)
    _marks(axes, rows, lambda one: one.validation_skill, AT_END)
    _medians(axes, rows, lambda one: one.validation_skill, AT_END)


def _gap(axes: Any, rows: Sequence[Row]) -> None:
    axes.axhline(0, **GUESS)
    _marks(axes, rows, lambda one: one.gap, AT_END)
    _medians(axes, rows, lambda one: one.gap, AT_END)


def _entropy(axes: Any, rows: Sequence[Row]) -> None:
    axes.axhline(1, **GUESS, label="a guess")
    waiting, at_end = _share(lambda one: one.waiting_entropy_bits), _share(lambda one: one.entropy_bits)
    _marks(axes, rows, waiting, WAITING, "while the run waits; the line is the median")
    _medians(axes, rows, waiting, WAITING, "--")
    _marks(axes, rows, at_end, AT_END, "at the end of the run; the line is the median")
    _medians(axes, rows, at_end, AT_END)


def _share(value: Callable[[Row], float | None]) -> Callable[[Row], float | None]:
    """An entropy as a share of that of a guess, so that families can stand side by side."""

    def share(one: Row) -> float | None:
        found = value(one)
        return None if found is None else found / one.answer_bits

    return share


def _delay(axes: Any, rows: Sequence[Row]) -> None:
    ended = [one for one in rows if not one.still_waiting]
    waiting = [one for one in rows if one.still_waiting]
    _marks(axes, ended, lambda one: one.delay_steps, SEEN, "delay that was seen")
    _marks(axes, waiting, lambda one: one.delay_steps, AT_LEAST, "at least so long: waits at the step limit")
    fitted_nothing = [one for one in rows if one.delay_steps is None]
    at_top = {**NEVER_FITTED, "transform": axes.get_xaxis_transform()}
    _marks(axes, fitted_nothing, lambda one: 0.98, at_top, "no delay: training questions not learned")
    middles = [(one.seen_fraction, one.delay_steps) for one in points(rows) if one.delay_steps is not None]
    if middles:
        label = "median delay; who waits counts as longest"
        axes.plot(*zip(*middles, strict=True), color=GUESS["color"], linewidth=1.3, label=label, zorder=1)
    axes.set_ylim(bottom=-70)


def _marks(
    axes: Any,
    rows: Sequence[Row],
    value: Callable[[Row], float | None],
    look: Mapping[str, Any],
    label: str | None = None,
) -> None:
    """A mark a run."""
    known = [(one.seen_fraction, found) for one in rows if (found := value(one)) is not None]
    if known:
        axes.plot(*zip(*known, strict=True), linestyle="", markersize=5, label=label, **look)


def _medians(
    axes: Any,
    rows: Sequence[Row],
    value: Callable[[Row], float | None],
    look: Mapping[str, Any],
    linestyle: str = "-",
) -> None:
    """A line through the medians."""
    places = sorted({one.seen_fraction for one in rows if value(one) is not None})
    middles = [median(value(one) for one in rows if one.seen_fraction == place) for place in places]
    axes.plot(places, middles, color=look["color"], linewidth=1.3, linestyle=linestyle)


PANELS = (
    (_skill, "validation skill"),
    (_gap, "generalisation gap, skill"),
    (_entropy, "output entropy on validation,\nshare of a guess's bits"),
    (_delay, "delay, steps"),
)


# ── the command ──────────────────────────────────────────────────────────────────────────────────


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", choices=tuple(BUDGETS), default="full")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", type=Path, help="keep the runs here and go on with them later")
    parser.add_argument("--figure", type=Path, help="draw here; the suffix says svg, pdf or png")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def note(planned: Planned, record: RunRecord) -> None:
    """Tell on stderr that a run has ended."""
    skill = "–" if record.skill is None else f"{record.skill:.2f}"
    where = f"{planned.family} {record.train_examples} examples, seed {record.seed}"
    ended = f"skill {skill} after {record.train_steps} steps, {record.seconds:.0f} s"
    print(f"{where}: {ended} ({record.reason or record.status})", file=sys.stderr, flush=True)


def main() -> None:
    """Train what the store does not hold, print the table, draw the figure."""
    chosen = arguments()
    budget = BUDGETS[chosen.budget]()
    contents = {task.family: training_data(task).count for task in budget.tasks}
    planned = plan(budget, contents)
    with tempfile.TemporaryDirectory() as scratch:
        study = Study([Listed(planned)], open_store(chosen.store or Path(scratch, "store")))
        study.run(make_executor(chosen.workers), Watcher(ended=note))
        records = [study.records[one.job.run_id] for one in planned]
        rows = data(records, study.store.curves(), contents)
    told = document(records, rows)
    if chosen.figure:
        draw(rows, chosen.figure)
    if chosen.json:
        json.dump(told, sys.stdout, indent=1)
        return
    print(table(rows))
    print(f"{told['confidently_wrong']} of {told['waited']} runs were sure and wrong while they waited.")
    print(f"{told['failed']} of {told['runs']} runs failed.")


if __name__ == "__main__":
    main()
