"""A job: one run as a JSON document, and the function that performs it.

A job holds all that a worker on another machine needs, the source of a user's task file included.
`perform` never raises for what a run can do: divergence, exhausted memory, a wall-clock limit and
a defect in a user's task are records with a named status and a reason.
"""

import dataclasses
import platform
from functools import cached_property
from typing import Any

import jax

from ullage import __version__, registry
from ullage import recipe as recipes
from ullage import record as records
from ullage.errors import BadInput
from ullage.evaluate import scores
from ullage.recipe import Recipe
from ullage.record import CurveRow, Phase, RunRecord, Status
from ullage.split import Split, extra_questions, questions
from ullage.task import Family, Notion, Task
from ullage.technique import apply_all
from ullage.train import Checkpoint, Trace, Watch, train

TEST_QUESTIONS = 1024  # at most; a small task has fewer
BACKWARD_FLOPS = 2.0  # a gradient costs two products where the forward pass has one

__all__ = ["Checkpoint", "Job", "Watch", "describe_task", "failure", "perform", "task_of"]


@dataclasses.dataclass(frozen=True)
class Job:
    """One run that is to be made."""

    task: dict[str, Any]  # name, knobs, level, version; for a user's file its source
    recipe: dict[str, Any]
    seed: int
    phase: str = str(Phase.FINAL)
    attempt: int = 1
    search_trials: int = 0
    study: str = ""
    recipe_round: int = 1  # how many recipes were judged at this level in this study, this one included
    seconds_limit: float = 0.0  # wall clock of one training; 0 for none

    @cached_property
    def run_id(self) -> str:
        """The identity of the run."""
        return records.identify(_identity(self.task), self.recipe, self.seed)

    @cached_property
    def shape(self) -> tuple[Any, ...]:
        """What decides which compiled programs the job needs; jobs of one shape differ in numbers alone."""
        recipe = recipes.from_json(self.recipe)
        drops = recipe.dropout > 0.0
        sizes = recipe.batch_size, recipe.train_examples, drops, recipe.techniques
        return records.canonical(_identity(self.task)), recipe.architecture, *sizes

    @property
    def uses_x64(self) -> bool:
        """Whether the process that runs this job must allow 64-bit numbers."""
        return recipes.from_json(self.recipe).architecture.uses_x64


def _identity(task: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in task.items() if key != "source"}


def describe_task(task: Task) -> dict[str, Any]:
    """The document that names a task: `version` is the source's hash for a user's file."""
    source = registry.source_of(type(task))
    version = str(task.version) if source is None else registry.source_hash(source)
    document = {"name": task.name, "knobs": task.knobs(), "level": task.level, "version": version}
    return document if source is None else {**document, "source": source}


def task_of(document: dict[str, Any]) -> Task:
    """The task that a document names."""
    if "source" in document:
        member = registry.load_source(document["name"], document["source"], "task")
    else:
        member = registry.member("task", document["name"])
    return Family(member, tuple(document["knobs"].items())).at(document["level"])


def perform(job: Job, watch: Watch) -> tuple[RunRecord, tuple[CurveRow, ...]]:
    """Train, score a final run once on the test split, and tell what came of it."""
    try:
        return _perform(job, watch)
    except MemoryError as error:
        return failure(job, Status.OUT_OF_MEMORY, f"out of memory: {error}"), ()
    except jax.errors.JaxRuntimeError as error:
        exhausted = "RESOURCE_EXHAUSTED" in str(error)
        status = Status.OUT_OF_MEMORY if exhausted else Status.FAILED
        return failure(job, status, _first_line(error)), ()
    except BadInput as error:
        return failure(job, Status.FAILED, str(error)), ()
    except Exception as error:  # a user's task can raise anything; the campaign goes on
        return failure(job, Status.FAILED, _first_line(error)), ()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]


def _perform(job: Job, watch: Watch) -> tuple[RunRecord, tuple[CurveRow, ...]]:
    recipe = recipes.from_json(job.recipe)
    task, recipe = apply_all(task_of(job.task), recipe)
    trace = train(task, recipe, job.seed, watch, job.seconds_limit)
    last = trace.checkpoints[-1]
    judged = str(Split.VALIDATION)
    tested: dict[str, dict[str, float]] = {}
    if job.phase == Phase.FINAL and trace.status in records.EVIDENCE:
        judged = str(Split.TEST)
        tested = _test(task, recipe, trace)
    found = {**last.scores, **tested}
    row = dataclasses.replace(_blank(job, task, recipe), **_outcome(task, recipe, trace, found[judged]))
    return row, _curve(job.run_id, (*trace.checkpoints, Checkpoint(trace.steps, tested)))


