"""The importance of the knobs of a recipe, as the searches tell it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows, grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class KnobImportance(Plot):
    """A panel for each family, a bar for each knob."""

    section = "search"
    place = 1
    title = "Which knobs mattered"
    columns = ("family", "knob", "share", "trials")

    def data(self, material: Material) -> Rows:
        return sorted(material.importances, key=lambda row: (row["family"], -row["share"]))

    def caption(self, rows: Rows) -> str:
        trials = {row["family"]: row["trials"] for row in rows}
        fewest = min(trials.values())
        return (
            "Each knob's share in what sets the best trials of a search apart from the others (PED-ANOVA, "
            "by Optuna; shares sum to one). Trials are compared within their level. The fewest trials of a "
            f"family are {fewest}: "
            + ("take this as a rumour." if fewest < 30 else "enough for the order of the first two or three.")
        )

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        return {
            f"{family} ({part[0]['trials']} trials)": part
            for (family,), part in grouped(rows, "family").items()
        }

    def tall(self, rows: Rows) -> float:
        return 0.6 + 0.19 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        chart.rows_axis(axes, [str(row["knob"]).replace("_", " ") for row in rows])
        axes.barh(range(len(rows)), [row["share"] for row in rows], 0.55, color=chart.BLUE)
        axes.set_xlim(0, max(0.05, *(row["share"] for row in rows)) * 1.05)
        axes.set_xlabel("share of the importance")
