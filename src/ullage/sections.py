"""The sections of a report: what the page says of one thing each, as data.

A section has words, tables, statements and facts; `ullage.page` gives it its figures and makes the page.

>>> [section.key for section in sections(Material())]
['start', 'made', 'cite']
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage.diagnosis import Statement, depth, diagnose
from ullage.material import Material, unit
from ullage.present import counted, interval, number
from ullage.readoff import families_of, family_capacity, learners
from ullage.record import EVIDENCE, LEARNED, Status
from ullage.summary import level_summaries
from ullage.verdict import percent, shares

WEB = Path(__file__).with_name("web")


@dataclasses.dataclass(frozen=True)
class Panel:
    """One drawing with its title."""

    title: str
    svg: str


@dataclasses.dataclass(frozen=True)
class Figure:
    """Some panels that share a caption."""

    number: int
    title: str
    caption: str
    width: int
    panels: tuple[Panel, ...]
    more: tuple[Panel, ...] = ()


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a table; a doubtful one looks different."""

    cells: tuple[str, ...]
    doubtful: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of texts; `right` are the places of the columns that are set to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Line, ...]
    right: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Section:
    """What the page says of one thing."""

    key: str
    title: str
    lead: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    statements: tuple[Statement, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    listing: str = ""
    figures: tuple[Figure, ...] = ()


# ── the sections ──────────────────────────────────────────────────────────────────────────────────


def sections(material: Material) -> list[Section]:
    """All sections that have something to say, without their figures."""
    if not material.records and material.posterior is None:
        return [_start(), _made(material), _citations()]
    found = [
        *([_capacity(material), _predict(material), _boundaries(material)] if material.posterior else []),
        _learning(material),
        _search(material),
        _techniques(material),
        _diagnosis(material),
        *([_belief(material)] if material.posterior else []),
        _failures(material),
        _costs(material),
        _made(material),
        _citations(),
    ]
    return [section for section in found if section is not None]


def _start() -> Section:
    lead = (
        (
            "There are no runs here yet. `ullage measure` makes some: a few minutes for the smallest "
            "model, and the same command goes on where it was stopped. `ullage plan` tells beforehand how "
            "long it will take."
        ),
        (
            "`ullage report --shipped` shows the runs that come with the package, and `ullage report "
            "--runs FILE` a table that was made elsewhere."
        ),
    )
    return Section("start", "What to do", lead)


def _capacity(material: Material) -> Section:
    learner = material.learners[0]
    rows = [
        Line(
            (
                f"{row['notion']} ({', '.join(row['families'])})",
                interval(row["capacity_bits"]),
                f"{row['budget']} {number(row['budget_bits'])}" if row["budget_bits"] else row["budget"],
                percent(row["share"]),
                percent(row["left"]),
            ),
            None in row["share"].values() or not row["trusted"],
        )
        for row in shares(material, learner)
    ]
    table = Table(
        f"What {learner.name} fills of its budgets, with 90 % intervals",
        ("demand in bits of", "C, bits", "budget, bits", "filled", "ullage: not filled"),
        tuple(rows),
    )
    lead = (
        (
            "Bandwidth is heads · d_head · precision: what one position can pass on in one layer, a width "
            "and not a store. Storage is 3.6 bits a parameter, what Transformers were found to memorise; "
            "weights are parameters · precision, a ceiling. A demand is held against its own budgets and "
            "no others."
        ),
    )
    tables = (table,) if rows else ()
    return Section("capacity", "Capacity, budgets, headroom", lead, (*tables, _models_table(material)))


def _models_table(material: Material) -> Table:
    assert material.posterior is not None
    found = dict(zip(learners(material.posterior.conditions), material.document["models"], strict=True))
    rows = []
    for learner in material.learners:
        one = found[learner.model, learner.technique]
        size = "–" if one["parameters"] is None else number(one["parameters"])
        band = "–" if None in (one["heads"], one["d_head"], one["precision_bits"]) else _bandwidth(one)
        told = one["capacity_bits"]
        rows.append(
            Line(
                (learner.name, size, band, interval(told)),
                None in {told["low"], told["high"]} or not material.trusted,
            )
        )
    families = ", ".join(material.document["families"])
    mixed = ", each in its own bits: to compare models by" if len(set(material.notions.values())) > 1 else ""
    title = f"C of every model on the typical one of {families}{mixed}"
    return Table(title, ("model", "parameters", "bandwidth, bits", "C, bits [90 %]"), tuple(rows), (1, 2))


def _bandwidth(model: Mapping[str, Any]) -> str:
    return number(model["heads"] * model["d_head"] * model["precision_bits"])


def _predict(material: Material) -> Section | None:
    if material.form is None:
        return None
    every = material.form["every"]
    thinned = "" if every == 1 else f" (one of {every}: the command reads all, and may differ by a percent)"
    lead = (
        (
            "Ask these runs about a task and a model, trained or not. A run learns when its skill is "
            f"{LEARNED} or more; the answer is the probability that one run does, with its 90 % interval. "
            "It is yes or no where the whole interval lies on one side of a half. This page reads the "
            f"draws that `ullage predict` reads{thinned}, and sends nothing anywhere."
        ),
    )
    return Section("predict", "Will it fit?", lead)


def _boundaries(material: Material) -> Section:
    learner = material.learners[0]
    posterior = material.posterior
    assert posterior is not None
    runs = material.runs_of(learner)
    rows = []
    for family in families_of(posterior.conditions, learner.model, learner.technique):
        name = posterior.conditions.families[family]
        found = family_capacity(posterior, learner.model, learner.technique, family)
        levels = level_summaries(runs.get(name, []))
        learned = [str(row["level"]) for row in levels if row["learned"]]
        rows.append(
            Line(
                (
                    name,
                    learned[-1] if learned else "none",
                    f"{interval(found.to_json())} {unit(material, name)}",
                    str(sum(run.count for run in runs.get(name, []))),
                ),
                not found.bounded or not material.trusted,
            )
        )
    table = Table(
        f"The boundaries of {learner.name}",
        ("family", "learned up to level", "C [90 %]", "runs"),
        tuple(rows),
        (1, 3),
    )
    lead = (
        (
            "The boundary of a family is the demand at which the expected skill of a run is one half. "
            "Italics: bounded on one side only, or not to be trusted."
        ),
    )
    return Section("boundaries", "Where learning fails", lead, (table,))


def _learning(material: Material) -> Section | None:
    if not material.records:
        return None
    lead = ()
    if not material.curves:
        lead = ("No curves of these runs are kept here, so how they learned is told by their ends only.",)
    return Section("learning", "How they learned", lead)


def _search(material: Material) -> Section | None:
    if any(record.phase == "search" for record in material.spent):
        return Section("search", "How far the search can be believed")
    if not material.records:
        return None
    return Section(
        "search",
        "The search",
        ("There was none: every run was trained with the default recipe (`--trials 0`).",),
    )


def _techniques(material: Material) -> Section | None:
    if material.document.get("multipliers"):
        return Section("techniques", "What techniques do")
    return None


def _diagnosis(material: Material) -> Section | None:
    learner = material.learners[0] if material.learners else None
    model = material.focus or (learner.model_id if learner else None)
    own = [record for record in material.spent if record.model_id == model and record.is_evidence]
    statements = [*diagnose(own), *depth(material.spent, material.posterior)]
    if not statements:
        return None
    name = learner.name if learner else str(model)
    lead = (
        (
            f"What {counted(len(own), 'final run')} of {name} say, by rules of thumb for shallow "
            "Transformers, and what would be worth trying next."
        ),
    )
    return Section("diagnosis", "Diagnosis", lead, statements=tuple(statements))


def _belief(material: Material) -> Section:
    rows = []
    for name, posterior in {"all families": material.posterior, **material.by_notion}.items():
        assert posterior is not None
        seen = posterior.diagnostics
        cells = (name, f"{seen.rhat_max:.3f}", number(round(seen.ess_min)), str(seen.divergences))
        rows.append(Line((*cells, "yes" if seen.trusted else "no"), not seen.trusted))
    fits = Table(
        "The sampler of every fit",
        ("fit of", "R-hat", "effective draws", "divergences", "settled"),
        tuple(rows),
        (1, 2, 3),
    )
    tables = [fits]
    if material.used.excluded:
        left = tuple(Line((reason, str(count))) for reason, count in material.used.excluded.items())
        tables.append(Table("Runs that the fit left out", ("reason", "runs"), left, (1,)))
    lead = () if material.calibration is None else (_held_out(material.calibration),)
    return Section("belief", "Can it be believed?", lead, tuple(tables))


def _held_out(found: Mapping[str, Any]) -> str:
    return (
        f"Held out by {found['scheme']}: of {counted(found['n'], 'run')} {100 * found['coverage_90']:.0f} % "
        f"lie in their 90 % predictive intervals; log score {found['log_score']:.3f} nats a run, Brier "
        f"score {found['brier']:.3f}."
    )


def _failures(material: Material) -> Section | None:
    if not material.records:
        return None
    failed = [one for one in material.records if one.status not in (*EVIDENCE, Status.PRUNED)]
    counts: dict[tuple[str, str], list[str]] = {}
    for record in failed:
        counts.setdefault((str(record.status), record.reason), []).append(f"{record.task} {record.level}")
    rows = tuple(
        Line((status.replace("_", " "), reason or "not told", _first(places), str(len(places))))
        for (status, reason), places in sorted(counts.items(), key=lambda item: -len(item[1]))
    )
    table = Table("Runs that are no evidence", ("status", "reason", "at", "runs"), rows[:20], (3,))
    lead = ("`ullage measure --retry failed` makes only these again.",) if rows else ()
    return Section("failures", "How runs ended", lead, (table,) if rows else ())


def _first(places: Sequence[str], most: int = 3) -> str:
    distinct = list(dict.fromkeys(places))
    return ", ".join(distinct[:most]) + (" …" if len(distinct) > most else "")


def _costs(material: Material) -> Section | None:
    return Section("costs", "What it cost") if material.records else None


def _made(material: Material) -> Section:
    facts = [(name, text) for name, text in material.made.items() if name not in {"command", "where"}]
    return Section("made", "How this was made", facts=tuple(facts), listing=material.made.get("command", ""))


def _citations() -> Section:
    return Section("cite", "To cite", listing=(WEB / "cite.bib").read_text(encoding="utf-8").strip())
