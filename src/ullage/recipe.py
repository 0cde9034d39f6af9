"""A recipe: everything that fixes one training but the task and the seed.

It has two halves. What decides shapes (architecture, batch size, precision) is static: a change
compiles a new program. What is only a number in the step (learning rate, decay, dropout, warm-up,
scale) is traced: a change reuses the program.

>>> recipe = Recipe(find("nano", {}))
>>> from_json(recipe.to_json()) == recipe
True
"""

import dataclasses
from typing import Any, NamedTuple

from ullage import knobs, registry
from ullage.architecture import Architecture, find
from ullage.errors import BadInput
from ullage.knobs import knob

__all__ = ["Recipe", "Traced", "find", "from_json"]


class Traced(NamedTuple):
    """The numbers that a compiled step takes as arguments."""

    learning_rate: Any
    weight_decay: Any
    dropout: Any
    warmup_steps: Any
    final_rate: Any
    step_limit: Any


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One way to train."""

    architecture: Architecture
    batch_size: int = knob(256, "examples in one step", low=1, high=65536)
    step_limit: int = knob(4000, "steps after which a run ends, solved or not", low=1, high=10**9)
    evaluate_every: int = knob(100, "steps between two evaluations", low=1, high=10**9)
    train_examples: int = knob(0, "training examples, 0 for all there are", low=0, high=2**24)
    learning_rate: float = knob(3.4e-3, "step size of AdamW after warm-up", low=0.0, high=10.0)
    weight_decay: float = knob(
        0.03, "decoupled decay of AdamW, per unit of learning rate", low=0.0, high=100.0
    )
    dropout: float = knob(0.0, "share of activations dropped", low=0.0, high=0.9)
    warmup_steps: int = knob(400, "steps of linear warm-up", low=0, high=10**9)
    final_rate: float = knob(
        0.0, "share of the learning rate left at the step limit, 1 for a constant one", low=0.0, high=1.0
    )
    initial_scale: float = knob(0.5, "factor on all initial weights", low=0.0, high=100.0)
    techniques: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        knobs.check(self, "recipe")
        if self.evaluate_every > self.step_limit:
            raise BadInput(
                f"recipe: evaluate_every={self.evaluate_every} is above step_limit={self.step_limit}; "
                "choose at most the step limit"
            )

    @property
    def traced(self) -> Traced:
        """The half that a compiled step takes as arguments."""
        return Traced(*(getattr(self, name) for name in Traced._fields))

    @property
    def technique(self) -> str:
        """The techniques in one word: `none`, or their names joined by `+`."""
        return "+".join(self.techniques) or "none"

    def to_json(self) -> dict[str, Any]:
        """A document that `from_json` reads back."""
        model = {"name": self.architecture.name, "knobs": self.architecture.knobs()}
        return {"architecture": model, **knobs.values_of(self), "techniques": list(self.techniques)}


def from_json(document: dict[str, Any]) -> Recipe:
    """The recipe of a document made by `to_json`."""
    values = dict(document)
    model = values.pop("architecture")
    architecture = registry.member("architecture", model["name"])(**model["knobs"])
    return Recipe(architecture, **{**values, "techniques": tuple(values["techniques"])})
