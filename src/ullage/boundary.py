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

import collections
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np

CREDIBLE = (0.05, 0.95)
DRAWS = 4000
STEPS = 20  # a skill is read in twentieths: finer than any difference between runs that matters here
MARGIN = 2.0  # how far, in log2 bits, the boundary may lie outside the tried demands
SPACING = 0.05  # of the lattice in log2 bits: a tenth of the narrowest interval that is asked for
# Log-spaced from "a factor of four in demand decides nothing" to "a step": in units of 1 / log2 bits.
SLOPES = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0])
LAPSES = np.array([0.0, 0.05, 0.1, 0.2, 0.3])
LAPSE_WEIGHTS = np.array([0.5, 0.2, 0.15, 0.1, 0.05])  # most learners have none
# From "each run is all or nothing" to "runs agree"; bounded, or a few equal runs would look certain.
CONCENTRATIONS = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
# How far, in cells of the lattice, one level's own boundary may lie off the family's: a normal
# distribution of a tenth of a log2 bit, which is what neighbouring moduli and recipes differ by.
PECULIAR = {-4: 0.054, -2: 0.244, 0: 0.404, 2: 0.244, 4: 0.054}
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


def in_levels(bits: Interval, asked: Iterable[tuple[float, int]]) -> Interval:
    """An interval in bits as one of levels; `asked` holds the bits and the level of all that were tried.

    >>> in_levels(Interval(None, 8.0, 24.0), [(8.0, 3), (16.0, 4), (32.0, 5)])
    Interval(median=None, low=3.0, high=4.5)
    """
    demands, levels = np.array(sorted({*asked})).T
    ends = (bits.median, bits.low, bits.high)
    return Interval(*(None if end is None else float(np.interp(end, demands, levels)) for end in ends))


@dataclasses.dataclass(frozen=True)
class Boundary:
    """The posterior of log2 C, as draws, and the range of log2 demands that was tried."""

    draws: np.ndarray
    tried: tuple[float, float]

    def interval(self) -> Interval:
        """C in bits."""
        return interval_within(self.draws, *self.tried)


def interval_within(draws: np.ndarray, lowest: float, highest: float) -> Interval:
    """Draws of log2 bits as an interval in bits; an end beyond the log2 demands that were tried is None."""
    low, median, high = np.quantile(draws, [CREDIBLE[0], 0.5, CREDIBLE[1]])
    below, above = low < lowest, high > highest
    # An end beyond what was tried would be the prior's; the other end must hold without it, too.
    ends = (
        None if below else float(2 ** min(low, highest)),
        None if above else float(2 ** max(high, lowest)),
    )
    inside = lowest <= median <= highest
    return Interval(float(2**median) if inside else None, *ends)


