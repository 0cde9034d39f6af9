"""Learning near the boundary: skill, loss and certainty of runs, on trained and on unseen questions."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows, grouped
from ullage.record import LEARNED, RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {"skill": "skill", "cross_entropy_bits": "loss, bits", "entropy_bits": "entropy of the answers, bits"}
SPLITS = ("train", "validation")


class LearningCurves(Plot):
    """A panel for each quantity of a family near its boundary; a run is a line."""

    section = "learning"
    title = "How runs near the boundary learn"
    columns = ("family", "level", "run_id", "learned", "quantity", "split", "step", "value")

    def data(self, material: Material) -> Rows:
        """The curves of the material as rows; accuracy as skill, so that guessing is nought."""
        records = {record.run_id: record for record in material.records}
        return [
            _row(records[curve.run_id], name, split, curve.step, curve.value)
            for name, split, curve in _chosen(material)
            if curve.run_id in records
        ]

    def caption(self, rows: Rows) -> str:
        runs = {row["run_id"]: row["learned"] for row in rows}
        learned = sum(runs.values())
        return (
            "Runs at the levels nearest to the boundary. Solid blue: questions that were trained on; "
            "dashed red: others, held back. Where the two part, the run memorises; where the dashed line "
            "follows late, it generalises late. Entropy that stays high is a model that does not know; "
            f"that falls without skill, one that is sure and wrong. {learned} of {len(runs)} runs shown "
            "learned."
        )

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        order = list(SHOWN)
        groups = sorted(
            grouped(rows, "family", "level", "quantity").items(),
            key=lambda item: (order.index(item[0][2]), item[0][0], item[0][1]),
        )
        return {
            f"{family} at level {level}: {SHOWN[quantity]}": part
            for (family, level, quantity), part in groups
        }

    def draw(self, axes: "Axes", rows: Rows) -> None:
        quantity = rows[0]["quantity"]
        for (split, _), part in grouped(rows, "split", "run_id").items():
            colour, _, dash = chart.SERIES[SPLITS.index(split)]
            ordered = sorted(part, key=lambda row: row["step"])
            steps, values = [row["step"] for row in ordered], [row["value"] for row in ordered]
            mark = "o" if len(steps) == 1 else ""
            axes.plot(steps, values, color=colour, linestyle=dash, linewidth=0.9, marker=mark, alpha=0.8)
        axes.set_xlabel("training step")
        axes.set_xlim(left=0)
        if quantity == "skill":
            chart.skill_axis(axes)
            axes.set_ylim(bottom=min(-0.06, *(row["value"] - 0.06 for row in rows)))
        else:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(SHOWN[quantity].rpartition(" of the ")[0] or SHOWN[quantity])


def _chosen(material: Material) -> Iterator[tuple[str, str, Any]]:
    for curve in material.curves:
        name = "skill" if curve.metric == "score" else curve.metric
        if name in SHOWN and curve.split in SPLITS and not math.isnan(curve.value):
            yield name, curve.split, curve


def _row(record: RunRecord, quantity: str, split: str, step: int, value: float) -> dict[str, Any]:
    floor, ceiling = record.score_floor or 0.0, record.score_ceiling or 1.0
    if quantity == "skill":
        value = (value - floor) / ((ceiling - floor) or 1.0)
    return {
        "family": record.task,
        "level": record.level,
        "run_id": record.run_id,
        "learned": (record.skill or 0.0) >= LEARNED,
        "quantity": quantity,
        "split": split,
        "step": step,
        "value": value,
    }
