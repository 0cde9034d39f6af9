"""Capacity beside budgets: how much of what a model offers was filled."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ullage import chart
from ullage.budget import COMPARED
from ullage.material import Material, budget_bits, model_names
from ullage.plot import Plot, Row, Rows, grouped, span
from ullage.readoff import learners

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BudgetHeadroom(Plot):
    """A panel for each notion of demand and budget, a line for each learner."""

    section = "capacity"
    title = "Capacity beside the budgets"
    columns = (
        "notion",
        "families",
        "model_id",
        "technique",
        "model",
        "budget",
        "budget_bits",
        "median",
        "low",
        "high",
        "trusted",
    )
    width = 3.5

    def data(self, material: Material) -> Rows:
        """C is None on a side that the runs do not bound."""
        rows = []
        for notion, document in material.documents.items():
            conditions = material.by_notion[notion].conditions
            names = model_names(conditions.models)
            for (place, _), model in zip(learners(conditions), document["models"], strict=True):
                for budget in COMPARED[notion]:
                    offered = budget_bits(model, budget)
                    if offered is not None:
                        rows.append(_row(notion, document, model, budget, offered))
                        rows[-1]["model"] = names[conditions.models[place]] + rows[-1]["model"]
        order = {learner.model_id: place for place, learner in enumerate(material.learners)}
        return sorted(rows, key=lambda row: (row["notion"], row["budget"], order.get(row["model_id"], 0)))

    def caption(self, rows: Rows) -> str:
        del rows
        return (
            "The pale bar is the budget, the blue interval is C with 90 %: what lies between them is "
            "ullage, the part that is not filled. Each notion of demand is held against its own budgets "
            "and no others. The axes are logarithmic, so a bar that is half covered is not half full: the "
            "share stands at the right."
        )

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        groups = grouped(rows, "notion", "budget")
        return {
            f"{notion} bits in the {budget}: {part[0]['families']}": part
            for (notion, budget), part in groups.items()
        }

    def tall(self, rows: Rows) -> float:
        return 0.62 + 0.23 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        low, high = span([row[name] for row in rows for name in ("low", "high", "median", "budget_bits")])
        ends = (min(low, high / 4), high)
        chart.logarithmic(axes, *ends, most=4)
        chart.rows_axis(axes, [row["model"] for row in rows])
        axes.set_xlabel("bits")
        for place, row in enumerate(rows):
            axes.barh(place, row["budget_bits"] - ends[0], 0.62, left=ends[0], color=chart.RULE, alpha=0.7)
            chart.whisker(axes, row, place, (ends[0], row["budget_bits"]))
            axes.text(1.05, place, _share(row), va="center", transform=axes.get_yaxis_transform())


def _row(
    notion: str, document: Mapping[str, Any], model: Mapping[str, Any], budget: str, offered: float
) -> dict[str, Any]:
    technique = model["technique"]
    return {
        "notion": notion,
        "families": ", ".join(document["families"]),
        "model_id": model["model_id"],
        "technique": technique,
        "model": "" if technique == "none" else f" + {technique}",
        "budget": budget,
        "budget_bits": offered,
        **model["capacity_bits"],
        "trusted": document["diagnostics"]["trusted"],
    }


def _share(row: Row) -> str:
    """The share that is filled, as a word: an end that is not bounded is told by a sign."""
    for end, sign in (("median", ""), ("low", "≥ "), ("high", "≤ ")):
        if row[end] is not None:
            return f"{sign}{100 * row[end] / row['budget_bits']:.2g} %"
    return ""
