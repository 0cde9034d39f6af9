"""The optimism of searches: how winners looked when they won, and on fresh seeds."""

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ullage import chart
from ullage.importance import point_of
from ullage.material import Material
from ullage.plot import Plot, Rows, grouped
from ullage.record import Phase, RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SearchOptimism(Plot):
    """A panel for each learner and family, a line for each level that was searched and judged."""

    section = "search"
    title = "Winners of a search on fresh seeds"
    columns = ("family", "model", "level", "searched", "judged", "trials", "runs")

    def data(self, material: Material) -> Rows:
        """Of each level the best skill of the winning recipe in its search, and its mean on fresh seeds."""
        names = chart.short_names(sorted({record.model_id for record in material.spent}))
        places: dict[tuple[Any, ...], list[RunRecord]] = {}
        for record in material.spent:
            place = (record.task, record.model_id, record.study, record.level)
            places.setdefault(place, []).append(record)
        rows = [
            {"family": family, "model": names[model], "level": level, **told}
            for (family, model, _, level), records in places.items()
            if (told := _told(records))
        ]
        return sorted(rows, key=lambda row: (row["family"], row["model"], row["level"]))

    def caption(self, rows: Rows) -> str:
        gap = statistics.fmean(row["searched"] - row["judged"] for row in rows)
        return (
            "The best skill of the recipe that won a search (hollow) and its mean skill on fresh seeds and "
            f"unseen questions (full), level by level. Winners looked {gap:+.2f} better than they were, on "
            "average: a skill taken from a search would promise too much, so none is counted as evidence "
            "here."
        )

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        groups = grouped(rows, "family", "model")
        return {f"{family} · {model}": part for (family, model), part in groups.items()}

    def tall(self, rows: Rows) -> float:
        return 0.75 + 0.17 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        chart.rows_axis(axes, [f"level {row['level']}" for row in rows])
        axes.set_xlim(-0.06, 1.06)
        axes.set_xlabel("skill")
        for place, row in enumerate(rows):
            ends = [row["searched"], row["judged"]]
            axes.plot(ends, [place, place], color=chart.RULE, linewidth=2)
            axes.plot(
                row["searched"], place, "o", color=chart.RED, markerfacecolor=chart.PAPER, markersize=4.5
            )
            axes.plot(row["judged"], place, "o", color=chart.BLUE, markersize=4.5)


def _told(records: list[RunRecord]) -> dict[str, Any] | None:
    """What a search promised of the recipe that was judged last, and what came of it."""
    finals = [record for record in records if record.is_evidence]
    latest = max((record.recipe_round for record in finals), default=0)
    judged = [record for record in finals if record.recipe_round == latest]
    trials = [
        record
        for record in records
        if record.phase == Phase.SEARCH and record.skill is not None and record.status != "failed"
    ]
    if not judged:
        return None
    recipe = point_of(judged[0])
    skills = [record.skill or 0.0 for record in trials if point_of(record) == recipe]
    if not skills:
        return None
    return {
        "searched": max(skills),
        "judged": statistics.fmean(record.skill or 0.0 for record in judged),
        "trials": len(trials),
        "runs": len(judged),
    }
