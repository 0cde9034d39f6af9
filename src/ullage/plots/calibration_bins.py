"""Whether predictions come true: how often runs learned that were said to learn with such a probability."""

from typing import TYPE_CHECKING

from ullage import chart
from ullage.calibration import reliability
from ullage.heldout import chances_by_draw
from ullage.material import Material
from ullage.plot import Plot, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CalibrationBins(Plot):
    """A dot for each fifth of the probabilities; on the diagonal, predictions come true."""

    section = "belief"
    title = "Said to learn, and did"
    columns = ("held_out", "low", "high", "predicted", "learned", "runs")
    height = 2.6

    def data(self, material: Material) -> Rows:
        """Held-out levels where a calibration is known, or else the very runs that were fitted."""
        if material.calibration:
            return [{"held_out": True, **row} for row in material.calibration["reliability"]]
        if material.posterior is None:
            return []
        return [{"held_out": False, **row} for row in fitted_reliability(material)]

    def caption(self, rows: Rows) -> str:
        seen = (
            "These runs were held out: the fit had not seen them."
            if rows[0]["held_out"]
            else "Hollow: these are the runs that were fitted, so this shows whether the curves describe "
            "them, and not whether they predict; `ullage report --calibrate` holds levels out."
        )
        return (
            "How often runs learned, against how often they were said to, in five bins of probability; the "
            f"area of a dot is its number of runs. On the diagonal, predictions come true. {seen}"
        )

    def draw(self, axes: "Axes", rows: Rows) -> None:
        axes.plot([0, 1], [0, 1], color=chart.RULE, linewidth=0.8, zorder=0)
        axes.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), aspect="equal")
        axes.set(xlabel="said to learn", ylabel="did learn")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks([0, 0.5, 1], labels=["0", "50 %", "100 %"])
        held_out = rows[0]["held_out"]
        largest = max(row["runs"] for row in rows)
        for row in rows:
            axes.plot(
                row["predicted"],
                row["learned"],
                "o",
                color=chart.BLUE,
                markerfacecolor=chart.BLUE if held_out else "none",
                markersize=3 + 8 * (row["runs"] / largest) ** 0.5,
                clip_on=False,
            )


def fitted_reliability(material: Material) -> Rows:
    """The table of `ullage.calibration`, of the runs that were fitted."""
    import numpy as np

    posterior = material.posterior
    assert posterior is not None
    conditions = posterior.conditions
    told = np.flatnonzero(conditions.runs > 0)
    chances = np.array([chances_by_draw(posterior, conditions, int(place)).mean(axis=0) for place in told])
    return reliability(conditions.counts[told], chances)
