"""Boundaries side by side: C of every model on every family."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material, unit
from ullage.plot import Plot, Rows, grouped, span
from ullage.readoff import families_of, family_capacity, tried

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BoundaryForest(Plot):
    """A panel for each family, a line for each learner."""

    section = "boundaries"
    place = 1
    title = "The boundary of every model"
    columns = (
        "family",
        "unit",
        "model",
        "technique",
        "median",
        "low",
        "high",
        "tried_low",
        "tried_high",
        "trusted",
    )

    def data(self, material: Material) -> Rows:
        posterior = material.posterior
        if posterior is None:
            return []
        rows = []
        for learner in material.learners:
            for family in families_of(posterior.conditions, learner.model, learner.technique):
                name = posterior.conditions.families[family]
                found = family_capacity(posterior, learner.model, learner.technique, family)
                ends = tried(posterior.conditions, learner.model, learner.technique, family)
                assert ends is not None
                rows.append(
                    {
                        "family": name,
                        "unit": unit(material, name),
                        "model": learner.name,
                        "technique": learner.technique_name,
                        **found.to_json(),
                        "tried_low": 2 ** ends[0],
                        "tried_high": 2 ** ends[1],
                        "trusted": material.trusted,
                    }
                )
        return sorted(rows, key=lambda row: row["family"])

    def caption(self, rows: Rows) -> str:
        open_ends = sum(None in {row["low"], row["high"]} for row in rows)
        return (
            "C with its 90 % interval, in the bits of each family: the demand at which a run is expected "
            "to learn half. The pale bar spans the demands that were tried. An interval that ends in an "
            f"arrow is bounded on one side only; so {'is' if open_ends == 1 else 'are'} {open_ends} of "
            f"{len(rows)}."
        )

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        return {str(family): part for (family,), part in grouped(rows, "family").items()}

    def tall(self, rows: Rows) -> float:
        return 0.62 + 0.21 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        ends = span([row[name] for row in rows for name in ("tried_low", "tried_high", "low", "high")])
        chart.logarithmic(axes, *ends, most=4)
        chart.rows_axis(axes, [row["model"] for row in rows])
        axes.set_xlabel(f"C, {rows[0]['unit']}")
        for place, row in enumerate(rows):
            tried_ends = [row["tried_low"], row["tried_high"]]
            axes.plot(tried_ends, [place, place], color=chart.RULE, linewidth=6, solid_capstyle="butt")
            chart.whisker(axes, row, place, ends)
