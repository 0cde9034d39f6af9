"""The boundary of one family: the demand at which the expected skill of a run is one half.

A posterior on a grid, without sampling. The expected skill falls with the demand b as

    (1 − lapse) · σ(slope · (log2 c − log2 b))

and runs of one demand scatter around it as a beta distribution does, read in twentieths; with a small
concentration that scatter is all or nothing. The run is the unit: a run's many questions say little
about the next run. The interval speaks only of the levels that were tried: where all of them were
learned it has no upper end, where none was it has no lower end.

>>> runs = [(b, 1.0) for b in (2, 4, 8)] * 3 + [(b, 0.0) for b in (32, 64)] * 3
>>> found = fit(runs)
>>> 8 < found.interval().median < 32
True
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from ullage.bits import log_gamma
from ullage.record import LEARNED

CREDIBLE = (0.05, 0.95)
DRAWS = 4000
STEPS = 20  # a skill is read in twentieths: finer than any difference between runs that matters here
MARGIN = 2.0  # how far, in log2 bits, the boundary may lie outside the tried demands
# Log-spaced from "a factor of four in demand decides nothing" to "a step": in units of 1 / log2 bits.
SLOPES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
LAPSES = np.array([0.0, 0.05, 0.1, 0.2, 0.3])
LAPSE_WEIGHTS = np.array([0.5, 0.2, 0.15, 0.1, 0.05])  # most learners have none
# From "each run is all or nothing" to "runs agree"; bounded, or a few equal runs would look certain.
CONCENTRATIONS = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
LEAST_SKILL = 0.005  # expected skills stay this far from 0 and 1, where the beta is no distribution


@dataclasses.dataclass(frozen=True)
class Interval:
    """A 90 % credible interval; None is an end that the runs do not bound."""

    median: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, float | None]:
        """The document of an interval."""
        return dataclasses.asdict(self)

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None


UNKNOWN = Interval(None, None, None)


@dataclasses.dataclass(frozen=True)
class Boundary:
    """The posterior of log2 C, as draws, and the range of log2 demands that was tried."""

    draws: np.ndarray
    tried: tuple[float, float]

    def interval(self) -> Interval:
        """C in bits."""
        return _interval(self.draws, *self.tried)


def _interval(draws: np.ndarray, lowest: float, highest: float) -> Interval:
    low, median, high = np.quantile(draws, [CREDIBLE[0], 0.5, CREDIBLE[1]])
    below, above = low < lowest, high > highest
    # An end beyond what was tried would be the prior's; the other end must hold without it, too.
    ends = (
        None if below else float(2 ** min(low, highest)),
        None if above else float(2 ** max(high, lowest)),
    )
    inside = lowest <= median <= highest
    return Interval(float(2**median) if inside else None, *ends)


def fit(runs: Sequence[tuple[float, float]]) -> Boundary:
    """The boundary from (demand in bits, skill) of each run.

    Demands must be positive and of at least one value; skills may leave 0 to 1.
    """
    demands = np.log2(np.array([demand for demand, _ in runs]))
    steps = np.rint(np.clip([skill for _, skill in runs], 0.0, 1.0) * STEPS).astype(int)
    tried = (float(demands.min()), float(demands.max()))
    centres = np.linspace(tried[0] - MARGIN, tried[1] + MARGIN, 241)
    centre, slope, lapse, concentration = np.meshgrid(
        centres, SLOPES, LAPSES, CONCENTRATIONS, indexing="ij", sparse=True
    )
    total = np.zeros(np.broadcast_shapes(centre.shape, slope.shape, lapse.shape, concentration.shape))
    for demand in np.unique(demands):
        skill = (1 - lapse) / (1 + np.exp(-np.clip(slope * (centre - demand), -40, 40)))
        expected = np.clip(skill, LEAST_SKILL, 1 - LEAST_SKILL)
        for step, count in zip(*np.unique(steps[demands == demand], return_counts=True), strict=True):
            total = total + count * log_beta_binomial(int(step), expected, concentration)
    total = total + np.log(LAPSE_WEIGHTS)[None, None, :, None]
    return Boundary(_draw(total, _half_skill(centre, slope, lapse)), tried)


def _half_skill(centre: np.ndarray, slope: np.ndarray, lapse: np.ndarray) -> np.ndarray:
    """log2 of the demand at which the curve is one half: left of its middle where runs lapse."""
    odds = 0.5 / (1 - lapse)
    return centre - np.log(odds / (1 - odds + 1e-12)) / slope * (lapse > 0)


def log_beta_binomial(step: int, expected: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    """log of the probability of `step` twentieths; sums to one over 0 to 20.

    >>> chances = [math.exp(log_beta_binomial(k, np.array(0.3), np.array(3.0))) for k in range(21)]
    >>> round(sum(chances), 8)
    1.0
    """
    a, b = expected * concentration, (1 - expected) * concentration
    choose = math.lgamma(STEPS + 1) - math.lgamma(step + 1) - math.lgamma(STEPS - step + 1)
    top = log_gamma(a + step) + log_gamma(b + STEPS - step) - log_gamma(a + b + STEPS)
    return choose + top - (log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def _draw(log_weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    weight = np.exp(log_weight - log_weight.max())
    flat = np.broadcast_to(values, log_weight.shape).ravel()
    # Evenly spaced draws from the sorted values: quantiles without the noise of sampling.
    order = np.argsort(flat)
    heap = np.cumsum(weight.ravel()[order])
    places = np.searchsorted(heap, (np.arange(DRAWS) + 0.5) / DRAWS * heap[-1])
    return flat[order][np.minimum(places, flat.size - 1)]


def typical(boundaries: Sequence[Boundary]) -> Interval:
    """C of the typical one of these families: the average of their log2 C, in bits.

    A family without an upper end counts with the highest demand that was tried, and the average has no
    upper end either; likewise below.
    """
    if not boundaries:
        return UNKNOWN
    order = np.random.default_rng(0)  # pairs the draws of independent families
    parts, ends = [], [one.interval() for one in boundaries]
    for one, end in zip(boundaries, ends, strict=True):
        low = one.tried[0] if end.low is None else -math.inf
        high = one.tried[1] if end.high is None else math.inf
        parts.append(order.permutation(np.clip(one.draws, low, high)))
    low, median, high = np.quantile(np.mean(parts, axis=0), [CREDIBLE[0], 0.5, CREDIBLE[1]])
    no_low, no_high = any(end.low is None for end in ends), any(end.high is None for end in ends)
    return Interval(
        None if no_low or no_high else float(2**median),
        None if no_low else float(2**low),
        None if no_high else float(2**high),
    )


@functools.lru_cache(maxsize=256)
def cached_fit(runs: tuple[tuple[float, float], ...]) -> Boundary:
    """`fit`, remembered: the same runs are looked at for several read-offs."""
    return fit(runs)


def is_monotone(mean_skills: Sequence[float]) -> bool:
    """Whether no level (easy to hard) is learned above one that more often fails.

    >>> is_monotone([1.0, 0.4, 1.0])
    False
    """
    worst = math.inf
    for skill in mean_skills:
        if skill >= LEARNED and worst < 0.5:
            return False
        worst = min(worst, skill)
    return True
