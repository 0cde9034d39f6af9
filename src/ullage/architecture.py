"""The contract of an architecture: a forward pass, its size, and what can be observed inside.

An architecture is a frozen dataclass of knobs; parameters live outside it, in a pytree. It works on a
batch at once, because every product of a batch can then be one large matrix product.

>>> model = find("nano", {})
>>> model.bandwidth_bits
1024.0
"""

import abc
import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
from jaxtyping import Array, PRNGKeyArray

from ullage import keys, knobs, registry
from ullage.errors import BadInput, listed
from ullage.task import Interface

Parameters = Any


class Architecture(abc.ABC):
    """A model's shape; a member is a frozen dataclass whose fields are knobs."""

    # Named sets of knobs that users can ask for: {"nano": {"d_model": 32}}.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __post_init__(self) -> None:
        knobs.check(self, self.name)
        self.validate()

    def validate(self) -> None:  # noqa: B027 - a hook, not a gap
        """Raise `BadInput` for knobs that are each allowed but not together."""

    @property
    def name(self) -> str:
        """The name of the file that defines the architecture."""
        return registry.name_of(type(self))

    @property
    def model_id(self) -> str:
        """The preset's name, or the architecture's with the knobs that differ from its defaults."""
        values = self.knobs()
        for preset, chosen in self.presets.items():
            if type(self)(**chosen) == self:
                return preset
        declared = knobs.knobs_of(type(self))
        texts = [f"{key}={value}" for key, value in values.items() if value != declared[key].default]
        return self.name + (":" + ",".join(texts) if texts else "")

    def knobs(self) -> dict[str, Any]:
        """All knobs by name."""
        return knobs.values_of(self)

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, interface: Interface, scale: Array | float = 1.0) -> Parameters:
        """Fresh parameters, in the precision in which they are stored; `scale` may be traced."""

    @abc.abstractmethod
    def apply(
        self,
        parameters: Parameters,
        inputs: Array,
        interface: Interface,
        dropout: Array | float = 0.0,
        key: PRNGKeyArray | None = None,
    ) -> Array:
        """The numbers read at each read position: (batch, reads, width). Without a key nothing drops."""

    @abc.abstractmethod
    def observe(self, parameters: Parameters, inputs: Array, interface: Interface) -> dict[str, Array]:
        """What goes on inside, by name, each with the batch as its first axis."""

    @property
    @abc.abstractmethod
    def bandwidth_bits(self) -> float:
        """The communication width of one position and layer (see `ullage.budget`)."""

    @property
    @abc.abstractmethod
    def precision_bits(self) -> int:
        """How many bits one number of the model has."""

    @property
    @abc.abstractmethod
    def uses_x64(self) -> bool:
        """Whether the process that trains this model must allow 64-bit numbers."""

    @abc.abstractmethod
    def columns(self) -> dict[str, Any]:
        """The columns `layers heads d_head d_model d_ff precision_bits` of the table of runs."""

    @abc.abstractmethod
    def forward_flops(self, interface: Interface) -> float:
        """Additions and multiplications of the matrix products of one example's forward pass."""

    def parameters(self, interface: Interface) -> int:
        """How many numbers are trained."""
        with warnings.catch_warnings():
            # A process of 32-bit numbers may count the parameters of a 64-bit model.
            warnings.simplefilter("ignore", UserWarning)
            shapes = jax.eval_shape(lambda: self.init(keys.root(0), interface))
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def find(preset: str, chosen: Mapping[str, Any]) -> Architecture:
    """The architecture of a preset, with some knobs chosen otherwise."""
    members = [registry.member("architecture", name) for name in registry.names("architecture")]
    by_preset = {known: member for member in members for known in member.presets}  # type: ignore[attr-defined]
    if preset not in by_preset:
        raise BadInput(f"there is no model {preset!r}; choose one of {listed(by_preset)}")
    member = by_preset[preset]
    unknown = sorted(chosen.keys() - knobs.knobs_of(member).keys())
    if unknown:
        raise BadInput(f"{preset} has no knob {unknown[0]!r}; its knobs are {listed(knobs.knobs_of(member))}")
    return member(**{**member.presets[preset], **chosen})  # type: ignore[attr-defined]
