"""The contract of a plot: rows of what is to be seen, then a drawing of these rows and of nothing else.

    material ──data──▶ rows ──draw──▶ panels of one figure
                        └──▶ a CSV of exactly what is drawn

`data` is pure and is what the tests judge; `draw` is thin. A plot is a file in `plots/`, found by its name;
it says itself in which section of the report it stands. In a notebook:

    rows = ullage.plots.NAME.data(material)      or rows of your own, with the columns that it names
    figure = ullage.plots.NAME(rows)
"""

import abc
import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ullage import chart, registry
from ullage.material import Material

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Rows = Sequence[Row]
ABREAST = 2  # panels beside one another in a figure for a paper


class Plot(abc.ABC):
    """One figure, of one panel or several that share their meaning."""

    section: ClassVar[str]  # of the report
    place: ClassVar[int] = 0  # among the figures of the section
    title: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    width: ClassVar[float] = 3.3  # inches of one panel: half a page, or a phone
    height: ClassVar[float] = 2.2

    @abc.abstractmethod
    def data(self, material: Material) -> Rows:
        """What is to be seen; no rows where there is nothing."""

    @abc.abstractmethod
    def caption(self, rows: Rows) -> str:
        """What to see in it, in a sentence or three; `rows` are not empty."""

    @abc.abstractmethod
    def draw(self, axes: "Axes", rows: Rows) -> None:
        """Draw one panel; `rows` are not empty."""

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        """The rows of each panel by its title."""
        return {"": rows}

    def first(self, rows: Rows) -> int:
        """How many panels a page shows at once; the others wait behind a click."""
        del rows
        return 6

    def tall(self, rows: Rows) -> float:
        """The height of a panel in inches."""
        del rows
        return self.height

    def panel(self, title: str, rows: Rows) -> "Figure":
        """One panel as a figure of its own."""
        from matplotlib.figure import Figure

        with chart.style():
            figure = Figure(figsize=(self.width, self.tall(rows)), layout="constrained")
            self._fill(figure.subplots(), title, rows)
            return figure

    def __call__(self, rows: Rows) -> "Figure":
        """All panels as one figure for a paper."""
        from matplotlib.figure import Figure

        panels = list(self.panels(rows).items()) if rows else [("", rows)]
        across = min(ABREAST, len(panels))
        lines = [panels[start : start + across] for start in range(0, len(panels), across)]
        heights = [max(self.tall(part) for _, part in line) for line in lines]
        with chart.style():
            figure = Figure(figsize=(self.width * across, sum(heights)), layout="constrained")
            grid = figure.subplots(len(lines), across, squeeze=False, height_ratios=heights)
            for axes, panel in zip(grid.flat, panels, strict=False):
                self._fill(axes, *panel)
            for axes in list(grid.flat)[len(panels) :]:
                axes.set_axis_off()
            return figure

    def _fill(self, axes: "Axes", title: str, rows: Rows) -> None:
        if title:
            axes.set_title(chart.label(title, 48))
        if rows:
            self.draw(axes, rows)
            return
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing to show", ha="center", color=chart.QUIET, transform=axes.transAxes)


def every_plot() -> dict[str, Plot]:
    """All plots by name, in the order in which a report shows them."""
    members = {name: registry.member("plot", name)() for name in registry.names("plot")}
    return dict(sorted(members.items(), key=lambda item: (item[1].place, item[0])))


def grouped(rows: Rows, *names: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Rows by what they have in some columns, in order of appearance.

    >>> grouped([{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 1, "b": 5}], "a")[1,]
    [{'a': 1, 'b': 2}, {'a': 1, 'b': 5}]
    """
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def span(values: Iterable[float | None], margin: float = 1.25) -> tuple[float, float]:
    """The ends of a logarithmic axis that holds all these positive numbers.

    >>> span([1.0, None, 16.0], margin=2.0)
    (0.5, 32.0)
    """
    known = [value for value in values if value is not None and 0 < value < math.inf]
    return (min(known) / margin, max(known) * margin) if known else (0.5, 2.0)


def csv_text(plot: Plot, rows: Rows) -> str:
    """The rows as a CSV, with the columns that the plot names."""
    file = io.StringIO()
    writer = csv.DictWriter(file, plot.columns, extrasaction="raise", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
