"""Multipliers: what techniques and ablations do to C."""

from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MultiplierForest(Plot):
    """A line for each technique, the one that raises C most on top."""

    section = "techniques"
    title = "C with a technique, as a multiple of C without"
    columns = ("technique", "median", "low", "high", "trusted")

    def data(self, material: Material) -> Rows:
        rows = [
            {"technique": name, **found, "trusted": material.trusted}
            for name, found in material.document.get("multipliers", {}).items()
        ]
        return sorted(rows, key=lambda row: -(row["median"] or 0.0))

    def caption(self, rows: Rows) -> str:
        sure = [row for row in rows if (row["low"] or 0.0) > 1 or (row["high"] or 2.0) < 1]
        told = "one" if len(sure) == 1 else str(len(sure))
        return (
            "The capacity with each technique divided by the capacity without, with 90 %, on the typical "
            f"one of the fitted families. At 1 a technique changes nothing; {told} of {len(rows)} surely "
            "does something."
        )

    def tall(self, rows: Rows) -> float:
        return 0.6 + 0.22 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        ends = span([1.0, *(row[name] for row in rows for name in ("low", "median", "high"))], 1.4)
        chart.logarithmic(axes, *ends)
        chart.rows_axis(axes, [row["technique"] for row in rows])
        axes.axvline(1, color=chart.QUIET, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0)
        axes.set_xlabel("multiplier of C")
        for place, row in enumerate(rows):
            chart.whisker(axes, row, place, ends)
