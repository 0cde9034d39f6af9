"""A diagnosis: what runs near a boundary say of the model, and what would be worth trying next.

Rules of thumb for shallow Transformers, turned into statements about these runs with their counts:

    runs of one level disagree                        the edge of capacity
    knows the trained questions and not the others    it memorises: more examples, decay, steps, or depth
    knows neither                                     it underfits: width, heads, or steps
    high entropy where it fails                       it does not know; low entropy: it is sure and wrong
    solved late, or generalised late                  the boundary is one of patience as well

>>> diagnose([])
[]
"""

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ullage.boundary import Interval, by_level, is_monotone
from ullage.posterior import Posterior
from ullage.present import counted, interval
from ullage.readoff import families_of, half_skill, quantiles
from ullage.record import LEARNED, Phase, RunRecord

FAILED = 0.5  # the skill below which a run counts as having failed
MEMORISED = 0.3  # of the score: a gap between trained and other questions that is no accident
SURE, UNSURE = (
    0.25,
    0.75,
)  # of the entropy of an answer: below one a model is sure, above the other it guesses
LATE = 0.8  # of the step limit: who solves a level so late would not have, with a little less
SHOWN = 3  # places that are named; the others are counted


@dataclasses.dataclass(frozen=True)
class Statement:
    """One thing that these runs say, with what it rests on."""

    topic: str
    says: str
    next_step: str = ""


def diagnose(finals: Sequence[RunRecord]) -> list[Statement]:
    """What the final runs of one model say."""
    rules: tuple[Callable[[Sequence[RunRecord]], Iterator[Statement]], ...] = (
        _edge,
        _memorising,
        _certainty,
        _patience,
        _holes,
    )
    return [statement for rule in rules for statement in rule(finals)] if finals else []


def _edge(finals: Sequence[RunRecord]) -> Iterator[Statement]:
    """Runs of one recipe that disagree are the red flag of a model at its limit."""
    places = _by_place(finals)
    torn = {
        place: f"{sum(_learned(run) for run in runs)} of {len(runs)}"
        for place, runs in places.items()
        if any(_learned(run) for run in runs) and any(_skill(run) < FAILED for run in runs)
    }
    if torn:
        where = [f"{_told(place)} ({learned} learned)" for place, learned in torn.items()]
        yield Statement(
            "At the edge of capacity",
            f"On fresh seeds of one recipe some runs learn and others fail: {_some(where)}.",
            "More seeds there tell most about C; a little more width, more heads or another layer would "
            "make the runs agree.",
        )
    elif any(len(runs) > 1 for runs in places.values()):
        yield Statement(
            "Seeds agree",
            "No level was both learned and failed: the boundary is sharper than the levels that were tried.",
            "Levels between the last that was learned and the first that was not would narrow it.",
        )


def _memorising(finals: Sequence[RunRecord]) -> Iterator[Statement]:
    failed = [run for run in finals if _skill(run) < FAILED and run.generalisation_gap is not None]
    memorised = [run for run in failed if (run.generalisation_gap or 0.0) > MEMORISED]
    underfit = [run for run in failed if (run.generalisation_gap or 0.0) <= MEMORISED]
    if memorised:
        yield Statement(
            "Memorises without generalising",
            f"{_count(memorised, failed)} that failed knew trained questions and not the others: "
            f"{_some(_places(memorised))}.",
            "Room is not what is missing: more training examples, weight decay or more steps (late "
            "generalisation) come first, a third layer after them.",
        )
    if underfit:
        yield Statement(
            "Does not learn what it is trained on",
            f"{_count(underfit, failed)} that failed knew no more of the trained questions: "
            f"{_some(_places(underfit))}.",
            "Width (--d-model), heads or steps come first; regularisation would make it worse.",
        )


def _certainty(finals: Sequence[RunRecord]) -> Iterator[Statement]:
    told = [
        (run, run.entropy_bits / run.demand_answer_bits)
        for run in finals
        if run.entropy_bits is not None and run.demand_answer_bits and _skill(run) < FAILED
    ]
    unsure = [run for run, share in told if share > UNSURE]
    sure = [run for run, share in told if share < SURE]
    if unsure:
        yield Statement(
            "Does not know, and knows it",
            f"{_count(unsure, told)} that failed answered with nearly the entropy of a guess: "
            f"{_some(_places(unsure))}.",
            "The step that the task needs was not found; a smaller level first, or depth.",
        )
    if sure:
        yield Statement(
            "Sure and wrong",
            f"{_count(sure, told)} that failed were sure of wrong answers: {_some(_places(sure))}.",
            "A rule that holds for the trained questions only: regularise, or train on more of them.",
        )