@dataclasses.dataclass(frozen=True)
class Lattice:
    """All curves that a family may have, as four flat arrays of one length; ends in log2 bits.

    >>> lattice = Lattice(0.0, 1.0)
    >>> float(lattice.half_skill.max()), bool(np.isclose(np.exp(lattice.log_prior).sum(), 1.0))
    (1.0, True)
    """

    lowest: float
    highest: float

    @classmethod
    def over(cls, demands: Sequence[float]) -> "Lattice":
        """The lattice for these demands in log2 bits; whole numbers as ends, so that many share one."""
        return cls(math.floor(min(demands)) - MARGIN, math.ceil(max(demands)) + MARGIN)

    @functools.cached_property
    def _axes(self) -> tuple[np.ndarray, ...]:
        count = round((self.highest - self.lowest) / SPACING) + 1
        centres = np.linspace(self.lowest, self.highest, count)
        return np.meshgrid(centres, SLOPES, LAPSES, CONCENTRATIONS, indexing="ij", sparse=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Centres, slopes, lapses, concentrations."""
        return np.broadcast_shapes(*(axis.shape for axis in self._axes))

    @functools.cached_property
    def half_skill(self) -> np.ndarray:
        """log2 of the demand at which a curve is one half: left of its middle where runs lapse."""
        centre, slope, lapse, _ = self._axes
        odds = 0.5 / (1 - lapse)
        half = centre - np.log(odds / (1 - odds + 1e-12)) / slope * (lapse > 0)
        return np.broadcast_to(half, self.shape).ravel()

    @functools.cached_property
    def log_prior(self) -> np.ndarray:
        """Every centre, slope and concentration is as likely as any other."""
        weight = np.broadcast_to(LAPSE_WEIGHTS[None, None, :, None], self.shape).ravel()
        return np.log(weight / weight.sum())

    @functools.cached_property
    def order(self) -> np.ndarray:
        """The places of the curves, sorted by where they are one half."""
        return np.argsort(self.half_skill, kind="stable")

    def expected_skill(self, demand: float) -> np.ndarray:
        """The mean skill of runs at a demand, for every curve."""
        centre, slope, lapse, _ = self._axes
        skill = (1 - lapse) / (1 + np.exp(-np.clip(slope * (centre - demand), -40, 40)))
        return np.broadcast_to(np.clip(skill, LEAST_SKILL, 1 - LEAST_SKILL), self.shape)

    def log_chance(self, demand: float, step: int) -> np.ndarray:
        """log of the probability of a skill of so many twentieths at a demand, for every curve."""
        return _log_chance(self, demand, step)


@functools.lru_cache(maxsize=2048)  # of about 0.2 MB each: a campaign needs some dozens, a rehearsal more
def _log_chance(lattice: Lattice, demand: float, step: int) -> np.ndarray:
    *_, concentration = lattice._axes  # noqa: SLF001 - the cache of the class above
    chance = log_beta_binomial(lattice.expected_skill(demand), concentration, step)
    return chance.ravel().astype(np.float32)


def log_beta_binomial(expected: np.ndarray, concentration: np.ndarray, step: int) -> np.ndarray:
    """log of the probability of so many twentieths, where the mean is `expected`.

    >>> chances = [np.exp(log_beta_binomial(np.array(0.3), np.array(3.0), step)) for step in range(21)]
    >>> round(float(sum(chances)), 8)
    1.0
    """
    a, b = expected * concentration, (1 - expected) * concentration
    rising = _log_rising(a, step) + _log_rising(b, STEPS - step) - _log_rising(a + b, STEPS)
    return math.log(math.comb(STEPS, step)) + rising


def _log_rising(x: np.ndarray, count: int) -> np.ndarray:
    """log of Γ(x + count) / Γ(x), which is the product of x, x + 1, … x + count − 1: no gamma function."""
    product = np.ones_like(x)
    for place in range(count):
        product = product * (x + place)  # at most 50^20, which 64 bits hold
    return np.log(product)


def in_steps(skill: float) -> int:
    """A skill in twentieths; below 0 and above 1 count as the ends.

    >>> in_steps(0.52), in_steps(-0.1), in_steps(1.01)
    (10, 0, 20)
    """
    return round(min(max(skill, 0.0), 1.0) * STEPS)


@dataclasses.dataclass(frozen=True)
class Belief:
    """What runs say of a family's curve: a weight for every curve of a lattice."""

    lattice: Lattice
    log_weight: np.ndarray

    @classmethod
    def before(cls, lattice: Lattice) -> "Belief":
        """Before any run."""
        return cls(lattice, lattice.log_prior)

    def after(self, demand: float, skills: Sequence[float]) -> "Belief":
        """With all runs of one level more, of a demand in log2 bits.

        They share what is peculiar to the level and to the recipe that was judged there: their boundary lies
        off that of the family by a tenth of a log2 bit or so.
        """
        told = _told(self.lattice, demand, tuple(sorted(map(in_steps, skills))))
        return Belief(self.lattice, self.log_weight + told)

    @functools.cached_property
    def weight(self) -> np.ndarray:
        """The probability of every curve."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return weight / weight.sum()

    def draws(self) -> np.ndarray:
        """log2 C, evenly spaced in its probability: quantiles without the noise of sampling."""
        order = self.lattice.order
        heap = np.cumsum(self.weight[order])
        places = np.searchsorted(heap, (np.arange(DRAWS) + 0.5) / DRAWS * heap[-1])
        return self.lattice.half_skill[order][np.minimum(places, order.size - 1)]


@functools.lru_cache(maxsize=128)  # of about 0.4 MB each: all levels of a family but one stay as they were
def _told(lattice: Lattice, demand: float, steps: tuple[int, ...]) -> np.ndarray:
    """What the runs of one level say of every curve."""
    counted = collections.Counter(steps).items()
    told = np.sum([count * lattice.log_chance(demand, step) for step, count in counted], axis=0, dtype=float)
    return _blurred(told.reshape(lattice.shape)).ravel()


def _blurred(told: np.ndarray) -> np.ndarray:
    """A level's log-likelihood, averaged over the places that its own boundary may have."""
    largest = told.max()
    likely = np.exp(told - largest)
    padded = np.pad(likely, [(max(PECULIAR), max(PECULIAR)), *[(0, 0)] * (told.ndim - 1)], mode="edge")
    total = sum(
        weight * padded[max(PECULIAR) + cells : max(PECULIAR) + cells + len(told)]
        for cells, weight in PECULIAR.items()
    )
    return np.log(np.maximum(total, 1e-300)) + largest


def by_level(runs: Sequence[tuple[float, float]]) -> dict[float, list[float]]:
    """The skills of runs by their demand, small demands first.

    >>> by_level([(4.0, 0.0), (2.0, 1.0), (4.0, 0.5)])
    {2.0: [1.0], 4.0: [0.0, 0.5]}
    """
    levels: dict[float, list[float]] = {demand: [] for demand in sorted({demand for demand, _ in runs})}
    for demand, skill in runs:
        levels[demand].append(skill)
    return levels


def fit(runs: Sequence[tuple[float, float]]) -> Boundary:
    """The boundary from (demand in bits, skill) of each run.

    Demands must be positive and of at least one value; skills may leave 0 to 1.
    """
    levels = {math.log2(demand): skills for demand, skills in by_level(runs).items()}
    belief = Belief.before(Lattice.over(list(levels)))
    for demand, skills in levels.items():
        belief = belief.after(demand, skills)
    return Boundary(belief.draws(), (min(levels), max(levels)))


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


# ── one boundary or several ───────────────────────────────────────────────────────────────────────

SUSPICIOUS = math.log(20.0)  # odds of twenty to one for a hole; LOG.md tells how often that is wrong


def is_monotone(runs: Sequence[tuple[float, float]]) -> bool:
    """Whether one falling curve tells these (demand in bits, skill) well enough.

    >>> is_monotone([(8.0, 1.0), (16.0, 1.0), (32.0, 0.0)] * 3)
    True
    >>> is_monotone([(8.0, 1.0), (16.0, 0.0), (32.0, 1.0), (64.0, 0.0)] * 3)
    False
    """
    return suspicion(runs) < SUSPICIOUS


def suspicion(runs: Sequence[tuple[float, float]]) -> float:
    """The log odds for a hole: some neighbouring levels that fail although harder ones are learned.

    For every stretch of levels below a better one: how much better are its runs told by a skill of their
    own, below one half, than by the falling curve that all other runs make likely? The largest counts.
    """
    skills = by_level(runs)
    levels = list(skills)
    means = {level: float(np.mean(skills[level])) for level in levels}
    if len(levels) < 3:
        return -math.inf
    before = Belief.before(Lattice.over([math.log2(level) for level in levels]))
    told = [before.after(math.log2(level), skills[level]).log_weight - before.log_weight for level in levels]
    everything = before.log_weight + np.sum(told, axis=0)
    odds = [-math.inf]
    for first in range(len(levels) - 1):
        for last in range(first, len(levels) - 1):
            stretch = levels[first : last + 1]
            above = max(means[level] for level in levels[last + 1 :])
            if max(means[level] for level in stretch) >= min(0.5, above):
                continue
            without = everything - np.sum(told[first : last + 1], axis=0)
            as_curve = _log_sum(everything) - _log_sum(without)
            odds.append(_log_failing([skill for level in stretch for skill in skills[level]]) - as_curve)
    return max(odds)


def _log_sum(logs: np.ndarray) -> float:
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))


def _log_failing(skills: Sequence[float]) -> float:
    """How likely these runs are where the mean skill may be anything below one half."""
    means, concentrations = np.meshgrid(np.linspace(LEAST_SKILL, 0.5, 20), CONCENTRATIONS)
    logs = np.sum([log_beta_binomial(means, concentrations, in_steps(skill)) for skill in skills], axis=0)
    return _log_sum(logs) - math.log(logs.size)
