"""How documents look on a terminal: tables and sentences from the JSON of a verb, nothing computed.

>>> number(48123.0)
'48.1 k'
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Document = Mapping[str, Any]


def number(value: float) -> str:
    """A number with three figures and a thousand's letter."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size * 10 or (abs(value) >= size > 1e3):
            return f"{value / size:.3g}{letter}"
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}"


def interval(document: Document) -> str:
    """An interval in brackets; an end that is not bounded is told in words.

    >>> interval({"median": None, "low": 512.0, "high": None})
    'at least 512'
    """
    median, low, high = document["median"], document["low"], document["high"]
    if low is None and high is None:
        return "not bounded"
    if high is None:
        return f"at least {number(low)}"
    if low is None:
        return f"at most {number(high)}"
    if median is None:
        return f"[{number(low)}, {number(high)}]"
    return f"{number(median)} [{number(low)}, {number(high)}]"


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


# ── measure ───────────────────────────────────────────────────────────────────────────────────────


def measured(document: Document) -> RenderableType:
    """The verdict of `measure`: a line a family, then what the numbers mean."""
    lines = [head(document), "", family_table(document), "", *_sentences(document), *_warnings(document)]
    return Group(*(Text(line) if isinstance(line, str) else line for line in lines))


def head(document: Document) -> str:
    """The model and the effort in one line."""
    model = document["model"]
    shape = (
        f"{model['layers']} layers, {model['heads']} heads of {model['d_head']}, d_model {model['d_model']}"
    )
    size = f"{model['precision_bits']} bit, {number(model['parameters'])} parameters"
    effort = f"effort {document['effort']}: {document['step_limit']} steps, {document['seeds']} seeds"
    return f"{model['model_id']}: {shape}, {size}; {effort}"


def family_table(document: Document) -> Table:
    """One line a family: the largest level learned, the boundary, its bits, the runs behind it."""
    table = _table("family", "learned up to", "boundary [90 %]", "bits [90 %]", "notion", "runs")
    for name, family in document["tasks"].items():
        learned = [row["level"] for row in family["levels"] if row["learned"]]
        runs = sum(row["runs"] for row in family["levels"])
        notion = nominal_notion(family)
        bits = family["capacity_bits"].get(notion)
        table.add_row(
            name + ("" if family["monotone"] else " *"),
            str(max(learned)) if learned else "none",
            interval(family["boundary_level"]),
            interval(bits) if bits else "not bounded",
            notion or "none",
            str(runs),
        )
    return table


def nominal_notion(family: Document) -> str | None:
    """The notion that a family's levels are told in."""
    return family["nominal"]


def _sentences(document: Document) -> list[str]:
    notion, capacity = document["demand_notion"], interval(document["capacity_bits"])
    which = "each in its own notion of bits" if notion == "nominal" else f"in {notion} bits"
    families = ", ".join(document["families"]) or "none"
    meaning = f"what the typical of these families ({families}) demands, {which}"
    lines = [f"C = {capacity} bits: {meaning}, when runs at this effort learn half of it."]
    if notion == "nominal":
        lines.append("C mixes notions, so it compares models and techniques; by notion:")
    shares = [_share_line(name, found) for name, found in document["by_notion"].items() if found["families"]]
    return lines + shares + _budget_sentences(document["budgets"])


def _budget_sentences(budgets: Document) -> list[str]:
    bandwidth, weights, storage = (
        number(budgets[name]) for name in ("bandwidth_bits", "weight_bits", "storage_bits")
    )
    width = "what one position can pass on in one layer, a width and not a store"
    held = "answer, input and context demands are held against it"
    stored = f"about {storage} of them can store (3.6 a parameter, Morris et al. 2025)"
    return [
        f"Bandwidth = {bandwidth} bits (heads · d_head · precision): {width}; {held}.",
        f"Weights = {weights} bits (parameters · precision); {stored}; storage demands face both.",
    ]


