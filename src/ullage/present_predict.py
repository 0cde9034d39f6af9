"""How predictions and calibrations look on a terminal: a verdict to act on, then what it rests on.

>>> chance(Interval(0.93, 0.85, 0.98)), chance(Interval(0.999, 0.98, 1.0))
('93 % [85–98 %]', '>99 % [98–>99 %]')
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ullage.boundary import Interval
from ullage.calibration import Calibration, Estimate
from ullage.prediction import Answer, Prediction
from ullage.present import counted, number, plain_table

HALF = 0.5  # where "more likely than not" begins
# What makes a budget larger; nothing else that is listed under the other budgets helps a task bound by it.
RAISES = {
    "bandwidth": "more or wider heads (--heads, --d-head) raise it",
    "storage": "more parameters (--d-model, --d-ff, --layers) raise it",
    "weights": "more parameters (--d-model, --d-ff, --layers) raise it",
}
SOURCES = {
    "store": "runs of the store",
    "file": "runs of the table",
    "shipped": "runs that come with ullage, for the store has none that can tell",
}
SCHEMES = {
    "level": "levels of families that are known",
    "family": "families that are new",
    "model": "the largest model from the smaller ones",
}


# ── predict ───────────────────────────────────────────────────────────────────────────────────────


def predicted(answer: Answer) -> RenderableType:
    """The verdict in one sentence, then the skill, the evidence, and what is beyond it."""
    prediction = answer.prediction
    parts: list[RenderableType] = [Text(verdict(answer)), Text()]
    parts += [Text(line) for line in _meaning(answer)]
    parts += [Text(), evidence_table(prediction)]
    return Group(*parts)


def verdict(answer: Answer) -> str:
    """One sentence to act on: whether it learns, what binds, what would help."""
    prediction = answer.prediction
    low, high = prediction.probability.low or 0.0, prediction.probability.high or 0.0
    model, what = prediction.offer.model.model_id, subject(prediction)
    told = f"{what} with probability {chance(prediction.probability)}"
    if answer.least_probability is not None:
        return f"{_smallest(answer, model, told)}; {binding(prediction)}."
    if low >= HALF:
        return f"Yes: {model} learns {told}; {filled(prediction)}."
    if high <= HALF:
        return f"No: {model} learns {told}; {binding(prediction)}."
    return f"Open: {model} learns {told}; {binding(prediction)}; {_next_step(answer)}."


def _smallest(answer: Answer, model: str, told: str) -> str:
    wanted = f"{answer.least_probability:.0%}".replace("%", " %")
    if answer.reached:
        return f"{model} is the smallest of the models tried that surely has {wanted}: it learns {told}"
    return f"None of {counted(answer.models, 'model')} surely has {wanted}: the best, {model}, learns {told}"


def subject(prediction: Prediction) -> str:
    """The task, its level and its bits, as far as they were told."""
    question = prediction.question
    bits = f"{number(question.demand_bits)} {question.notion} bits"
    if question.task is None:
        return f"a task of {bits}"
    where = bits if question.level is None else f"level {question.level}"
    return f"{question.task} at {where}"


def filled(prediction: Prediction) -> str:
    """The budget of which the largest share is asked for, and how large that is."""
    budget = prediction.binding_budget
    if budget is None:
        return "no budget can be told"
    share = prediction.offer.budgets.shares(prediction.question.demands)[budget]
    offered = prediction.offer.budgets.named()[budget]
    return f"its {budget} binds ({number(100 * share)} % of {number(offered)} bits asked for)"


def binding(prediction: Prediction) -> str:
    """The budget that binds, and what makes it larger."""
    budget = prediction.binding_budget
    return filled(prediction) + (f", {RAISES[budget]}" if budget else "")


def _next_step(answer: Answer) -> str:
    if answer.prediction.question.task is None:
        return "name the task, or give its file, and some runs of it (--pilot 4) would tell"
    more = "more runs (--pilot)" if answer.pilots else "some runs near the boundary (--pilot 4)"
    return f"{more} would tell"


def _meaning(answer: Answer) -> Iterator[str]:
    prediction = answer.prediction
    skill = prediction.skill
    yield f"A run learns when its skill is 0.95 or more; the skill to expect is {fraction(skill)}."
    for stray in prediction.strays:
        yield f"Beyond what was tried: {stray}."
    yield f"Told from {SOURCES[prediction.source]}; effort: {prediction.effort}."
    if answer.pilots or answer.failed:
        failed = f", {answer.failed} more were no evidence" if answer.failed else ""
        yield f"{counted(answer.pilots, 'pilot run')} joined them{failed}."
    found = prediction.diagnostics
    if not found.trusted:
        worth = f"{found.ess_min:.0f} effective draws, {counted(found.divergences, 'divergence')}"
        told = f"R-hat {found.rhat_max:.2f}, {worth}"
        yield f"The sampler did not settle ({told}): take care with these numbers."


def evidence_table(prediction: Prediction) -> Table:
    """The nearest levels that were tried."""
    right = ("level", "bits", "runs", "skill")
    table = plain_table("nearest runs of", "level", "bits", "runs", "skill", "learned", right=right)
    for row in prediction.evidence:
        learned = "yes" if row["learned"] else "no"
        cells = (row["task"], str(row["level"]), number(row["demand_bits"]), str(row["runs"]))
        table.add_row(*cells, f"{row['skill']:.2f}", learned)
    return table


def chance(interval: Interval) -> str:
    """A probability in percent; never quite none and never quite all."""
    median, low, high = (_percent(end or 0.0) for end in (interval.median, interval.low, interval.high))
    return f"{median} %" if low == high else f"{median} % [{low}–{high} %]"


def _percent(share: float) -> str:
    if share < 0.01:
        return "<1"
    return ">99" if share > 0.99 else f"{100 * share:.0f}"


def fraction(interval: Interval) -> str:
    """A skill with its interval."""
    return f"{interval.median:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


# ── calibrate ─────────────────────────────────────────────────────────────────────────────────────


def calibrated(found: Calibration) -> RenderableType:
    """Whether predictions can be believed: coverage first, then against the rivals, then reliability."""
    scores = found.scores
    runs = f"{counted(found.runs, 'run')} of {counted(found.conditions, 'condition')}"
    logs = f"{_told(scores.log_score)} nats a run, of learning {_told(scores.learned_log_score)}"
    lines = [
        f"Held out: {SCHEMES[found.scheme]}; {runs} in {counted(found.folds, 'fold')}.",
        f"{_percents(scores.coverage_90)} of their skills lie in 90 % predictive intervals.",
        f"Log score {logs}; Brier score {_told(scores.brier)}.",
    ]
    if found.together_ahead:
        ahead = ", ".join(f"{name} by {_signed(one)}" for name, one in found.together_ahead.items())
        own = next(iter(found.together.values()))
        lines.append(
            f"All runs of a fold at once: {_told(own)} nats a run; ahead of {ahead} (counting folds)."
        )
    if found.untrusted:
        lines.append(
            f"{found.untrusted} of {counted(found.folds, 'fit')} did not settle: they count all the same."
        )
    parts: list[RenderableType] = [Text("\n".join(lines) + "\n")]
    if found.rivals:
        parts += [_rival_table(found), Text()]
    return Group(*parts, _reliability_table(found))


def _told(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ± {estimate.standard_error:.3f}"


def _percents(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.0f} ± {100 * estimate.standard_error:.0f} %"


def _rival_table(found: Calibration) -> Table:
    table = plain_table(
        "rival", "log score", "ahead of it by, nats a run", "of learning", "Brier", "coverage"
    )
    for name, scores in found.rivals.items():
        ahead = found.ahead[name]
        gains = (f"{_signed(ahead[score])}" for score in ("log_score", "learned_log_score"))
        brier, coverage = f"{scores.brier.value:.3f}", _percents(scores.coverage_90)
        table.add_row(name, f"{scores.log_score.value:.3f}", *gains, brier, coverage)
    return table


def _signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f} ± {estimate.standard_error:.3f}"


def _reliability_table(found: Calibration) -> Table:
    columns = ("said to learn", "on average", "did learn", "runs")
    table = plain_table(*columns, right=columns)
    for row in found.reliability:
        said = f"{100 * row['low']:.0f}–{100 * row['high']:.0f} %"
        shares = (f"{100 * row[name]:.0f} %" for name in ("predicted", "learned"))
        table.add_row(said, *shares, str(row["runs"]))
    return table