def _test(task: Task, recipe: Recipe, trace: Trace) -> dict[str, dict[str, float]]:
    """The one look at the test questions, and at those of the extra splits."""
    asked = {str(Split.TEST): (task, questions(task, Split.TEST, TEST_QUESTIONS))}
    for name in task.extra_splits:
        asked[name] = (task.extra(name), extra_questions(task, name, TEST_QUESTIONS))
    return {
        name: scores(one, recipe.architecture, trace.parameters, examples)
        for name, (one, examples) in asked.items()
    }


def _outcome(task: Task, recipe: Recipe, trace: Trace, found: dict[str, float]) -> dict[str, Any]:
    last = trace.checkpoints[-1].scores
    ends = (last[Split.TRAIN].get("score"), last[Split.VALIDATION].get("score"))
    gap = None if None in ends else (ends[0] - ends[1]) / (task.ceiling - task.floor)  # type: ignore[operator]
    graded_whole = task.metric == "answers" and "correct" in found
    # Answers that are no numbers have no score; who has diverged knows what one knows without reading.
    score = found.get("score", task.floor if trace.status == Status.DIVERGED else None)
    per_example = recipe.architecture.forward_flops(task.interface) * (1 + BACKWARD_FLOPS)
    return {
        "status": str(trace.status),
        "reason": trace.reason,
        "score": score,
        "correct": int(found["correct"]) if graded_whole else None,
        "total": int(found["total"]),
        "cross_entropy_bits": found.get("cross_entropy_bits"),
        "perplexity": found.get("perplexity"),
        "macro_f1": found.get("macro_f1"),
        "entropy_bits": found.get("entropy_bits"),
        "generalisation_gap": gap,
        "device": jax.default_backend(),
        "train_steps": trace.steps,
        "steps_to_solve": trace.steps_to_solve,
        "late_generalisation_steps": trace.late_generalisation_steps,
        "seconds": round(trace.seconds, 3),
        "train_flops": per_example * recipe.batch_size * trace.steps,
    }


def _curve(run_id: str, checkpoints: tuple[Checkpoint, ...]) -> tuple[CurveRow, ...]:
    return tuple(
        CurveRow(run_id, checkpoint.step, split, metric, value)
        for checkpoint in checkpoints
        for split, found in checkpoint.scores.items()
        for metric, value in found.items()
    )


def failure(job: Job, status: str, reason: str) -> RunRecord:
    """The record of a run that could not tell anything itself, such as one whose worker died."""
    recipe = recipes.from_json(job.recipe)
    try:
        task, recipe = apply_all(task_of(job.task), recipe)
        blank = _blank(job, task, recipe)
    except Exception:  # what failed may be the task itself: then only the job's own words are known
        blank = _from_job(job, recipe, job.task["name"])
    return dataclasses.replace(blank, status=str(status), reason=reason)


def _blank(job: Job, task: Task, recipe: Recipe) -> RunRecord:
    """What is known of a run before it is made."""
    architecture = recipe.architecture
    demands = {notion: task.demand(notion) for notion in Notion}
    return dataclasses.replace(
        _from_job(job, recipe, task.family),
        parameters=architecture.parameters(task.interface),
        demand_bits=task.demand("nominal"),
        demand_notion=str(task.nominal),
        **{f"demand_{notion}_bits": bits for notion, bits in demands.items()},
        metric=task.metric,
        score_floor=task.floor,
        score_ceiling=task.ceiling,
    )


def _from_job(job: Job, recipe: Recipe, family: str) -> RunRecord:
    empty = dict.fromkeys(records.COLUMNS)
    known = {
        "run_id": job.run_id,
        "task": family,
        "level": job.task["level"],
        "architecture": recipe.architecture.name,
        "model_id": recipe.architecture.model_id,
        **recipe.architecture.columns(),
        "demand_notion": "",
        "technique": recipe.technique,
        "phase": job.phase,
        "status": str(Status.FAILED),
        "seed": job.seed,
        "attempt": job.attempt,
        "step_limit": recipe.step_limit,
        "search_trials": job.search_trials,
        "train_examples": recipe.train_examples,
        "metric": "",
        "train_steps": 0,
        "seconds": 0.0,
        "lanes": 1,
        "device": "",  # known once something was trained
        "study": job.study,
        "recipe_round": job.recipe_round,
        "recipe_json": records.canonical(job.recipe),
        "task_json": records.canonical(_identity(job.task)),
        "version": __version__,
        "host": platform.node(),
        "reason": "",
    }
    return RunRecord(**{**empty, **known})
