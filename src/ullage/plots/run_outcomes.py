"""How runs ended: what is evidence, what is not, and why."""

import collections
from typing import TYPE_CHECKING

from ullage import chart
from ullage.material import Material
from ullage.plot import Plot, Rows
from ullage.record import EVIDENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RunOutcomes(Plot):
    """A bar for each way to end."""

    section = "failures"
    title = "How the runs ended"
    columns = ("phase", "status", "evidence", "runs")

    def data(self, material: Material) -> Rows:
        counts = collections.Counter((record.phase, record.status) for record in material.records)
        rows = [
            {"phase": str(phase), "status": str(status), "evidence": status in EVIDENCE, "runs": count}
            for (phase, status), count in counts.items()
        ]
        return sorted(rows, key=lambda row: (row["phase"], -row["runs"]))

    def caption(self, rows: Rows) -> str:
        lost = sum(row["runs"] for row in rows if not row["evidence"] and row["status"] != "pruned")
        total = sum(row["runs"] for row in rows)
        failed = f"{lost} of {total} runs failed" if lost else f"None of {total} runs failed"
        return (
            f"Final runs judge a recipe on fresh seeds, search runs look for it. {failed}; a run that "
            "diverged counts with the score it ended at, a trial that was pruned lost to its rivals."
        )

    def tall(self, rows: Rows) -> float:
        return 0.55 + 0.22 * max(len(rows), 2)

    def draw(self, axes: "Axes", rows: Rows) -> None:
        chart.rows_axis(axes, [f"{row['phase']}, {row['status'].replace('_', ' ')}" for row in rows])
        for place, row in enumerate(rows):
            face = chart.BLUE if row["evidence"] else "none"
            axes.barh(place, row["runs"], 0.55, color=face, edgecolor=chart.BLUE, linewidth=0.8)
            axes.annotate(
                str(row["runs"]), (row["runs"], place), (4, 0), textcoords="offset points", va="center"
            )
        axes.set_xlim(0, max(row["runs"] for row in rows) * 1.18)
        axes.set_xlabel("runs")
