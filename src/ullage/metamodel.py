"""The meta-model beside its rivals: four short functions that say where a run lies below its boundary.

    hierarchical   every family has a difficulty and a slope, every model a capacity, which grows with
                   its budget; what families and models share is learned from all of them
    independent    every family has a boundary and a slope of its own and knows of nobody, nor of models
    pooled         one curve of bits for everything: a bit is a bit, whatever asks for it
    response       item response theory without demand: models have an ability, every question (a family
                   at a level) a difficulty of its own, so a level that was not tried is only a guess

Each takes a table and a scatter (`ullage.scatter`), names what it samples, and adds the log-probability
of the counts. With C the boundary of a model on a family and b a demand, both in bits,

    tilt = slope · (log2 C − log2 b)       expected skill = low + (high − low) · σ(tilt)

`hierarchical` is the model that `ullage.capacity` fits unless it is told otherwise. All demands enter as
log2 bits less the middle of what was tried. Why each prior is what it is stands beside it. The spread
between families or models is never quite nought, so its prior is log-normal: that keeps the sampler out
of the neck of a funnel, where it would diverge.
"""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float

from ullage.scatter import Scatter, draw, told
from ullage.tabled import Table

Rival = Callable[[Table, Scatter], None]
Slopes = Callable[[Table], Array]


def sample_slopes(table: Table) -> Float[Array, "families"]:
    """How steeply each family's skill falls with log2 bits; families resemble each other."""
    # 5 per log2 bit: from 0.9 to 0.1 within a factor of 1.8 in bits. Real ones lie between 1 and 30.
    centre = draw("slope_centre", dist.Normal(1.6, 0.8))
    scale = draw("slope_scale", dist.LogNormal(math.log(0.5), 0.5))
    with numpyro.plate("families", len(table.active)):
        return jnp.exp(draw("log_slope", dist.Normal(*table.where_active(centre, scale))))


def shared_slope(table: Table) -> Float[Array, "families"]:
    """One slope for all families: a control that is meant to be wrong."""
    centre = draw("slope_centre", dist.Normal(1.6, 0.8))
    return jnp.exp(told("log_slope", centre * jnp.ones_like(table.active)))


def hierarchical(table: Table, scatter: Scatter, slopes: Slopes = sample_slopes) -> None:
    """log2 C = typical + growth · log2 budget + model + technique − difficulty + what is left."""
    families, models = len(table.active), len(table.log2_budget)
    # Levels are put where the boundary is expected: the typical one lies within 2^±6 of their middle.
    typical = draw("typical", dist.Normal(0.0, 3.0))
    # From "capacity ignores the budget" (0) to "in proportion" (1), each within one standard deviation.
    growth = draw("growth", dist.Normal(0.5, 0.5))
    # Models of one budget (one layer against two, say) differ by a quarter of a log2 bit, or by one.
    model_scale = draw("model_scale", dist.LogNormal(math.log(0.3), 0.6))
    with numpyro.plate("models", models):
        own = draw("model", dist.Normal(0.0, 1.0)) * model_scale * table.several
    # Factors of three between families are common and a hundred happens. Difficulties sum to zero: only
    # their differences can be told from what is typical.
    difficulty_scale = draw("difficulty_scale", dist.LogNormal(math.log(1.5), 0.7))
    used = table.where_active(0.0, difficulty_scale)[1]
    with numpyro.plate("families", families):
        free = draw("difficulty_free", dist.Normal(0.0, jnp.roll(used, -1).at[-1].set(1.0)))
    difficulty = told("difficulty", table.zero_sum @ free)
    common = typical + (growth * table.log2_budget + own)[:, None] - difficulty[None, :]
    middle = (common + sample_pairs(table, common))[table.model, table.family] + sample_techniques(table)
    slope = slopes(table)
    tally(table, scatter, slope[table.family] * (middle - centred(table)))


def sample_pairs(table: Table, common: Float[Array, "models families"]) -> Float[Array, "models families"]:
    """What is peculiar to one model on one family, which is smaller than what either of them does."""
    scale = draw("pair_scale", dist.LogNormal(math.log(0.2), 0.6))
    # Where runs tell a boundary, they tell the sum with what is common, so the sum is what is drawn;
    # elsewhere it is what strays. The scale is split half and half between the two ways: few runs would
    # make a funnel of the one, many runs a ridge of the other.
    bounded, half = table.bounded, jnp.sqrt(scale)
    with numpyro.plate("models", len(common), dim=-2), numpyro.plate("families", common.shape[1], dim=-1):
        cell = draw("cell", dist.Normal(common * bounded, half * bounded + (1 - bounded)))
    strayed = jnp.where(bounded > 0, (cell - common) * half, cell * scale)
    return told("pair", strayed * table.several)


