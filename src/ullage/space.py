"""The search space: which knobs of a recipe are searched, and Optuna's proposals as points of it.

The k-th proposal is a function of what was told before it and of a seed of its own, derived from the
study's name and k: there is no state beside the trials, so a search that is read back from a store
proposes what it would have proposed. (A sampler that is seeded once and told again starts its own
sequence anew, and offers its first points a second time.)

>>> space = Space.of(4000, embedding=False)
>>> sorted(space.dimensions)[:3]
['batch_size', 'dropout', 'initial_scale']
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ullage import keys
from ullage.recipe import Recipe
from ullage.search import Point, Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

RANDOM_TRIALS = 8  # before a model of the trials is made; fewer tell it nothing
WARMUP_SHARES = (0.01, 0.03, 0.1, 0.25)  # of the step limit
EMBEDDINGS = ("none", "sinusoidal", "learned")


@dataclasses.dataclass(frozen=True)
class Range:
    """The values that one knob may take: between two ends, or one of some."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Any, ...] = ()

    def distribution(self) -> "BaseDistribution":
        """The same for Optuna."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        if self.choices:
            return CategoricalDistribution(self.choices)
        return FloatDistribution(self.low, self.high, log=self.log)


@dataclasses.dataclass(frozen=True)
class Space:
    """What is searched, by the name of the knob."""

    dimensions: Mapping[str, Range]

    @classmethod
    def of(cls, step_limit: int, *, embedding: bool) -> "Space":
        """The space for runs of so many steps; `embedding` adds the way positions are told."""
        dimensions = {
            # Around the best of thirty recipes (0.0034): three times up, ten times down.
            "learning_rate": Range(3e-4, 1e-2, log=True),
            "weight_decay": Range(1e-3, 1.0, log=True),
            "dropout": Range(choices=(0.0, 0.05, 0.1)),
            "batch_size": Range(choices=(64, 128, 256)),
            "warmup_steps": Range(choices=tuple(round(share * step_limit) for share in WARMUP_SHARES)),
            "initial_scale": Range(0.25, 1.5, log=True),
        }
        return cls(dimensions | ({"positional": Range(choices=EMBEDDINGS)} if embedding else {}))

    def point_of(self, recipe: Recipe) -> Point:
        """Where a recipe stands in this space; a value outside of it stays what it is."""
        values = {**recipe.architecture.knobs(), **recipe.to_json()}
        return tuple((name, values[name]) for name in sorted(self.dimensions))

    def propose(self, study: str, level: int, trials: Sequence[Trial], number: int) -> Point:
        """The point of trial `number` of a study at a level."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        seed = keys.stable_hash(f"{study}/level {level}/trial {number}")
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS, multivariate=True)
        told = optuna.create_study(direction="maximize", sampler=sampler)
        distributions = {name: one.distribution() for name, one in self.dimensions.items()}
        told.add_trials([_told(trial, distributions) for trial in trials if trial.result.counts])
        asked = told.ask(distributions).params
        return tuple((name, asked[name]) for name in sorted(asked))


def _told(trial: Trial, distributions: Mapping[str, "BaseDistribution"]) -> Any:
    """A trial as Optuna keeps it; a given point outside the space counts as its nearest inside."""
    from optuna.trial import create_trial

    inside = {name: _nearest(value, distributions[name]) for name, value in trial.point}
    return create_trial(params=inside, distributions=dict(distributions), value=trial.result.objective)


def _nearest(value: Any, distribution: Any) -> Any:
    if hasattr(distribution, "choices"):
        choices = distribution.choices
        return value if value in choices else min(choices, key=lambda choice: abs(choice - value))
    return min(max(value, distribution.low), distribution.high)


def with_point(recipe: Recipe, point: Point) -> Recipe:
    """A recipe with its knobs at a point; knobs of the model go to the model."""
    values = dict(point)
    model = {name: values.pop(name) for name in list(values) if name in recipe.architecture.knobs()}
    architecture = dataclasses.replace(recipe.architecture, **model)  # type: ignore[type-var]
    return dataclasses.replace(recipe, architecture=architecture, **values)
