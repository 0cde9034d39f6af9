"""Late generalisation: how many steps pass between knowing the trained questions and knowing others."""

from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows, grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GeneralisationDelay(Plot):
    """A line for each family, a dot for each run that learned."""

    section = "learning"
    place = 1
    title = "Late generalisation"
    columns = ("family", "level", "run_id", "delay_steps", "step_limit")

    def data(self, material: Material) -> Rows:
        """No rows where no run generalised late."""
        rows = [
            {
                "family": record.task,
                "level": record.level,
                "run_id": record.run_id,
                "delay_steps": record.late_generalisation_steps,
                "step_limit": record.step_limit,
            }
            for record in material.spent
            if record.is_evidence and record.late_generalisation_steps is not None
        ]
        late = any(row["delay_steps"] > 0 for row in rows)
        return sorted(rows, key=lambda row: (row["family"], row["level"])) if late else []

    def caption(self, rows: Rows) -> str:
        late = sum(row["delay_steps"] > 0 for row in rows)
        longest = max(rows, key=lambda row: row["delay_steps"])
        told = f"{late} of {len(rows)} runs that learned knew the trained questions first"
        where = f"{chart.label(longest['family'])} at level {longest['level']}"
        return (
            f"{told}; the longest wait was {longest['delay_steps']} steps, {where}. A wait close to the "
            "step limit says that other runs may have been stopped while they waited: more steps would "
            "tell."
        )

    def tall(self, rows: Rows) -> float:
        return 0.6 + 0.24 * max(len({row["family"] for row in rows}), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        groups = grouped(rows, "family")
        chart.rows_axis(axes, [str(family) for (family,) in groups])
        axes.set_xlabel("steps between the two")
        for place, part in enumerate(groups.values()):
            axes.plot(
                [row["delay_steps"] for row in part],
                [place] * len(part),
                "o",
                markersize=4,
                markerfacecolor="none",
                markeredgecolor=chart.INK,
                markeredgewidth=0.6,
                clip_on=False,
            )
        axes.set_xlim(left=0, right=max(1, *(row["delay_steps"] for row in rows)) * 1.08)
