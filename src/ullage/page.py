"""The page of a report: sections and figures in one file that needs nothing but itself.

    material ──▶ sections ──template──▶ one HTML file: no network, no server, opened by a double click

What stands in a section is data until the very end; the template escapes every text, so that a task or a file
may be called whatever a user likes. Figures come from all plots that say they belong to a section.

(Not called `report`: a module of that name would hide the function `ullage.report`.)

>>> "What to do" in page(Material())
True
"""

import base64
import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ullage.chart import markup, pdf_file, svg_file
from ullage.errors import BadInput
from ullage.material import Material
from ullage.plot import Plot, Rows, csv_text, every_plot
from ullage.sections import WEB, Figure, Panel, Section, sections
from ullage.verdict import doubts, effort_told, headline

MOST_PANELS = 48  # of a figure on the page; `--figures` draws all of them
PIXELS = 96  # an inch of a browser


def illustrated(found: Iterable[Section], material: Material) -> list[Section]:
    """The sections with their figures; one that has nothing at all to say is left out."""
    plots = every_plot()
    rows = {name: plot.data(material) for name, plot in plots.items()}
    illustrated_sections, count = [], 0
    for section in found:
        figures = []
        for name, plot in plots.items():
            if plot.section == section.key and rows[name]:
                count += 1
                figures.append(figure_of(plot, name, rows[name], count))
        full = dataclasses.replace(section, figures=tuple(figures))
        said = (full.lead, full.tables, full.statements, full.facts, full.listing, full.figures)
        if any(said):
            illustrated_sections.append(full)
    return illustrated_sections


def figure_of(plot: Plot, name: str, rows: Rows, count: int) -> Figure:
    """A plot on the page: its panels stand apart, so that they can stand below each other on a phone."""
    chosen = list(plot.panels(rows).items())
    drawn = tuple(
        Panel(title, markup(plot.panel("", part), f"{name}-{place}", f"{plot.title}: {title}"))
        for place, (title, part) in enumerate(chosen[:MOST_PANELS])
    )
    caption = plot.caption(rows)
    if len(chosen) > MOST_PANELS:
        caption += f" {MOST_PANELS} of {len(chosen)} panels are shown; `ullage report --figures` draws all."
    width = round(plot.width * PIXELS)
    first = plot.first(rows)
    return Figure(count, plot.title, caption, width, drawn[:first], drawn[first:])


def figure_files(material: Material) -> Iterable[tuple[str, bytes]]:
    """Of each plot with something to show: an SVG and a PDF for a paper, and a CSV of what is drawn."""
    for name, plot in every_plot().items():
        rows = plot.data(material)
        if rows:
            figure = plot(rows)
            yield f"{name}.svg", svg_file(figure)
            yield f"{name}.pdf", pdf_file(figure)
            yield f"{name}.csv", csv_text(plot, rows).encode()


# ── the page ──────────────────────────────────────────────────────────────────────────────────────


def page(material: Material) -> str:
    """The whole page."""
    import jinja2

    script = (WEB / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(WEB), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["ticked"] = ticked
    learner = material.learners[0] if material.learners else None
    return environment.get_template("page.html").render(
        title=f"ullage: {learner.name if learner else 'nothing measured yet'}",
        subtitle="how much of a model's bits a task fills",
        verdict=headline(material),
        trusted=material.trusted,
        effort=f"At {effort_told(material.effort)}." if material.posterior else "",
        doubts=doubts(material),
        sections=illustrated(sections(material), material),
        form=None if material.form is None else embedded(material.form),
        form_family=_first_family(material),
        form_model=learner.model_id if learner else "",
        form_where=material.made.get("where"),
        css=(WEB / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=f"'sha256-{digest}'",
    )


def _first_family(material: Material) -> str:
    """The family that the form begins with: the first whose boundary is known on both sides."""
    known = [
        one for one in material.document.get("capacity", []) if None not in one["capacity_bits"].values()
    ]
    return known[0]["task"] if known else ""


def ticked(text: str) -> Any:
    """A text with `words in ticks` as code, everything else escaped.

    >>> str(ticked("`ullage fit` <b>"))
    '<code>ullage fit</code> &lt;b&gt;'
    """
    from markupsafe import Markup, escape

    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def embedded(document: Mapping[str, Any]) -> str:
    """A document as JSON that no text in it can end: a script ends at its first `</`."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def write(text: str, path: Path) -> int:
    """Write the page in one go; the number of bytes."""
    data = text.encode("utf-8", errors="replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.new")
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"{path} cannot be written ({why}); choose a place that you may write to") from None
    return len(data)
