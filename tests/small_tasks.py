"""Tasks for the tests of training: those of toy_tasks as users' files, and some that go wrong."""

import inspect

import toy_tasks

from ullage import registry
from ullage.architectures.transformer import Transformer
from ullage.recipe import Recipe
from ullage.task import Task

TINY = Transformer(d_model=8, heads=2, d_ff=16)


def toy_classes():
    """All tasks of toy_tasks."""
    found = vars(toy_tasks).values()
    return [one for one in found if isinstance(one, type) and issubclass(one, Task) and one is not Task]


def as_user_file(owner):
    """The class again, as if its text stood in a file of a user's."""
    module = inspect.getsource(toy_tasks)
    head = module[: module.index("@dataclasses.dataclass")]
    return registry.load_source(owner.__name__.lower() + "_file", head + inspect.getsource(owner), "task")


def broken(fault):
    """`First`, whose table raises what the text `fault` says."""
    source = inspect.getsource(toy_tasks)
    source = source[: source.index("@dataclasses.dataclass")] + inspect.getsource(toy_tasks.First)
    wrong = source.replace("return np.arange(self.level**4, dtype=np.int32)", f"raise {fault}")
    return registry.load_source("broken_file", wrong, "task")


def recipe(**knobs):
    """A recipe for a few steps of a tiny model."""
    few = {"batch_size": 16, "step_limit": 4, "evaluate_every": 2, "warmup_steps": 0}
    return Recipe(**{"architecture": TINY, **few, **knobs})
