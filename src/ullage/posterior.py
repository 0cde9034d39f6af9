"""The posterior of a fit: draws of every quantity, and the curve of any model on any family.

Numbers only: what is read off here needs numpy and neither JAX nor the sampler, so a posterior that was
kept on a disk is as good as a new one.

    expected skill = low + (high − low) · σ(slope · (middle − log2 demand))

>>> import numpy as np
>>> flat = np.zeros(3)
>>> curve = Curve(flat + 5.0, flat + 4.0, flat, flat + 0.8, {"concentration": flat + 3.0}, "beta_binomial")
>>> [round(float(x), 2) for x in curve.expected_skill(5.0)]
[0.4, 0.4, 0.4]
>>> bool(np.allclose(curve.expected_skill(curve.half_skill()), 0.5))
True
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ullage.boundary import LEAST_SKILL, STEPS, in_steps
from ullage.conditions import Conditions
from ullage.observations import Effort
from ullage.record import LEARNED

LOG_CHOOSE = np.array([math.log(math.comb(STEPS, step)) for step in range(STEPS + 1)])
RHAT_LIMIT = 1.03  # split R-hat of two chains of 500 draws strays to 1.02 where all is well
ESS_LIMIT = 100  # draws worth: the ends of a 90 % interval are then known to a fifth of a standard deviation
DIVERGENT_SHARE = 0.01  # of the draws; more than a stray few tell of a place where the sampler cannot go


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """Whether the sampler can be believed."""

    rhat_max: float
    ess_min: float
    divergences: int
    draws: int

    @property
    def trusted(self) -> bool:
        """Whether all three are within their limits."""
        return (
            self.rhat_max <= RHAT_LIMIT
            and self.ess_min >= ESS_LIMIT
            and self.divergences <= DIVERGENT_SHARE * self.draws
        )


@dataclasses.dataclass(frozen=True)
class Curve:
    """How one model does on one family: arrays with one entry a draw."""

    middle: np.ndarray  # log2 bits
    slope: np.ndarray  # per log2 bit
    low: np.ndarray
    high: np.ndarray
    spread: Mapping[str, np.ndarray]  # what the scatter needs beside
    scatter: str
    item: np.ndarray | float = 0.0  # what a level has of its own, for rivals that know no demand
    uses_demand: bool = True

    def tilt(self, log2_demand: float | np.ndarray) -> np.ndarray:
        """How far below the boundary a demand lies, in units of the slope."""
        return self.slope * (self.middle - log2_demand * self.uses_demand + self.item)

    def expected_skill(self, log2_demand: float | np.ndarray) -> np.ndarray:
        """The mean skill of runs, for every draw."""
        return self.low + (self.high - self.low) * _sigmoid(self.tilt(log2_demand))

    def half_skill(self) -> np.ndarray:
        """log2 of the demand at which the expected skill is one half: C, for every draw."""
        share = (0.5 - self.low) / (self.high - self.low)
        return self.middle - np.log(share / (1 - share)) / self.slope

    def chances(self, log2_demand: float) -> np.ndarray:
        """The probability of each skill in twentieths, (draws, STEPS + 1)."""
        if self.scatter != "mixture":
            return np.exp(_log_chances(self.expected_skill(log2_demand), self.spread["concentration"]))
        top = self.spread["top"]
        learned = ((self.high - self.low) / (top - self.low) * _sigmoid(self.tilt(log2_demand)))[:, None]
        above = np.exp(_log_chances(top, self.spread["concentration_learned"]))
        return learned * above + (1 - learned) * np.exp(_log_chances(self.low, self.spread["concentration"]))

    def learns(self, log2_demand: float) -> np.ndarray:
        """The probability that a run learns, for every draw; 0.95 is 19 of 20."""
        return self.chances(log2_demand)[:, in_steps(LEARNED) :].sum(axis=1)


def _sigmoid(tilt: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(tilt, -700, 700)))


def _log_chances(expected: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    """The beta-binomial of `ullage.scatter`, in numpy: log of the probability of each twentieth."""
    inside = (LEAST_SKILL + (1 - 2 * LEAST_SKILL) * expected)[:, None]
    places = np.arange(STEPS)
    a, b, whole = (
        inside * concentration[:, None],
        (1 - inside) * concentration[:, None],
        concentration[:, None],
    )
    first = np.zeros((len(inside), 1))
    rising = [np.hstack([first, np.cumsum(np.log(start + places), axis=1)]) for start in (a, b)]
    return LOG_CHOOSE + rising[0] + rising[1][:, ::-1] - np.log(whole + places).sum(axis=1)[:, None]


@dataclasses.dataclass(frozen=True)
class Posterior:
    """What a fit believes after the runs of `conditions`; every entry of `draws` has the draws first.

    Names of draws: typical, growth, model, pair, technique, difficulty, slope, low, high and what the
    scatter needs (concentration …); `*_scale` and `*_centre` tell of families and models not seen yet.
    """

    conditions: Conditions
    effort: Effort
    rival: str
    scatter: str
    draws: Mapping[str, np.ndarray]
    diagnostics: Diagnostics
    excluded: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many draws there are."""
        return len(self.draws["slope"])

    def of(self, name: str) -> np.ndarray | float:
        """The draws of a name; 0 where this model has no such thing."""
        return self.draws.get(name, 0.0)

    def curve(
        self, model: int | None, family: int | None, technique: int = 0, log2_budget: float = 0.0
    ) -> Curve:
        """The curve of a model and family by their places in `conditions`.

        A model that was not seen is None and told by `log2_budget`: the log2 of its budget less the mean of
        the fitted models'. A family that was not seen is None. What they have of their own is drawn from
        what those seen have, so that the curve is as uncertain as it should be.
        """
        middle = np.full(self.count, float(np.mean(self.conditions.middles()))) + self.of("typical")
        middle = middle + self._of_model(model, log2_budget) - self._difficulty(family)
        middle = middle + self._gain(technique, family) + self._pair(model, family)
        if family is not None:
            middle = middle + self.conditions.log2_offset[family]
        of_family = {
            name: self.draws[name][:, family] if family is not None else self._new(name)
            for name in ("slope", "low", "high", *self._spread())
        }
        spread = {name: of_family[name] for name in self._spread()}
        slope, low, high = (of_family[name] for name in ("slope", "low", "high"))
        return Curve(middle, slope, low, high, spread, self.scatter, self._item(), self.rival != "response")

    def _spread(self) -> tuple[str, ...]:
        return (
            ("top", "concentration_learned", "concentration")
            if self.scatter == "mixture"
            else ("concentration",)
        )

    def _normal(self, purpose: str) -> np.ndarray:
        """Standard normal numbers, always the same for one purpose."""
        seed = int.from_bytes(purpose.encode(), "big")
        return np.random.default_rng(seed).normal(size=self.count)

    def _of_model(self, model: int | None, log2_budget: float) -> np.ndarray | float:
        if model is None:
            return self.of("growth") * log2_budget + self.of("model_scale") * self._normal("model")
        own = self.draws["model"][:, model] if "model" in self.draws else 0.0
        return self.of("growth") * self.conditions.log2_budgets[model] + own

    def _difficulty(self, family: int | None) -> np.ndarray:
        if family is not None:
            return self.draws["difficulty"][:, family]
        # The fitted difficulties sum to zero: a new one strays from their mean, which is itself uncertain.
        stretch = math.sqrt(1 + 1 / len(self.conditions.families))
        return self.of("difficulty_scale") * self._normal("difficulty") * stretch

    def _pair(self, model: int | None, family: int | None) -> np.ndarray | float:
        if model is not None and family is not None:
            return self.draws["pair"][:, model, family] if "pair" in self.draws else 0.0
        return self.of("pair_scale") * self._normal("pair")

    def _gain(self, technique: int, family: int | None) -> np.ndarray | float:
        if not technique or "technique" not in self.draws:
            return 0.0
        if family is not None:
            return (
                self.draws["technique"][:, technique] + self.draws["technique_family"][:, technique, family]
            )
        strayed = self.of("technique_family_scale") * self._normal(f"technique {technique}")
        return self.draws["technique"][:, technique] + strayed

    def _new(self, name: str) -> np.ndarray:
        """A shape for a family that was not seen: that of one of those seen, another one for each draw."""
        names = len(self.conditions.families)
        which = np.random.default_rng(0).integers(names, size=self.count)
        return self.draws[name][np.arange(self.count), which]

    def _item(self) -> np.ndarray | float:
        return self.of("item_scale") * self._normal("item") if self.rival == "response" else 0.0

    def to_json(self) -> dict[str, Any]:
        """Everything but the draws, as a document."""
        return {
            "conditions": self.conditions.to_json(),
            "effort": dataclasses.asdict(self.effort),
            "rival": self.rival,
            "scatter": self.scatter,
            "diagnostics": dataclasses.asdict(self.diagnostics),
            "excluded": dict(self.excluded),
        }
