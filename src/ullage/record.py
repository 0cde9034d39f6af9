"""The record of one run: an immutable row that tells what was trained and what came of it.

The record is the waist of the program: training writes it, statistics read it, and neither knows the
other. Its identity is its content: `identify` hashes what fixes a run, so that the same run is never
trained twice and an edited task file never passes for the old one.

>>> task, recipe = {"name": "parity", "level": 8}, {"batch_size": 64}
>>> identify(task, recipe, seed=0) == identify(dict(reversed(task.items())), recipe, seed=0)
True
>>> identify(task, recipe, seed=0) == identify(task, recipe, seed=1)
False
"""

import dataclasses
import enum
import hashlib
import json
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ullage.errors import BadInput

SCHEMA = 2


class Status(enum.StrEnum):
    """How a run ended. Only `finished` and `diverged` are evidence of what a model can learn."""

    FINISHED = "finished"
    DIVERGED = "diverged"
    PRUNED = "pruned"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"


LEARNED = 0.95  # the skill from which a run counts as having learned
EVIDENCE = (Status.FINISHED, Status.DIVERGED)


class Phase(enum.StrEnum):
    """Whether a run looked for a recipe or judged one on fresh seeds."""

    SEARCH = "search"
    FINAL = "final"


class CurveRow(NamedTuple):
    """One number of one checkpoint; the final test is the last checkpoint's `test` split."""

    run_id: str
    step: int
    split: str
    metric: str
    value: float


# A store may hold a hundred thousand records: slots halve their memory.
@dataclasses.dataclass(frozen=True, slots=True)
class RunRecord:
    """One row of the table of runs; bits in bits, seconds of training in seconds."""

    run_id: str
    task: str
    level: int
    architecture: str
    model_id: str
    layers: int | None
    heads: int | None
    d_head: int | None
    d_model: int | None
    d_ff: int | None
    precision_bits: int | None
    parameters: int | None
    demand_bits: float | None
    demand_notion: str
    demand_answer_bits: float | None
    demand_input_bits: float | None
    demand_context_bits: float | None
    demand_storage_bits: float | None
    technique: str
    phase: str
    status: str
    seed: int
    attempt: int
    step_limit: int
    search_trials: int
    train_examples: int
    metric: str
    score: float | None
    score_floor: float | None
    score_ceiling: float | None
    correct: int | None
    total: int | None
    cross_entropy_bits: float | None
    perplexity: float | None
    macro_f1: float | None
    entropy_bits: float | None
    generalisation_gap: float | None
    train_steps: int
    steps_to_solve: int | None
    late_generalisation_steps: int | None
    seconds: float
    train_flops: float | None
    lanes: int
    device: str
    study: str
    recipe_round: int  # of the recipes judged at this level in this study; only the last one counts
    recipe_json: str
    task_json: str
    version: str
    host: str
    reason: str

    @property
    def skill(self) -> float | None:
        """(score − floor) / (ceiling − floor), never clipped; None where nothing was scored."""
        if self.score is None or self.score_floor is None or self.score_ceiling is None:
            return None
        return (self.score - self.score_floor) / (self.score_ceiling - self.score_floor)

    @property
    def is_evidence(self) -> bool:
        """Whether this run says something of what the model can learn."""
        return self.phase == Phase.FINAL and self.status in EVIDENCE and self.skill is not None


COLUMNS = tuple(field.name for field in dataclasses.fields(RunRecord))


def _kinds(hint: Any) -> tuple[type, ...]:
    kinds = typing.get_args(hint) or (hint,)
    return (*kinds, int) if float in kinds else kinds  # a whole number is a number


# The types of all columns, of records that were found sound: many, for a column may hold a number or null.
MOST_SOUND = 1000
_SOUND: set[tuple[type, ...]] = set()

_KINDS = {name: _kinds(hint) for name, hint in typing.get_type_hints(RunRecord).items()}


def canonical(document: Mapping[str, Any]) -> str:
    """The one JSON text of a document: sorted, without spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def identify(task: Mapping[str, Any], recipe: Mapping[str, Any], seed: int) -> str:
    """The identity of a run: a hash of its task, its recipe and its seed."""
    text = canonical({"task": task, "recipe": recipe, "seed": seed})
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def tidy(record: RunRecord, curve: Iterable[CurveRow]) -> tuple[CurveRow, ...]:
    """The curve of a run as stores keep it: each number once, the last one; nan for what is not finite."""
    values: dict[tuple[int, str, str], float] = {}
    for run_id, step, split, metric, value in curve:
        if run_id != record.run_id:
            raise ValueError(f"a row of run {run_id} stands in the curve of run {record.run_id}")
        values[int(step), split, metric] = float(value) if math.isfinite(value) else math.nan
    return tuple(CurveRow(record.run_id, *place, value) for place, value in values.items())


def to_json(record: RunRecord) -> str:
    """One line of JSON, in ASCII and without its newline; a number that is not finite becomes null."""
    values = {name: _storable(getattr(record, name), _KINDS[name]) for name in COLUMNS}
    wrong = _wrong_columns(values)
    if wrong:
        raise TypeError(f"a record cannot have {wrong}")
    return json.dumps({"schema": SCHEMA, **values}, separators=(",", ":"), allow_nan=False)


def _storable(value: Any, kinds: tuple[type, ...]) -> Any:
    if isinstance(value, float) and not math.isfinite(value) and type(None) in kinds:
        return None  # JSON has no inf: a perplexity that overflows is one that nobody knows
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # a lone surrogate stops other readers
    return value


def _wrong_columns(values: Mapping[str, Any]) -> str:
    """The columns whose value is not of the column's type, for a sentence."""
    return ", ".join(
        f"{name}={values[name]!r}"
        for name, kinds in _KINDS.items()
        if not isinstance(values[name], kinds) or isinstance(values[name], bool)
    )


def _with_recipe_round(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 knew no search: each level was judged with one recipe."""
    return {**document, "recipe_round": 1}


# Each entry turns a document of schema n (its place) into one of schema n + 1; schema 0 never was.
UPGRADES: tuple[Callable[[dict[str, Any]], dict[str, Any]] | None, ...] = (None, _with_recipe_round)


def from_json(line: str) -> RunRecord:
    """The record of one line; a line of an older schema is upgraded, any other damage is an error."""
    document = _upgraded(line)
    # Of a hundred thousand lines nearly all have the columns in our order and types that were seen before.
    types = tuple(map(type, document.values()))
    if types in _SOUND and tuple(document) == COLUMNS:
        return RunRecord(*document.values())
    if document.keys() != _KINDS.keys():
        different = ", ".join(sorted(document.keys() ^ _KINDS.keys()))
        raise BadInput(f"not a record of schema {SCHEMA}: columns {different} differ; restore the line")
    wrong = _wrong_columns(document)
    if wrong:
        raise BadInput(f"not a record of schema {SCHEMA}: {wrong} is of the wrong type; restore the line")
    record = RunRecord(**document)
    if tuple(document) == COLUMNS and len(_SOUND) < MOST_SOUND:
        _SOUND.add(types)
    return record


def _upgraded(line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
        schema = document.pop("schema")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise BadInput(f"not a record: {line[:60]!r}; a record is one JSON object with a schema") from None
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise BadInput(f"record of schema {schema}; this ullage reads 1 to {SCHEMA}, a newer one may read it")
    for upgrade in UPGRADES[schema:]:
        document = upgrade(document) if upgrade else document
    return document