def _patience(finals: Sequence[RunRecord]) -> Iterator[Statement]:
    solved = [run for run in finals if run.steps_to_solve is not None]
    late = [run for run in solved if (run.steps_to_solve or 0) > LATE * run.step_limit]
    waited = [run for run in finals if (run.late_generalisation_steps or 0) > 0]
    if waited:
        longest = max(run.late_generalisation_steps or 0 for run in waited)
        yield Statement(
            "Generalises late",
            f"{_count(waited, solved or finals)} that were solved knew the trained questions first and the "
            f"others up to {longest} steps later (median "
            f"{statistics.median(run.late_generalisation_steps or 0 for run in waited):.0f}).",
            "A run that ends while it memorises may only have been stopped too early.",
        )
    if late:
        yield Statement(
            "The boundary is one of patience",
            f"{_count(late, solved)} that were solved took the last fifth of their steps to it: "
            f"{_some(_places(late))}.",
            "Twice the --steps would move the boundary; C is always C at an effort.",
        )


def _holes(finals: Sequence[RunRecord]) -> Iterator[Statement]:
    for family in sorted({run.task for run in finals}):
        pairs = [(run.demand_bits, _skill(run)) for run in finals if run.task == family and run.demand_bits]
        if not is_monotone(pairs):
            skills = {level: statistics.fmean(found) for level, found in by_level(pairs).items()}
            told = ", ".join(f"{skill:.2f} at {demand:.3g} bits" for demand, skill in skills.items())
            yield Statement(
                "Not monotone",
                f"{family} fails below a level that it learns (skill {told}).",
                "One boundary is a summary only; look at the levels.",
            )


# ── depth ─────────────────────────────────────────────────────────────────────────────────────────


def depth(records: Sequence[RunRecord], posterior: Posterior | None) -> Iterator[Statement]:
    """Whether a layer more helped: told by models that differ in nothing else; `records` tell their knobs."""
    if posterior is None:
        return
    shown = 0
    for one, other in itertools.permutations(range(len(posterior.conditions.models)), 2):
        shapes = [_shape(records, posterior, place) for place in (one, other)]
        if (
            None in shapes
            or shapes[0] != shapes[1]
            or not _layers(posterior, one) < _layers(posterior, other)
        ):
            continue
        ratio = _ratio(posterior, one, other)
        if ratio is not None:
            shown += 1
            yield _depth_statement(posterior, one, other, ratio)
    depths = {model.layers for model in posterior.conditions.models} - {None}
    if not shown and depths:
        deepest = max(depth for depth in depths if depth is not None)
        yield Statement(
            "Would another layer help?",
            f"These runs cannot tell: no two models differ in depth alone, and none has more than {deepest} "
            "layers.",
            f"`ullage measure --layers {deepest + 1}` with the same tasks and the same store, then this "
            "report again.",
        )


def _depth_statement(posterior: Posterior, one: int, other: int, ratio: Interval) -> Statement:
    layers = _layers(posterior, one), _layers(posterior, other)
    helps = (ratio.low or 0.0) > 1
    hurts = (ratio.high or 2.0) < 1
    verdict = "surely more" if helps else "surely less" if hurts else "which may be more or less"
    return Statement(
        "Would another layer help?",
        f"{layers[1]} layers hold {interval(ratio.to_json())} times the bits of {layers[0]}, all else "
        f"equal: {verdict}.",
        "Depth pays where a task needs steps that follow one another."
        if helps
        else "Width or heads are the cheaper try.",
    )


def _ratio(posterior: Posterior, one: int, other: int) -> Interval | None:
    conditions = posterior.conditions
    shared = set(families_of(conditions, one, 0)) & set(families_of(conditions, other, 0))
    if not shared:
        return None
    gains = [
        half_skill(posterior, other, 0, place) - half_skill(posterior, one, 0, place) for place in shared
    ]
    return quantiles(2 ** np.mean(gains, axis=0))


def _layers(posterior: Posterior, place: int) -> int:
    return posterior.conditions.models[place].layers or 0


def _shape(records: Sequence[RunRecord], posterior: Posterior, place: int) -> tuple[Any, ...] | None:
    """All of a model but its depth; None where the runs do not tell."""
    model = posterior.conditions.models[place]
    for record in records:
        if record.model_id == model.model_id and record.phase == Phase.FINAL:
            knobs = (record.heads, record.d_head, record.d_model, record.d_ff, record.precision_bits)
            return None if None in knobs or model.layers is None else knobs
    return None


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


def _skill(run: RunRecord) -> float:
    return run.skill or 0.0


def _learned(run: RunRecord) -> bool:
    return _skill(run) >= LEARNED


def _by_place(runs: Sequence[RunRecord]) -> Mapping[tuple[str, int], list[RunRecord]]:
    found: dict[tuple[str, int], list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.level)):
        found.setdefault((run.task, run.level), []).append(run)
    return found


def _told(place: tuple[str, int]) -> str:
    return f"{place[0]} at level {place[1]}"


def _places(runs: Sequence[RunRecord]) -> list[str]:
    return [_told(place) for place in _by_place(runs)]


def _some(places: Sequence[str]) -> str:
    rest = len(places) - SHOWN
    return ", ".join(places[:SHOWN]) + (f" and {counted(rest, 'more place')}" if rest > 0 else "")


def _count(some: Sequence[Any], of: Sequence[Any]) -> str:
    return f"{len(some)} of {counted(len(of), 'run')}"
