"""Predict, before anything is trained, whether a model learns a task, on the evidence of runs.

    predict("parity", level=9)                   a family at a level
    predict(bits=40.0, demand="context")         any task, by what it asks for
    predict("my_task.py")                        a file of one's own, at the level that it declares

>>> predict("parity")
Traceback (most recent call last):
    ...
ullage.errors.BadInput: parity needs a level, or bits in place of it: add --level or --bits
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ullage import architecture as architectures
from ullage.capacity import DEFAULT_SETTINGS, Settings, prepared
from ullage.errors import BadInput
from ullage.executor import make_executor
from ullage.inquiry import (
    Asked,
    Evidence,
    Subject,
    check,
    choose,
    find_subject,
    gather,
    ladder,
    notion_of,
    offer_of,
    question_of,
)
from ullage.kept import posterior_of
from ullage.observations import Observations, observe
from ullage.pilot import MOST, pilot_levels, pilot_settings, run_pilot
from ullage.posterior import Posterior
from ullage.prediction import Answer, Question, curve_of, raised, smallest
from ullage.prediction import predict as predicted
from ullage.request import check_workers, default_workers
from ullage.store import KEPT, open_store
from ullage.study import Watcher

MODEL = "nano"
PROBABILITY = 0.5


@dataclasses.dataclass(frozen=True)
class Inquiry:
    """A request that was understood: what is asked, under which notion, on which runs."""

    subject: Subject
    notion: str
    question: Question
    evidence: Evidence
    folder: Path  # that keeps posteriors
    settings: Settings

    def posterior(self, observations: Observations) -> Posterior:
        """The fit of some runs, from the folder if it is there."""
        conditions, effort, excluded = prepared(raised(observations, self.notion), self.notion)
        return posterior_of(conditions, effort, self.settings, excluded, self.folder)


def predict(
    task: str | None = None,
    *,
    level: int | None = None,
    bits: float | None = None,
    demand: str | None = None,
    model: str | None = None,
    knobs: Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    store: str | Path = "ullage-store",
    keep: str | Path | None = None,
    pilot: int = 0,
    smallest: bool = False,
    probability: float | None = None,
    workers: int | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """The document of `predict --json`; the arguments are those of `answer`."""
    return answer(
        Asked(task, level, bits, demand),
        model=model,
        knobs=knobs,
        runs=runs,
        store=store,
        keep=keep,
        pilot=pilot,
        smallest=smallest,
        probability=probability,
        workers=workers,
        settings=settings,
        watcher=watcher,
    ).to_json()


def answer(
    asked: Asked,
    *,
    model: str | None = None,
    knobs: Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    store: str | Path = "ullage-store",
    keep: str | Path | None = None,
    pilot: int = 0,
    smallest: bool = False,
    probability: float | None = None,
    workers: int | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    watcher: Watcher | None = None,
) -> Answer:
    """What runs of a store, of a table `runs` or of the package say of a model on a task.

    `pilot` trains so many runs near the expected boundary first. `smallest` looks for the smallest model
    that learns the task with a `probability`, at the lower end of its interval.
    """
    check(asked)
    _check_choices(asked, model, pilot, smallest, probability)
    check_workers(workers)
    folder = Path(keep) if keep is not None else Path(store) / KEPT
    inquiry = understood(asked, Path(store), None if runs is None else Path(runs), folder, settings)
    if smallest:
        return smallest_answer(inquiry, knobs or {}, PROBABILITY if probability is None else probability)
    if pilot:
        lanes = workers or default_workers()
        return piloted(inquiry, model or MODEL, knobs or {}, pilot, Path(store), lanes, watcher or Watcher())
    offer = offer_of(architectures.find(model or MODEL, knobs or {}), inquiry.subject, inquiry.question)
    posterior = inquiry.posterior(inquiry.evidence.together)
    return Answer(predicted(posterior, inquiry.question, offer, inquiry.evidence.source))


def _check_choices(
    asked: Asked, model: str | None, pilot: int, smallest: bool, probability: float | None
) -> None:
    if probability is not None and not 0 < probability < 1:
        raise BadInput(f"probability={probability:g} is out of range; choose between 0 and 1")
    if probability is not None and not smallest:
        raise BadInput(f"probability={probability:g} is what --smallest asks for; add it, or leave this out")
    if not 0 <= pilot <= MOST:
        raise BadInput(f"pilot={pilot} is out of range; choose 0 to {MOST} runs")
    if pilot and asked.task is None:
        raise BadInput(f"pilot={pilot} cannot train bits; name a task, or a file of your own")
    if smallest and pilot:
        raise BadInput(
            f"pilot={pilot} trains one model and --smallest looks at many; ask one, then the other"
        )
    if smallest and model is not None:
        raise BadInput(f"model={model} fixes what --smallest is to find; leave one of them out")


def understood(asked: Asked, store: Path, runs: Path | None, folder: Path, settings: Settings) -> Inquiry:
    """The request brought together with the runs that can tell."""
    candidates = gather(store, runs)
    subject = find_subject(asked, set().union(*(evidence.families for evidence in candidates)))
    evidence = choose(candidates, asked, subject)
    if subject.family is not None and asked.level is not None and evidence.source != "file":
        subject.family.at(asked.level)  # a level out of range is told, and by the task
    notion = notion_of(asked, subject, evidence)
    question = question_of(asked, subject, notion, evidence)
    return Inquiry(subject, notion, question, evidence, folder, settings)


def smallest_answer(inquiry: Inquiry, knobs: Mapping[str, Any], probability: float) -> Answer:
    """The first model of the ladder that is sure enough."""
    models = list(ladder(knobs))
    posterior = inquiry.posterior(inquiry.evidence.together)
    offers = [offer_of(model, inquiry.subject, inquiry.question) for model in models]
    source = inquiry.evidence.source
    predictions = (predicted(posterior, inquiry.question, offer, source) for offer in offers)
    return smallest(predictions, probability)


def piloted(
    inquiry: Inquiry,
    model: str,
    knobs: Mapping[str, Any],
    count: int,
    store: Path,
    workers: int,
    watcher: Watcher,
) -> Answer:
    """The prediction after some trainings near the boundary that is expected before them."""
    family = inquiry.subject.family
    if family is None:
        raise BadInput(
            f"pilot={count} cannot train {inquiry.subject.name}; it takes a task of ours or a file"
        )
    offer = offer_of(architectures.find(model, knobs), inquiry.subject, inquiry.question)
    before = inquiry.posterior(inquiry.evidence.observations)
    settings = pilot_settings(model, knobs, before.effort)
    log2_capacity = curve_of(before, inquiry.question, offer).half_skill()
    levels = pilot_levels(family, settings, log2_capacity, inquiry.question.notion, count)
    records = run_pilot(family, settings, levels, open_store(store), make_executor(workers), watcher)
    made = observe(records)
    known = {record.run_id for record in records}
    earlier = [run for run in inquiry.evidence.pilots.runs if run not in made.runs]
    evidence = dataclasses.replace(
        inquiry.evidence, pilots=Observations((*earlier, *made.runs), inquiry.evidence.pilots.excluded)
    )
    prediction = predicted(
        inquiry.posterior(evidence.together), inquiry.question, offer, inquiry.evidence.source
    )
    return Answer(prediction, pilots=len(known), failed=count - made.count)
