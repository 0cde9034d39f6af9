"""What the priors believe before any run, told in quantities that somebody who trains models has met.

Nine of ten draws must lie inside of what is reasonable and reach at least as far as what was measured: a
prior that is too wide fails the one, a prior that is too narrow the other.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from numpyro.infer import Predictive

from ullage.conditions import conditions_of
from ullage.metamodel import RIVALS
from ullage.observations import Model, Observation
from ullage.scatter import SCATTERS
from ullage.tabled import tabled

DRAWS = 2000
FAMILIES = ("copy", "modulo", "parity", "sort")
MODELS = tuple(
    Model(f"of width {8 * 2**place}", "simulated", 2, 4, 8 * 2**place, 64, 32) for place in range(3)
)
Draws = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Belief:
    """A quantity, what would be unreasonable beyond, and what was met and must not come as a surprise."""

    rival: str
    scatter: str
    quantity: Callable[[Draws], np.ndarray]
    reasonable: tuple[float, float]
    met: tuple[float, float]

    def holds(self, draws: Draws) -> bool:
        low, high = np.quantile(self.quantity(draws), [0.05, 0.95])
        return bool(self.reasonable[0] <= low <= self.met[0] and self.met[1] <= high <= self.reasonable[1])


def falls_within(draws: Draws) -> np.ndarray:
    """The factor in bits within which a family's skill falls from 0.9 to 0.1 of what it can be."""
    log_slope = draws["log_slope"] if draws["log_slope"].ndim == 2 else draws["log_slope"][:, None]
    return 2 ** (2 * math.log(9) / np.exp(log_slope[:, 0]))


BELIEFS = {
    # Measured boundaries fall within a factor of 1.2 (memorise) to one of several (parity).
    "steepness": Belief("hierarchical", "own_floor", falls_within, (1.01, 1000.0), (1.2, 4.0)),
    # Two families, in log2 bits: modulo learns 5 bits, parity 6, induction 50, copying over 250.
    "families": Belief(
        "hierarchical",
        "own_floor",
        lambda draws: np.abs(draws["difficulty"][:, 0] - draws["difficulty"][:, 1]),
        (0.0, 13.0),
        (0.5, 5.6),
    ),
    # A layer more, or no feed-forward part, moved C by a fifth up to a factor of two.
    "models": Belief(
        "hierarchical",
        "own_floor",
        lambda draws: 2 ** np.abs((draws["model"][:, 0] - draws["model"][:, 1]) * draws["model_scale"]),
        (1.0, 8.0),
        (1.2, 2.0),
    ),
    # Twice the budget: nothing gained, up to twice the capacity.
    "growth": Belief("hierarchical", "own_floor", lambda draws: 2 ** draws["growth"], (0.5, 4.0), (1.0, 2.0)),
    # What one model has of its own on one family.
    "pairs": Belief(
        "hierarchical", "own_floor", lambda draws: 2 ** np.abs(draws["pair"][:, 0, 0]), (1.0, 4.0), (1.1, 1.4)
    ),
    # Learners miss the top, and failures are better than guessing, by some hundredths.
    "lapse": Belief("hierarchical", "own_floor", lambda draws: draws["lapse"][:, 0], (0.0, 0.3), (0.02, 0.1)),
    "floor": Belief("hierarchical", "own_floor", lambda draws: draws["low"][:, 0], (0.0, 0.3), (0.02, 0.1)),
    # From all or nothing to runs that agree.
    "agreement": Belief(
        "hierarchical", "own_floor", lambda draws: draws["concentration"][:, 0], (0.2, 50.0), (0.6, 14.0)
    ),
    # Levels are put around where the boundary is expected, seldom by more than a factor of 60 beside it.
    "typical": Belief(
        "hierarchical", "own_floor", lambda draws: 2 ** draws["typical"], (1 / 100, 100.0), (1 / 16, 16.0)
    ),
    "independent steepness": Belief("independent", "own_floor", falls_within, (1.01, 1000.0), (1.2, 4.0)),
    "independent boundary": Belief(
        "independent", "own_floor", lambda draws: draws["boundary"][:, 0], (-8.0, 8.0), (-5.0, 5.0)
    ),
    # One curve for families of all kinds is shallower than each of them.
    "pooled steepness": Belief("pooled", "own_floor", falls_within, (1.1, 1e6), (1.6, 50.0)),
    "response questions": Belief(
        "response",
        "own_floor",
        lambda draws: draws["easiness"][:, 0] + draws["item"][:, 0] * draws["item_scale"],
        (-10.0, 10.0),
        (-4.0, 4.0),
    ),
}


def prior_draws(rival: str, scatter: str) -> Draws:
    """Draws of everything that a model names, from its prior alone."""
    runs = [
        Observation(family, level, 0, "input", {"input": 2.0**level}, 0.5, model, 1000)
        for family in FAMILIES
        for model in MODELS
        for level in range(1, 7)
    ]
    table = tabled(conditions_of(runs, "nominal"))
    predict = Predictive(RIVALS[rival], num_samples=DRAWS)
    found: Mapping[str, Any] = predict(jax.random.key(0), table, SCATTERS[scatter])
    return {name: np.asarray(values) for name, values in found.items()}


@pytest.fixture(scope="module")
def draws():
    known: dict[tuple[str, str], Draws] = {}

    def drawn(belief: Belief) -> Draws:
        key = (belief.rival, belief.scatter)
        if key not in known:
            known[key] = prior_draws(*key)
        return known[key]

    return drawn


@pytest.mark.parametrize("name", BELIEFS)
def test_a_prior_is_neither_wider_than_reason_nor_narrower_than_what_was_met(name, draws):
    belief = BELIEFS[name]

    assert belief.holds(draws(belief)), np.quantile(belief.quantity(draws(belief)), [0.05, 0.5, 0.95])


@pytest.mark.parametrize("stretch", [0.1, 10.0])
def test_a_prior_that_is_ten_times_too_narrow_or_too_wide_would_be_seen(stretch, draws):
    belief = BELIEFS["families"]
    wrong = {**draws(belief), "difficulty": stretch * draws(belief)["difficulty"]}

    assert not belief.holds(wrong)
