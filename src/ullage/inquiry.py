"""An inquiry: what a user asks to be predicted, brought together with the runs that can tell.

A request names a task and a level, or bits; the runs are those of a store, of a table made elsewhere, or,
where neither can tell, those that come with the package.

>>> check(Asked("parity", level=9))
>>> check(Asked(None, bits=-1.0))
Traceback (most recent call last):
    ...
ullage.errors.BadInput: bits=-1 is out of range; choose more than 0, and less than infinity
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage import architecture as architectures
from ullage import task as tasks
from ullage.architecture import Architecture
from ullage.budget import budgets_of
from ullage.errors import BadInput, listed
from ullage.imported import read_table
from ullage.knobs import knobs_of
from ullage.observations import NOMINAL, NOTIONS, Model, Observation, Observations, observe
from ullage.pilot import is_pilot
from ullage.prediction import Offer, Question, raising
from ullage.readout import Softmax
from ullage.request import find_families
from ullage.shipped import shipped_records
from ullage.store import open_store
from ullage.task import Family, Interface, Tokens

# Of the models among which the smallest is looked for: powers of two and one between each pair.
WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
WIDE = 128  # from this width on the presets have eight heads, below it four
CHOSEN_BY_WIDTH = ("d_model", "heads", "d_head", "d_ff")
# Of bits alone nobody knows the symbols, so their part of the parameters is left small.
BARE = Interface(Tokens(2), 1, (0,), Softmax(2), causal=False)


NO_RUNS = Observations((), {})


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a user asks: a task at a level, a task or none at so many bits, or a file with its own level."""

    task: str | None = None
    level: int | None = None
    bits: float | None = None
    demand: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether the task is a user's file."""
        return (self.task or "").endswith(".py")


@dataclasses.dataclass(frozen=True)
class Subject:
    """The task of an inquiry: its family where its code is known, or only a name in a table, or nothing."""

    name: str | None
    family: Family | None = None

    @property
    def nominal(self) -> str | None:
        """The notion that its levels raise, where its code is known."""
        return None if self.family is None else str(self.family.task.nominal)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Runs that may tell, and where they are from; pilots join them and do not stand alone."""

    source: str
    observations: Observations
    pilots: Observations = NO_RUNS

    @property
    def families(self) -> set[str]:
        """The families that the runs are of."""
        return {run.task for run in self.observations.runs}

    @property
    def together(self) -> Observations:
        """All of them, pilots included."""
        runs = self.observations.runs + self.pilots.runs
        return Observations(runs, self.observations.excluded)


# ── what is asked ─────────────────────────────────────────────────────────────────────────────────


def check(asked: Asked) -> None:
    """Raise `BadInput` for what cannot be asked."""
    if asked.bits is not None and not (0 < asked.bits < math.inf):
        raise BadInput(f"bits={asked.bits:g} is out of range; choose more than 0, and less than infinity")
    if asked.demand not in (None, NOMINAL, *NOTIONS):
        raise BadInput(
            f"there is no notion of demand {asked.demand!r}; choose one of nominal, {listed(NOTIONS)}"
        )
    if asked.level is not None and asked.bits is not None:
        raise BadInput(
            f"level={asked.level} and bits={asked.bits:g} are two answers to one question; give one of them"
        )
    if asked.task is None and asked.bits is None:
        raise BadInput(
            "nothing to predict: name a task with its level, or give bits with their notion (--demand)"
        )
    if asked.task is None and asked.demand in (None, NOMINAL):
        raise BadInput(
            f"bits={asked.bits:g} mean nothing without a notion; add --demand with one of {listed(NOTIONS)}"
        )
    if asked.task is not None and asked.level is None and asked.bits is None and not asked.is_file:
        raise BadInput(f"{asked.task} needs a level, or bits in place of it: add --level or --bits")


def find_subject(asked: Asked, known: set[str]) -> Subject:
    """The task that is asked about: one of ours, a user's file, or a name that only a table knows."""
    if asked.task is None:
        return Subject(None)
    try:
        if not asked.is_file:
            family = tasks.find(asked.task)
        else:
            (family,) = find_families([asked.task])
    except BadInput:
        if asked.task in known:
            return Subject(asked.task)
        raise
    return Subject(family.name, family)


def level_of(asked: Asked, subject: Subject) -> int | None:
    """The level that is asked about: for a file without one, that which its task declares as default."""
    if asked.level is None and asked.bits is None and subject.family is not None:
        return knobs_of(subject.family.task)["level"].default
    return asked.level


