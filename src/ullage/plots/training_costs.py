"""What it cost: the work of all trainings, by family."""

import collections
from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows, span
from ullage.present import counted, duration, number
from ullage.record import Phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TrainingCosts(Plot):
    """A line for each family: the work of searching and of judging."""

    section = "costs"
    title = "Work by family"
    columns = ("family", "phase", "runs", "train_steps", "train_flops", "seconds")

    def data(self, material: Material) -> Rows:
        totals: dict[tuple[str, str], list[float]] = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
        for record in material.records:
            spent = (1, record.train_steps, record.train_flops or 0.0, record.seconds)
            place = (record.task, str(record.phase))
            totals[place] = [sum(pair) for pair in zip(totals[place], spent, strict=True)]
        names = ("runs", "train_steps", "train_flops", "seconds")
        return [
            {"family": family, "phase": phase, **dict(zip(names, totals[family, phase], strict=True))}
            for family, phase in sorted(totals)
        ]

    def caption(self, rows: Rows) -> str:
        runs, steps, flops, seconds = (
            sum(row[name] for row in rows) for name in ("runs", "train_steps", "train_flops", "seconds")
        )
        clock = f", {duration(seconds)} of training" if seconds else "; the time was not kept"
        return (
            "Floating-point operations of all trainings, forward and backward, on a logarithmic axis. In "
            f"all {counted(runs, 'run')}, {number(steps)} steps, {number(flops)} FLOPs{clock}."
        )

    def tall(self, rows: Rows) -> float:
        return 0.6 + 0.22 * max(len({row["family"] for row in rows}), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        names = sorted({row["family"] for row in rows})
        chart.logarithmic(axes, *span([row["train_flops"] for row in rows], 1.6))
        chart.rows_axis(axes, names)
        axes.set_xlabel("FLOPs")
        for row in rows:
            colour, mark, _ = chart.SERIES[row["phase"] == Phase.SEARCH]
            face = colour if row["phase"] == Phase.FINAL else chart.PAPER
            if row["train_flops"]:
                place = names.index(row["family"])
                axes.plot(row["train_flops"], place, mark, color=colour, markerfacecolor=face, markersize=4.5)
        if len({row["phase"] for row in rows}) > 1:
            for phase, (colour, mark, _) in zip(Phase, chart.SERIES[1::-1], strict=False):
                face = colour if phase == Phase.FINAL else chart.PAPER
                axes.plot([], [], mark, color=colour, markerfacecolor=face, markersize=4.5, label=str(phase))
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.2)