def sample_techniques(table: Table) -> Float[Array, "conditions"]:
    """By how many log2 bits each condition's technique raises C: in general, and on its family."""
    slots = len(table.techniques) - 1
    if not slots:
        return jnp.zeros_like(table.log2_demand)
    # A technique that is worth a name may double C or halve it, and it seldom does the same for all families.
    family_scale = draw("technique_family_scale", dist.LogNormal(math.log(0.3), 0.6))
    with numpyro.plate("techniques", slots, dim=-2):
        general = draw("technique", dist.Normal(jnp.zeros((slots, 1)), 1.0))
        with numpyro.plate("families", len(table.active), dim=-1):
            special = draw("technique_family", dist.Normal(0.0, 1.0)) * family_scale
    gain = jnp.concatenate([jnp.zeros((1, special.shape[1])), general + special])
    return gain[table.technique, table.family]


def independent(table: Table, scatter: Scatter) -> None:
    """Each family for itself: its boundary anywhere near its levels, its slope anything that is met."""
    with numpyro.plate("families", len(table.active)):
        # The typical boundary and a family's own difficulty at once; slopes as if no other family were known.
        boundary = draw("boundary", dist.Normal(0.0, 4.0))
        slope = jnp.exp(draw("log_slope", dist.Normal(1.6, 1.0)))
    told("difficulty", -boundary)
    tally(table, scatter, slope[table.family] * (boundary[table.family] - centred(table)))


def pooled(table: Table, scatter: Scatter) -> None:
    """One boundary and one slope for all."""
    boundary = draw("typical", dist.Normal(0.0, 3.0))  # as in `hierarchical`
    log_slope = draw("pooled_slope", dist.Normal(0.7, 1.0))  # mixed families make a shallow curve
    told("log_slope", log_slope * jnp.ones_like(table.active))
    tally(table, scatter, jnp.exp(log_slope) * (boundary - centred(table)))


def response(table: Table, scatter: Scatter) -> None:
    """Ability less difficulty: what is asked in bits is not looked at."""
    # The scale of item response theory: models have a spread of one, and at slope one an item that is one
    # harder is learned e times more seldom. Items reach from what all learn to what none does.
    with numpyro.plate("models", len(table.log2_budget)):
        ability = draw("ability", dist.Normal(0.0, 1.0)) * table.several
    item_scale = draw("item_scale", dist.LogNormal(math.log(2.0), 0.5))
    with numpyro.plate("families", len(table.active)):
        easiness = draw("easiness", dist.Normal(0.0, 3.0))
        slope = jnp.exp(draw("log_slope", dist.Normal(0.0, 0.5)))
    with numpyro.plate("items", len(table.item_family)):
        item = draw("item", dist.Normal(0.0, 1.0)) * item_scale
    told("difficulty", -easiness)
    height = ability[table.model] + easiness[table.family] + item[table.item]
    tally(table, scatter, slope[table.family] * height)


def centred(table: Table) -> Float[Array, "conditions"]:
    """The log2 demands, less the middle of what was tried."""
    return table.log2_demand - table.centre


def tally(table: Table, scatter: Scatter, tilt: Float[Array, "conditions"]) -> None:
    """Add the log-probability of all runs, each read with the error that its number of questions leaves."""
    true = jnp.exp(scatter(table, tilt))
    read = (true[:, None, :] @ table.misread)[:, 0, :]
    numpyro.factor("runs", (table.counts * jnp.log(read + LEAST_CHANCE)).sum())


# Keeps the logarithm finite where a chance is too small to be a number; no run is ever that unlikely.
LEAST_CHANCE = 1e-300
# What is added up at once is correlated: the sampler learns these correlations, and takes half the steps.
ADDED = ("typical", "growth", "model", "difficulty_free")
TOGETHER: dict[str, tuple[str, ...]] = {"hierarchical": ADDED, "one_slope": ADDED}
RIVALS: dict[str, Rival] = {
    "hierarchical": hierarchical,
    "independent": independent,
    "pooled": pooled,
    "response": response,
    "one_slope": functools.partial(hierarchical, slopes=shared_slope),
}