def notion_of(asked: Asked, subject: Subject, evidence: Evidence) -> str:
    """The notion under which the runs are fitted.

    A known family is told from the nominal fit, in which all families help. A new one has no difficulty
    there that would turn its bits into those of others, so it is told among the families of its own notion.
    """
    if asked.demand is not None:
        return asked.demand
    return NOMINAL if subject.name in evidence.families else str(subject.nominal)


def question_of(asked: Asked, subject: Subject, notion: str, evidence: Evidence) -> Question:
    """The question in bits."""
    same = [run for run in evidence.together.runs if run.task == subject.name]
    own = same[0].nominal if same else subject.nominal
    named = str(own if notion == NOMINAL else notion)
    level = level_of(asked, subject)
    if asked.bits is not None:
        return Question(subject.name, None, named, asked.bits, {named: asked.bits})
    assert level is not None
    demands = _demands(subject, level, same, evidence.source)
    if not demands.get(named):
        raise BadInput(
            f"{subject.name} at level={level} has no demand of the notion {named}; "
            f"choose one of {listed(name for name, bits in demands.items() if bits)}"
        )
    return Question(subject.name, level, named, demands[named], demands)


def _demands(subject: Subject, level: int, same: Sequence[Observation], source: str) -> Mapping[str, float]:
    """The bits of a level: as a table has them, for it may count otherwise, or else as the task says."""
    told = [run.demands for run in same if run.level == level]
    if told and (source == "file" or subject.family is None):
        return told[0]
    if subject.family is None:
        levels = sorted({run.level for run in same})
        raise BadInput(
            f"level={level} of {subject.name} is not in the table, which knows "
            f"{', '.join(map(str, levels[:12]))}; give its demand with --bits"
        )
    return subject.family.at(level).demands()


# ── the runs that can tell ────────────────────────────────────────────────────────────────────────


def gather(store: Path, runs: Path | None) -> list[Evidence]:
    """All runs that may be used, the user's own first."""
    if runs is not None:
        return [Evidence("file", read_table(runs))]
    records = list(open_store(store).read().records.values())
    own = observe(record for record in records if not is_pilot(record))
    pilots = observe(filter(is_pilot, records))
    return [Evidence("store", own, pilots), Evidence("shipped", observe(shipped_records()), pilots)]


def choose(candidates: Sequence[Evidence], asked: Asked, subject: Subject) -> Evidence:
    """The first with runs of the family, or else the first with others that raise its notion of demand."""
    for evidence in candidates:
        if subject.name is not None and subject.name in evidence.families:
            return evidence
    notion = asked.demand or subject.nominal or NOMINAL
    for evidence in candidates:
        if raising(evidence.observations, notion):
            return evidence
    raise BadInput(
        f"there is no evidence of the notion {notion}: no run that is stored has such a demand; "
        "`ullage measure` makes runs"
    )


# ── the models ────────────────────────────────────────────────────────────────────────────────────


def ladder(knobs: Mapping[str, Any]) -> Iterator[Architecture]:
    """Models from small to large: presets and what lies between them, in the shape that presets have.

    Depth, precision and all that is given beside stay; the widths are what grows.

    >>> [model.model_id for model in ladder({})][2:5:2]
    ['nano', 'small']
    """
    fixed = sorted(set(knobs) & set(CHOSEN_BY_WIDTH))
    if fixed:
        told = f"{fixed[0]}={knobs[fixed[0]]} fixes what --smallest is to find"
        raise BadInput(f"{told}; leave out {listed(CHOSEN_BY_WIDTH)}")
    for width in WIDTHS:
        shape = {"d_model": width, "heads": 8 if width >= WIDE else 4, "d_ff": 4 * width}
        yield architectures.find("paper", {**shape, **knobs})


def offer_of(model: Architecture, subject: Subject, question: Question) -> Offer:
    """A model with its size on the task's symbols, and its budgets."""
    interface = BARE
    if subject.family is not None:
        interface = subject.family.at(_nearest_level(subject.family, question)).interface
    columns = model.columns()
    shape = {name: columns[name] for name in ("layers", "heads", "d_head", "d_model", "precision_bits")}
    return Offer(
        Model(model.model_id, model.name, **shape),
        model.parameters(interface),
        budgets_of(model, interface),
    )


def _nearest_level(family: Family, question: Question) -> int:
    """The level that is asked about, or the one of the family that asks for most nearly as many bits.

    A table made elsewhere may count levels that our task of that name does not have.
    """
    if question.level is not None:
        with contextlib.suppress(BadInput):
            return family.at(question.level).level

    def distance(level: int) -> float:
        bits = family.at(level).demand(question.notion)
        return abs(math.log2(bits) - question.log2_demand) if bits else math.inf

    return min(family.levels, key=distance)
