"""Scatter: how the runs of one condition lie around their mean. Three ways, like cooks in one kitchen.

Near a boundary some runs of a recipe learn all and some nothing, so a run is the unit and its questions
are not. Each way takes how far a condition lies below the boundary (`tilt`, in units of the slope) and
gives the log-probability of each skill in twentieths; each says between which expected skills its curve
falls (`low`, `high`), for the boundary is where the expected skill is one half.

    beta_binomial   from 1 − lapse down to 0, a beta distribution around the mean
    own_floor       the same down to a floor of the family: some failures are better than guessing
    mixture         a run has learned or it has not; each kind has a beta distribution of its own

>>> chances = jnp.exp(log_beta_binomial(jnp.array([0.3]), jnp.array([3.0])))
>>> round(float(chances.sum()), 4)
1.0
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float

from ullage.boundary import LEAST_SKILL, STEPS
from ullage.tabled import Table

# A lapse or floor above this would leave a boundary at one half hardly defined.
LARGEST_LAPSE, LARGEST_FLOOR = 0.4, 0.4
# From "each run is all or nothing" to "runs agree", as in `ullage.boundary`: bounded, because a few runs
# that happen to be equal would otherwise look certain.
LEAST_CONCENTRATION, LARGEST_CONCENTRATION = 0.2, 50.0
LOG_CHOOSE = np.array([math.log(math.comb(STEPS, step)) for step in range(STEPS + 1)])
# (STEPS, STEPS + 1): column k adds up the first k entries.
FIRST = np.triu(np.ones((STEPS, STEPS + 1)), k=1)

Scatter = Callable[[Table, Any], Array]


def log_beta_binomial(
    expected: Float[Array, "conditions"],
    concentration: Float[Array, "families"],
    family: Any = slice(None),
) -> Float[Array, "conditions outcomes"]:
    """log of the probability of each number of twentieths; `family` tells whose concentration each has.

    Γ(a + k) / Γ(a) is the product of a, a + 1, … a + k − 1: sums of logarithms, no gamma function.
    """
    inside = LEAST_SKILL + (1 - 2 * LEAST_SKILL) * expected
    a, b = inside * concentration[family], (1 - inside) * concentration[family]
    places = jnp.arange(STEPS, dtype=a.dtype)
    rising = [jnp.log(start[:, None] + places[None, :]) @ jnp.asarray(FIRST, a.dtype) for start in (a, b)]
    whole = jnp.log(concentration[:, None] + places[None, :]).sum(axis=1)
    choose = jnp.asarray(LOG_CHOOSE, a.dtype)
    return choose[None, :] + rising[0] + rising[1][:, ::-1] - whole[family][:, None]


def draw(name: str, distribution: dist.Distribution) -> Any:
    """`numpyro.sample`, whose declared type is wider than the array that it gives."""
    return numpyro.sample(name, distribution)


def told(name: str, value: Any) -> Any:
    """`numpyro.deterministic`: a quantity that follows and is kept with the draws."""
    return numpyro.deterministic(name, value)


def sample_lapse(table: Table, name: str, largest: float) -> Array:
    """The share by which a family's best runs miss the top, or its failures the bottom."""
    # Most learners lapse hardly ever: one in twenty on average, nine of ten below one in eight.
    with numpyro.plate("families", len(table.active)):
        return told(name, largest * draw(f"{name}_share", dist.Beta(1.0, 7.0)))


def sample_concentration(table: Table, name: str, centre: float = 0.0) -> Array:
    """How closely the runs of one condition agree, for each family, between the two bounds."""
    # Families of one laboratory resemble each other; how much they do is learned with them.
    middle = draw(f"{name}_centre", dist.Normal(centre, 1.0))
    spread = draw(f"{name}_scale", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("families", len(table.active)):
        place = draw(f"{name}_place", dist.Normal(*table.where_active(middle, spread)))
    ratio = LARGEST_CONCENTRATION / LEAST_CONCENTRATION
    return told(name, LEAST_CONCENTRATION * ratio ** jax.nn.sigmoid(place))


def beta_binomial(table: Table, tilt: Float[Array, "conditions"]) -> Float[Array, "conditions outcomes"]:
    """One hump around the mean, or two heaps at the ends where the concentration is small."""
    lapse = sample_lapse(table, "lapse", LARGEST_LAPSE)
    concentration = sample_concentration(table, "concentration")
    told("low", jnp.zeros_like(lapse))
    high = told("high", 1 - lapse)
    return log_beta_binomial(high[table.family] * jax.nn.sigmoid(tilt), concentration, table.family)


def own_floor(table: Table, tilt: Float[Array, "conditions"]) -> Float[Array, "conditions outcomes"]:
    """As `beta_binomial`, but a family's failures have a skill of their own, which need not be 0."""
    lapse = sample_lapse(table, "lapse", LARGEST_LAPSE)
    low = told("low", sample_lapse(table, "floor", LARGEST_FLOOR))
    concentration = sample_concentration(table, "concentration")
    high = told("high", 1 - lapse)
    expected = low[table.family] + (high - low)[table.family] * jax.nn.sigmoid(tilt)
    return log_beta_binomial(expected, concentration, table.family)


def mixture(table: Table, tilt: Float[Array, "conditions"]) -> Float[Array, "conditions outcomes"]:
    """A run has learned or not: two heaps that each family has of its own, and a share between them."""
    lapse = sample_lapse(table, "lapse", LARGEST_LAPSE)  # runs that do not learn however easy it is
    top = 1 - sample_lapse(table, "miss", LARGEST_LAPSE)  # the mean skill of runs that have learned
    low = told("low", sample_lapse(table, "floor", LARGEST_FLOOR))  # of those that have not
    told("high", low + (1 - lapse) * (top - low))
    told("top", top)
    # Who has learned agrees more closely than runs at large do, who has not agrees as they do.
    above = log_beta_binomial(top, sample_concentration(table, "concentration_learned", 1.0))
    below = log_beta_binomial(low, sample_concentration(table, "concentration"))
    learned = (1 - lapse)[table.family] * jax.nn.sigmoid(tilt)
    return jnp.logaddexp(
        jnp.log(learned)[:, None] + above[table.family], jnp.log1p(-learned)[:, None] + below[table.family]
    )


def no_lapse(table: Table, tilt: Float[Array, "conditions"]) -> Float[Array, "conditions outcomes"]:
    """As `beta_binomial` with every lapse forced to nought: a control that is meant to be wrong."""
    concentration = sample_concentration(table, "concentration")
    told("low", jnp.zeros_like(concentration))
    told("high", jnp.ones_like(concentration))
    return log_beta_binomial(jax.nn.sigmoid(tilt), concentration, table.family)


SCATTERS: dict[str, Scatter] = {
    "beta_binomial": beta_binomial,
    "own_floor": own_floor,
    "mixture": mixture,
    "no_lapse": no_lapse,
}
