"""The difficulty of families: how far their boundaries lie below the typical one."""

from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class FamilyDifficulty(Plot):
    """A line for each family, the hardest on top."""

    section = "boundaries"
    place = 2
    title = "Difficulty of the families"
    columns = ("family", "median", "low", "high", "trusted")

    def data(self, material: Material) -> Rows:
        tasks = material.document.get("tasks", {})
        if len(tasks) < 2:
            return []  # one family is as hard as itself
        rows = [
            {"family": name, **task["difficulty"], "trusted": material.trusted}
            for name, task in tasks.items()
        ]
        return sorted(rows, key=lambda row: -row["median"])

    def caption(self, rows: Rows) -> str:
        hardest, easiest = rows[0], rows[-1]
        return (
            "By how many log2 bits the boundary of a family lies below that of the typical one, with 90 %: "
            f"one to the right means half as many bits. The hardest is {chart.label(hardest['family'])}, "
            f"the easiest {chart.label(easiest['family'])}. Only differences can be observed, so they sum "
            "to zero; where families count in different notions, the scale of the notion is in them."
        )

    def tall(self, rows: Rows) -> float:
        return 0.6 + 0.22 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        chart.rows_axis(axes, [row["family"] for row in rows])
        values = [row[name] for row in rows for name in ("low", "high") if row[name] is not None] or [0.0]
        margin = 0.5 + 0.05 * (max(values) - min(values))
        ends = (min(*values, 0.0) - margin, max(*values, 0.0) + margin)
        axes.set_xlim(*ends)
        axes.axvline(0, color=chart.RULE, linewidth=0.8, zorder=0)
        axes.set_xlabel("easier  ←  difficulty, log2 bits  →  harder")
        for place, row in enumerate(rows):
            chart.whisker(axes, row, place, ends)
