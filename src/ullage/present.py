"""How documents look on a terminal: tables and sentences from the JSON of a verb, nothing computed.

>>> number(48123.0), counted(1, "run"), counted(2, "run")
('48.1k', '1 run', '2 runs')
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ullage.record import EVIDENCE, Status

Document = Mapping[str, Any]


def number(value: float) -> str:
    """A number with three figures and a thousand's letter; up to 9999 it is written out."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 10 or (abs(value) >= size > 1e3):
            return f"{_figures(value / size, 3)}{letter}"
    return _figures(value, 4 if abs(value) >= 1000 else 3)


def _figures(value: float, count: int) -> str:
    return f"{float(f'{value:.{count}g}'):g}"  # :.3g alone would write 999.9 as 1e+03


def counted(count: int, noun: str) -> str:
    """A count with its noun in the singular or the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(seconds: float) -> str:
    """A time that a person can picture.

    >>> duration(5), duration(600), duration(10_000)
    ('5 s', '10 min', '2.8 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def interval(document: Document) -> str:
    """An interval in brackets; an end that is not bounded is told in words.

    >>> interval({"median": None, "low": 512.0, "high": None})
    'at least 512'
    """
    median, low, high = document["median"], document["low"], document["high"]
    if low is None:
        return "not bounded" if high is None else f"at most {number(high)}"
    if high is None:
        return f"at least {number(low)}"
    if median is None:
        return f"[{number(low)}, {number(high)}]"
    return f"{number(median)} [{number(low)}, {number(high)}]"


def plain_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A table without lines; the columns named in `right` are set to the right."""
    empty = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        empty.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return empty


# ── measure ───────────────────────────────────────────────────────────────────────────────────────


def measured(document: Document) -> RenderableType:
    """The verdict of `measure`: a line a family, then what the numbers mean."""
    parts = [head(document), "", family_table(document), "", *_capacity(document), ""]
    parts += [*_budget_sentences(document["budgets"]), *_search_lines(document["tasks"])]
    parts += [*_warnings(document), _cost(document)]
    return Group(*(Text(part) if isinstance(part, str) else part for part in parts))


def head(document: Document) -> str:
    """The model in one line and the effort in another."""
    model = document["model"]
    heads = f"{counted(model['heads'], 'head')} of {model['d_head']}"
    shape = f"{counted(model['layers'], 'layer')}, {heads}, d_model {model['d_model']}"
    size = f"{model['precision_bits']} bit, {counted(model['parameters'], 'parameter')}"
    spent = f"{counted(document['step_limit'], 'step')} at most, {counted(document['trials'], 'trial')}"
    effort = f"effort {document['effort']}: {spent} of a search, {document['protocol']} protocol"
    return f"{model['model_id']}: {shape}, {size}\n{effort}"


def family_table(document: Document) -> Table:
    """One line a family: the largest level learned, the boundary, its bits, the runs behind it."""
    right = ("learned up to", "runs")
    table = plain_table("family", "learned up to", "boundary [90 %]", "its bits [90 %]", "runs", right=right)
    for name, family in document["tasks"].items():
        runs = sum(row["runs"] for row in family["levels"])
        bits = family["capacity_bits"].get(family["nominal"])
        table.add_row(
            name + ("" if family["monotone"] else " *"),
            _learned(family["levels"]),
            interval(family["boundary_level"]) if runs else "no run finished",
            f"{interval(bits) if bits else 'not bounded'} {family['nominal']}",
            str(runs),
        )
    return table


def _learned(levels: Sequence[Document]) -> str:
    learned = [row["level"] for row in levels if row["learned"]]
    return str(max(learned)) if learned else "none"


def _capacity(document: Document) -> list[str]:
    notion, families = document["demand_notion"], document["families"]
    lines = ["The boundary is the level at which a run is expected to learn half."]
    if not families:
        return [*lines, f"C cannot be told: no finished run bounds a family under the notion {notion}."]
    typical = "of this family" if len(families) == 1 else "of the typical one of these families"
    which = ", each in its own notion of bits" if notion == "nominal" else f", in {notion} bits"
    meaning = f"the demand at the boundary {typical} ({', '.join(families)}){which}"
    lines.append(f"C {_equals(document['capacity_bits'])}: {meaning}.")
    if notion == "nominal":
        lines.append("This C mixes notions: use it to compare models and techniques. Notion by notion:")
    shares = [_share_line(name, found) for name, found in document["by_notion"].items() if found["families"]]
    return lines + shares


def _equals(capacity: Document) -> str:
    text = interval(capacity)
    if capacity["low"] is None and capacity["high"] is None:
        return f"is {text} by these runs"
    return f"= {text} bits" if None not in capacity.values() else f"is {text} bits"


def _share_line(notion: str, found: Document) -> str:
    families = ", ".join(found["families"])
    if found["capacity_bits"]["low"] is None and found["capacity_bits"]["high"] is None:
        return f"  {notion}: not bounded ({families})"
    shares = " and ".join(f"{_percent(share)} of the {name}" for name, share in found["utilisation"].items())
    return f"  {notion}: {interval(found['capacity_bits'])} bits ({families}), {shares}"


def _percent(share: Document) -> str:
    scaled = {end: None if value is None else 100 * value for end, value in share.items()}
    return interval(scaled) + " %"


def _budget_sentences(budgets: Document) -> list[str]:
    bandwidth, weights, storage = (
        number(budgets[name]) for name in ("bandwidth_bits", "weight_bits", "storage_bits")
    )
    width = "what one position can pass on in one layer"
    return [
        f"Bandwidth = {bandwidth} bits (heads · d_head · precision): {width}, a width and not a store.",
        f"Weights = {weights} bits (parameters · precision), a ceiling.",
        f"Storage = {storage} bits: what so many parameters were found to hold (Morris et al. 2025).",
    ]


def _search_lines(tasks: Document) -> list[str]:
    """How far the searches can be believed, one line a family; nothing where there was none."""
    lines = []
    for name, family in tasks.items():
        found = family.get("search")
        if found is None or found["optimism"] is None:
            continue
        line = f"  {name}: winners looked {found['optimism']:+.2f} better than on fresh seeds"
        if found["variance_shares"]:
            shares = [f"{part} {share:.0%}" for part, share in found["variance_shares"].items()]
            line += f"; the spread of skill is {', '.join(shares)}"
        lines.append(line)
    return ["Search, in skill:", *lines] if lines else []


def _warnings(document: Document) -> list[str]:
    runs, lines = document["runs"], []
    if not all(family["monotone"] for family in document["tasks"].values()):
        lines.append(
            "* not monotone: a level was learned above one that fails; the boundary is a summary only."
        )
    if "diverged" in runs:
        lines.append(f"{counted(runs['diverged'], 'run')} diverged; they count with the score they ended at.")
    bad = {status: count for status, count in runs.items() if status not in (*EVIDENCE, Status.PRUNED)}
    if bad:
        told = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in bad.items())
        lines.append(f"Not finished and not counted: {told}; `ullage status` tells why.")
    if not document["complete"]:
        lines.append("Not all runs were made; the same command goes on where this one stopped.")
    return lines


def _cost(document: Document) -> str:
    runs = f"{counted(sum(document['runs'].values()), 'run')} ({document['new_runs']} new)"
    steps = f"{number(document['train_steps'])} steps"
    told = f"{runs}, {steps}, {duration(document['seconds'])}; store: {document['store']}"
    return f"{told}; page: {document['report']}" if document["report"] else told


# ── plan ──────────────────────────────────────────────────────────────────────────────────────────


def planned(document: Document) -> RenderableType:
    """The answer of `plan`: from what to what it will cost, and how the time was told."""
    what = f"{document['model_id']} on {', '.join(document['families'])}"
    title = f"{what}; effort {document['effort']}, {document['protocol']} protocol"
    kept = counted(document["already_stored"], "run")
    if not any(document["runs"][phase]["high"] for phase in document["runs"]):
        return Text(f"{title}\nNothing is left to do: {kept} of this study stored in {document['store']}.")
    table = plain_table("still to do", "from", "to", right=("from", "to"))
    rows = {f"{phase} runs": found for phase, found in document["runs"].items()}
    rows |= {"steps": document["train_steps"], "FLOPs": document["train_flops"]}
    for name, found in rows.items():
        table.add_row(name, number(found["low"]), number(found["high"]))
    table.add_row("time here", *(duration(document["seconds_here"][end]) for end in ("low", "high")))
    lines = [
        "Four of five rehearsals lie between, or as many as lie within a factor of four;",
        "boundaries lie near those of runs that are known.",
        _speed(document["speed"]),
        f"{kept} of this study stored in {document['store']}; nothing was trained.",
    ]
    return Group(Text(f"{title}\n"), table, Text("\n" + "\n".join(lines)))


def _speed(speed: Document) -> str:
    runs = speed["stored_runs"]
    source = f"{counted(runs, 'stored run')} of this model" if runs else "the speed of matrix products here"
    rate = f"{number(speed['flops_per_second'])} FLOPs of large products a second"
    return f"Time is told from {source}: {rate} with {counted(speed['workers'], 'worker')}."


# ── the other verbs ───────────────────────────────────────────────────────────────────────────────


def stored(document: Document) -> RenderableType:
    """The answer of `status`."""
    counts = ", ".join(f"{count} {name}" for name, count in document["by_status"].items()) or "none yet"
    runs = f"{counted(document['records'], 'run')} ({counts}), {document['finals']} final"
    lines = [f"{document['store']}: {runs}, {duration(document['seconds'])} of training"]
    lines += [f"  {name}: {count}" for name, count in document["by_task"].items()]
    if not document["records"]:
        lines.append("Nothing is stored here; `ullage measure` makes runs.")
    if document["damaged_lines"]:
        damaged = f"{counted(document['damaged_lines'], 'damaged line')} passed over"
        lines.append(f"{damaged}; the command that made them makes what they held again.")
    if not document["failures"]:
        return Text("\n".join(lines))
    table = plain_table("failed run", "task", "level", "status", "reason")
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
        f"breaks {counted(broken, 'clause')} of its contract; mend them and check again"
        if broken
        else "keeps its contract"
    )
    return Group(*lines, Text(f"{document['name']} {verdict}."))


def _clause(clause: Document) -> Text:
    told = f"{clause['clause']}: {clause['why']}" if clause["why"] else clause["clause"]
    return Text(f"ok      {told}") if clause["passed"] else Text(f"BROKEN  {told}", style="bold")


def exported(document: Document) -> RenderableType:
    """The answer of `export`."""
    rows = counted(document["rows"], "row")
    return Text(f"{document['file']}: {rows} of {document['table']} from {document['store']}")