def _share_line(notion: str, found: Document) -> str:
    shares = ", ".join(f"{_percent(share)} of the {budget}" for budget, share in found["utilisation"].items())
    families = ", ".join(found["families"])
    return f"  {notion}: {interval(found['capacity_bits'])} bits ({families}), {shares}"


def _percent(share: Document) -> str:
    scaled = {end: None if value is None else 100 * value for end, value in share.items()}
    return interval(scaled) + " %"


def _warnings(document: Document) -> list[str]:
    lines = []
    if not all(family["monotone"] for family in document["tasks"].values()):
        lines.append(
            "* not monotone: a level was learned above one that fails; the boundary is a summary only."
        )
    bad = {name: count for name, count in document["runs"].items() if name != "finished"}
    if bad:
        told = ", ".join(f"{count} {name}" for name, count in bad.items())
        lines.append(f"Runs that did not finish: {told}; `ullage status` tells why.")
    if not document["complete"]:
        lines.append("Not all runs were made; the same command goes on where this one stopped.")
    runs = f"{sum(document['runs'].values())} runs ({document['new_runs']} new)"
    cost = f"{number(document['train_steps'])} steps, {document['seconds']:.0f} s"
    lines.append(f"{runs}, {cost}; store: {document['store']}")
    return lines


# ── the other verbs ───────────────────────────────────────────────────────────────────────────────


def stored(document: Document) -> RenderableType:
    """The answer of `status`."""
    counts = ", ".join(f"{count} {name}" for name, count in document["by_status"].items()) or "none yet"
    runs = f"{document['records']} runs ({counts}), {document['finals']} final"
    lines = [f"{document['store']}: {runs}, {number(document['seconds'])} s of training"]
    lines += [f"  {name}: {count}" for name, count in document["by_task"].items()]
    if not document["records"]:
        lines.append("Nothing is stored here; `ullage measure` makes runs.")
    if document["damaged_lines"]:
        damaged = f"{document['damaged_lines']} damaged lines were passed over"
        lines.append(f"{damaged}; the command that made them makes what they held again.")
    if not document["failures"]:
        return Text("\n".join(lines))
    table = _table("failed run", "task", "level", "status", "reason")
    for failure in document["failures"]:
        table.add_row(*(str(failure[key]) for key in ("run_id", "task", "level", "status", "reason")))
    lines.append("`ullage measure --retry failed` makes only these again.")
    return Group(Text("\n".join(lines)), Text(), table)


def listed(document: list[dict[str, Any]]) -> RenderableType:
    """The answer of `list`."""
    return Group(*(part for member in document for part in _member(member))) if document else Text("none yet")


def _member(member: Document) -> list[Text]:
    title = Text(member["name"], style="bold").append(f"  {member['summary']}", style="not bold")
    lines = []
    if "levels" in member:
        lines.append(f"{member['nominal']} bits; levels {', '.join(map(str, member['levels']))}")
    lines += [
        f"{one['name']}={one['default']}  {one['meaning']}; {one['allowed']}" for one in member["knobs"]
    ]
    for preset, chosen in member.get("presets", {}).items():
        lines.append(f"preset {preset}: " + ", ".join(f"{name}={value}" for name, value in chosen.items()))
    return [title, *(Text(f"    {line}") for line in lines)]


def checked(document: Document) -> RenderableType:
    """The answer of `check`: one line a clause."""
    lines = [_clause(clause) for clause in document["clauses"]]
    broken = sum(not clause["passed"] for clause in document["clauses"])
    verdict = (
        f"breaks {broken} clauses of its contract; mend them and check again"
        if broken
        else "keeps its contract"
    )
    return Group(*lines, Text(f"{document['name']} {verdict}."))


def _clause(clause: Document) -> Text:
    told = f"{clause['clause']}: {clause['why']}" if clause["why"] else clause["clause"]
    return Text(f"ok      {told}") if clause["passed"] else Text(f"BROKEN  {told}", style="bold")


def exported(document: Document) -> RenderableType:
    """The answer of `export`."""
    return Text(
        f"{document['file']}: {document['rows']} rows of {document['table']} from {document['store']}"
    )
