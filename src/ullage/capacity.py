"""The capacity of models: fit the meta-model to observations, and keep what was found.

    observations ──one effort, one notion──▶ conditions ──NUTS──▶ posterior ──▶ read-offs, predictions

>>> from ullage.observations import Model, Observation, Observations
>>> runs = [
...     Observation("parity", level, seed, "input", {"input": float(level)}, float(level < 9), Model("nano"))
...     for level in (4, 6, 8, 10, 12, 14) for seed in range(3)
... ]
>>> posterior = fit(Observations(tuple(runs), {}), settings=Settings(warmup=200, draws=200))
>>> half = posterior.curve(0, 0).half_skill()
>>> bool(8.0 < 2 ** np.median(half) < 10.0)
True
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ullage.conditions import Conditions, conditions_of
from ullage.errors import BadInput, listed
from ullage.observations import NOMINAL, Effort, Observations, at_one_effort, under
from ullage.posterior import Diagnostics, Posterior
from ullage.sampler import sample
from ullage.tabled import Table, tabled

# The last of each is a negative control, for `benchmarks/recovery.py`.
RIVAL_NAMES = ("hierarchical", "independent", "pooled", "response", "one_slope")
SCATTER_NAMES = ("own_floor", "beta_binomial", "mixture", "no_lapse")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which model is fitted, how runs scatter in it, and how long the sampler runs."""

    rival: str = "hierarchical"
    scatter: str = "own_floor"
    seed: int = 0
    warmup: int = 500
    draws: int = 1000  # of each chain; the slowest quantity keeps one effective draw in ten

    def __post_init__(self) -> None:
        if self.rival not in RIVAL_NAMES:
            raise BadInput(f"there is no model {self.rival!r} to fit; choose one of {listed(RIVAL_NAMES)}")
        if self.scatter not in SCATTER_NAMES:
            raise BadInput(f"runs cannot scatter as {self.scatter!r}; choose one of {listed(SCATTER_NAMES)}")

    def to_json(self) -> dict[str, Any]:
        """A document of plain values."""
        return dataclasses.asdict(self)


DEFAULT_SETTINGS = Settings()


def fit(
    observations: Observations,
    notion: str = NOMINAL,
    effort: Effort | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> Posterior:
    """Fit runs of one effort under one notion of demand; what is left out is counted in `excluded`."""
    conditions, chosen, excluded = prepared(observations, notion, effort)
    return fit_conditions(conditions, chosen, settings, excluded)


def prepared(
    observations: Observations, notion: str, effort: Effort | None = None
) -> tuple[Conditions, Effort, Mapping[str, int]]:
    """The table of one effort under one notion, the effort, and what was left out for which reason."""
    kept, chosen = at_one_effort(under(observations, notion), effort)
    if not kept.runs:
        reasons = (
            "; ".join(f"{count} {reason}" for reason, count in kept.excluded.items()) or "there are none"
        )
        raise BadInput(f"no run is left to fit ({reasons}); `ullage measure` makes runs")
    return conditions_of(kept.runs, notion), chosen, kept.excluded


def fit_conditions(
    conditions: Conditions,
    effort: Effort | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    excluded: Mapping[str, int] | None = None,
) -> Posterior:
    """Fit a table; conditions without runs are predicted and not fitted."""
    table = tabled(conditions)
    request = {
        "model": settings.rival,
        "scatter": settings.scatter,
        "seed": settings.seed,
        "warmup": settings.warmup,
        "draws": settings.draws,
    }
    return posterior_of(sample(table, request), table, conditions, settings, effort, excluded)


def posterior_of(
    sampled: Mapping[str, np.ndarray],
    table: Table,
    conditions: Conditions,
    settings: Settings,
    effort: Effort | None = None,
    excluded: Mapping[str, int] | None = None,
) -> Posterior:
    """What was sampled from a table, (chains, draws, …) by name, as a posterior of its conditions."""
    chains = {name: values for name, values in sampled.items() if name not in ("diverging", "num_steps")}
    diagnostics = diagnose(chains, int(sampled["diverging"].sum()))
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in chains.items()}
    draws = readable(flat, table, conditions)
    return Posterior(
        conditions,
        effort or Effort(),
        settings.rival,
        settings.scatter,
        draws,
        diagnostics,
        dict(excluded or {}),
    )


def diagnose(chains: Mapping[str, np.ndarray], diverging: int) -> Diagnostics:
    """The worst split R-hat and effective sample size over all that was sampled and moves."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    worst, least, draws = 1.0, np.inf, 0
    for values in chains.values():
        flat = values.reshape(*values.shape[:2], -1)
        moving = flat[:, :, flat.std(axis=(0, 1)) > 0]
        draws = flat.shape[0] * flat.shape[1]
        if moving.size:
            worst = max(worst, float(np.max(split_gelman_rubin(moving))))
            least = min(least, float(np.min(effective_sample_size(moving))))
    return Diagnostics(worst, least, diverging, draws)


def readable(flat: Mapping[str, np.ndarray], table: Table, conditions: Conditions) -> dict[str, np.ndarray]:
    """Draws as quantities with a meaning, without what only filled up the table."""
    families, models = len(conditions.families), len(conditions.models)
    draws = {name: values for name, values in flat.items() if values.ndim == 1}
    draws["slope"] = np.exp(flat["log_slope"][:, :families])
    for name in ("low", "high", "top", "concentration", "concentration_learned", "difficulty"):
        if name in flat:
            draws[name] = flat[name][:, :families]
    draws.setdefault("difficulty", np.zeros_like(draws["slope"]))
    if "ability" in flat:
        draws["model"] = flat["ability"][:, :models] * table.several
    if "model" in flat:
        draws["model"] = flat["model"][:, :models] * flat["model_scale"][:, None] * table.several
        draws["pair"] = flat["pair"][:, :models, :families]
    if "technique" in flat:
        used = len(conditions.techniques) - 1
        special = flat["technique_family"] * flat["technique_family_scale"][:, None, None]
        nothing = np.zeros((len(special), 1))
        draws["technique"] = np.concatenate([nothing, flat["technique"][:, :used, 0]], axis=1)
        draws["technique_family"] = np.concatenate(
            [np.zeros((len(special), 1, families)), special[:, :used, :families]], axis=1
        )
    return draws
