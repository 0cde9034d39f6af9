"""The contract of a technique: a change of task encoding or recipe that may raise capacity.

A technique turns a (task, recipe) into another. It may change encoding, targets, read-out, loss or
sampling; never the test questions or their graded answers.
"""

import abc
from typing import ClassVar

from ullage import registry
from ullage.recipe import Recipe
from ullage.task import Task


class Technique(abc.ABC):
    """One change; a member is a class that can be made without arguments."""

    # Recipe knobs that are this technique's own; the baseline's search leaves them at their default.
    owns: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def apply(self, task: Task, recipe: Recipe) -> tuple[Task, Recipe]:
        """The changed task and recipe."""


def apply_all(task: Task, recipe: Recipe) -> tuple[Task, Recipe]:
    """Apply the techniques that a recipe names, in order."""
    for name in recipe.techniques:
        task, recipe = registry.member("technique", name)().apply(task, recipe)
    return task, recipe
