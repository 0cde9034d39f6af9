"""The material of a report: all that it is made of, gathered before a line of it is written.

Plots and pages read this and nothing else: no store, no task, no clock. So they can be tried on tables made
by hand, and the page of a store is the same however often it is made.
"""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.budget import STORAGE_BITS_PER_PARAMETER
from ullage.chart import short_names
from ullage.observations import NO_TECHNIQUE, NOMINAL, Effort, Model, Observation, Observations
from ullage.posterior import Posterior
from ullage.readoff import learners, summary
from ullage.record import CurveRow, RunRecord

NO_RUNS = Observations((), {})


@dataclasses.dataclass(frozen=True)
class Learner:
    """A model with or without a technique, by its places in the table of a fit, and as it is called."""

    model: int
    technique: int
    model_id: str
    technique_name: str
    name: str


@dataclasses.dataclass(frozen=True)
class Material:
    """What a report is made of; all of it may be missing."""

    posterior: Posterior | None = None  # every family in its own bits
    # The families of one notion, in its bits.
    by_notion: Mapping[str, Posterior] = dataclasses.field(default_factory=dict)
    observations: Observations = NO_RUNS
    records: tuple[RunRecord, ...] = ()
    curves: tuple[CurveRow, ...] = ()  # of the runs near a boundary
    importances: tuple[Mapping[str, Any], ...] = ()  # how much each knob of a recipe mattered
    calibration: Mapping[str, Any] | None = None
    source: str = "store"
    focus: str | None = None  # the model that the report is about
    made: Mapping[str, str] = dataclasses.field(default_factory=dict)  # how the report was made
    form: Mapping[str, Any] | None = None  # the posteriors as "Will it fit?" reads them

    @functools.cached_property
    def document(self) -> Mapping[str, Any]:
        """The read-offs of the fit, as `ullage fit --json` prints them."""
        return summary(self.posterior) if self.posterior else {}

    @functools.cached_property
    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """The read-offs of the fits of one notion each."""
        return {notion: summary(posterior) for notion, posterior in self.by_notion.items()}

    @property
    def trusted(self) -> bool:
        """Whether the sampler agrees with itself."""
        return self.posterior is not None and self.posterior.diagnostics.trusted

    @functools.cached_property
    def notions(self) -> Mapping[str, str]:
        """The notion in which each family's bits are counted."""
        return {run.task: run.nominal for run in self.observations.runs}

    @functools.cached_property
    def learners(self) -> tuple[Learner, ...]:
        """All learners with runs; that of the report first, then those with the most runs."""
        if self.posterior is None:
            return ()
        conditions = self.posterior.conditions
        names = model_names(conditions.models)
        found = [
            Learner(
                model,
                technique,
                conditions.models[model].model_id,
                conditions.techniques[technique],
                _named(names[conditions.models[model]], conditions.techniques[technique]),
            )
            for model, technique in learners(conditions)
        ]
        runs = {one: self._runs(one) for one in found}
        focus = self.focus or max(found, key=lambda one: runs[one]).model_id
        order = sorted(found, key=lambda one: (one.model_id != focus, one.technique, -runs[one]))
        return tuple(order)

    def _runs(self, learner: Learner) -> int:
        assert self.posterior is not None
        conditions = self.posterior.conditions
        place = (conditions.model == learner.model) & (conditions.technique == learner.technique)
        return int(conditions.runs[place].sum())

    @functools.cached_property
    def used(self) -> Observations:
        """The runs that the fit has seen: those of its effort."""
        if self.posterior is None:
            return self.observations
        kept = tuple(run for run in self.observations.runs if run.effort == self.posterior.effort)
        return Observations(kept, self.posterior.excluded)

    @functools.cached_property
    def spent(self) -> tuple[RunRecord, ...]:
        """The records of the effort that was fitted, searches included; all where there is no fit."""
        if self.posterior is None:
            return self.records
        return tuple(record for record in self.records if effort_of(record) == self.posterior.effort)

    @property
    def effort(self) -> Effort | None:
        """The effort that all of it speaks of."""
        return self.posterior.effort if self.posterior else None

    def runs_of(self, learner: Learner) -> dict[str, list[Observation]]:
        """The runs of a learner by family."""
        assert self.posterior is not None
        model = self.posterior.conditions.models[learner.model]
        found: dict[str, list[Observation]] = collections.defaultdict(list)
        for run in self.used.runs:
            if run.model == model and run.technique == learner.technique_name:
                found[run.task].append(run)
        return found


def effort_of(record: RunRecord) -> Effort:
    """What was spent on a run to learn."""
    return Effort(record.step_limit, record.search_trials, record.train_examples)


def model_names(models: Sequence[Model]) -> dict[Model, str]:
    """What models are called: their names without what they share, and their shapes where names are alike.

    >>> list(model_names([Model("mine", layers=1), Model("mine", layers=2), Model("nano")]).values())
    ['mine (layers=1)', 'mine (layers=2)', 'nano']
    """
    short = short_names([model.model_id for model in models])
    called = [short[model.model_id] for model in models]
    return {
        model: name if called.count(name) == 1 else f"{name} ({_shape(model)})"
        for model, name in zip(models, called, strict=True)
    }


def _shape(model: Model) -> str:
    numbers = {name: value for name, value in dataclasses.asdict(model).items() if isinstance(value, int)}
    return ", ".join(f"{name}={value}" for name, value in numbers.items())


def _named(model: str, technique: str) -> str:
    return model if technique == NO_TECHNIQUE else f"{model} + {technique}"


def unit(material: Material, family: str) -> str:
    """The bits of a family, as they are called: "context bits"."""
    notion = material.notions.get(family)
    if notion is None and material.posterior and material.posterior.conditions.notion != NOMINAL:
        notion = material.posterior.conditions.notion
    return f"{notion} bits" if notion else "bits"


def budget_bits(model: Mapping[str, Any], budget: str) -> float | None:
    """What the model of a document offers; None where the table does not tell."""
    parameters, precision = model["parameters"], model["precision_bits"]
    if budget == "storage":
        return None if parameters is None else parameters * STORAGE_BITS_PER_PARAMETER
    if budget == "weights":
        return None if None in {parameters, precision} else float(parameters * precision)
    known = [model[name] for name in ("heads", "d_head", "precision_bits")]
    return None if None in known else float(known[0] * known[1] * known[2])
