"""How the document of `report` looks on a terminal: the verdict, a line a model, and where the page lies."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ullage.chart import short_names
from ullage.present import Document, counted, interval, number, plain_table
from ullage.verdict import percent


def reported(document: Document) -> RenderableType:
    """The answer of `report`: the verdict first, then what it rests on."""
    style = "bold" if document["trusted"] else "italic"
    parts: list[Any] = [Text(document["verdict"], style=style)]
    parts += [Text(f"! {doubt}") for doubt in document["doubts"]]
    if document["budgets"]:
        parts += ["", _budgets(document)]
    if len(document["models"]) > 1:
        parts += ["", _models(document)]
    return Group(*(Text(part) if isinstance(part, str) else part for part in [*parts, "", _where(document)]))


def _budgets(document: Document) -> Table:
    rows = plain_table("bits of", "C [90 %]", "budget", "filled [90 %]", "ullage")
    for row in document["budgets"]:
        offered = "" if row["budget_bits"] is None else f" {number(row['budget_bits'])}"
        style = "" if row["trusted"] and None not in row["share"].values() else "italic"
        cells = (row["notion"], interval(row["capacity_bits"]), row["budget"] + offered)
        rows.add_row(*cells, percent(row["share"]), percent(row["left"]), style=style)
    return rows


def _models(document: Document) -> Table:
    rows = plain_table("model", "technique", "C, bits [90 %]")
    names = short_names([model["model_id"] for model in document["models"]])
    for model in document["models"]:
        rows.add_row(names[model["model_id"]], model["technique"], interval(model["capacity_bits"]))
    return rows


def _where(document: Document) -> str:
    told = f"{document['report']}: {counted(document['runs'], 'run')}, {number(document['bytes'] / 1e6)} MB"
    if not document["figures"]:
        return told
    return f"{told}; {counted(len(document['figures']), 'file')} of figures"
