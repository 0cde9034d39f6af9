"""Read-outs: how the last layer's numbers become an answer, a loss and a certainty.

A read-out is chosen by the kind of target and owns the loss:

    target of one position      read-out                 numbers read
    a class                     Softmax(classes)         one logit a class
    a distribution              SoftTargets(classes)     one logit a class
    a residue modulo q          Circle(q)                a point of the plane, read by its angle
    real numbers                Linear(width)            the numbers themselves

All functions take any leading axes; the last axis of `outputs` is the read-out's `width`.

>>> readout = Circle(4)
>>> readout.decode(jnp.array([0.1, 2.0])).item()
1
"""

import abc
import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Readout(abc.ABC):
    """What a task expects to read, and how wrong an answer is."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """How many numbers the model must give for one position."""

    @property
    @abc.abstractmethod
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one position's target: () for a class."""

    @abc.abstractmethod
    def loss(self, outputs: Array, targets: Array) -> Array:
        """The training loss of each position; nats where the read-out is a distribution."""

    @abc.abstractmethod
    def decode(self, outputs: Array) -> Array:
        """The answer of each position, of the targets' kind."""

    def log_probabilities(self, outputs: Array) -> Array | None:
        """The log-probability of every class, or None where the read-out is no distribution."""
        del outputs
        return None

    @property
    def classes(self) -> int | None:
        """How many different answers there are, or None for real numbers."""
        return None


@dataclasses.dataclass(frozen=True)
class Softmax(Readout):
    """One of `count` classes."""

    count: int

    @property
    def width(self) -> int:
        return self.count

    @property
    def target_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def classes(self) -> int:
        return self.count

    def loss(self, outputs: Float[Array, "*axes width"], targets: Int[Array, "*axes"]) -> Array:
        # A masked sum, not a gather: the gradient of a gather is a scatter, which XLA's CPU backend
        # runs one element at a time.
        chosen = jax.nn.one_hot(targets, self.count, dtype=bool)
        logits = jnp.where(chosen, outputs, jnp.zeros((), outputs.dtype)).sum(-1)
        return jax.nn.logsumexp(outputs, axis=-1) - logits

    def decode(self, outputs: Array) -> Array:
        return jnp.argmax(outputs, axis=-1).astype(jnp.int32)

    def log_probabilities(self, outputs: Array) -> Array:
        return jax.nn.log_softmax(outputs, axis=-1)


@dataclasses.dataclass(frozen=True)
class SoftTargets(Readout):
    """A distribution over `count` classes; the loss is the cross-entropy."""

    count: int

    @property
    def width(self) -> int:
        return self.count

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.count,)

    @property
    def classes(self) -> int:
        return self.count

    def loss(self, outputs: Array, targets: Float[Array, "*axes width"]) -> Array:
        return -(targets.astype(outputs.dtype) * jax.nn.log_softmax(outputs, axis=-1)).sum(-1)

    def decode(self, outputs: Array) -> Array:
        return jax.nn.softmax(outputs, axis=-1)

    def log_probabilities(self, outputs: Array) -> Array:
        return jax.nn.log_softmax(outputs, axis=-1)


@dataclasses.dataclass(frozen=True)
class Circle(Readout):
    """A residue modulo `modulus`, read as the angle of a point of the plane.

    The loss pulls the point to the unit circle and to the target's angle, after Saxena et al. 2024
    (arXiv 2410.03569): α(r² + 1/r²) + (1 − α)·distance², less its least value 2α.
    """

    modulus: int
    ring_weight: float = 0.01

    @property
    def width(self) -> int:
        return 2

    @property
    def target_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def classes(self) -> int:
        return self.modulus

    def loss(self, outputs: Float[Array, "*axes 2"], targets: Int[Array, "*axes"]) -> Array:
        angle = targets.astype(outputs.dtype) * (2 * math.pi / self.modulus)
        point = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
        # The floor keeps 1/r² finite for a point at the origin; it is far below the unit circle.
        square = jnp.maximum((outputs**2).sum(-1), 1e-4)
        ring = square + 1 / square - 2
        return self.ring_weight * ring + (1 - self.ring_weight) * ((outputs - point) ** 2).sum(-1)

    def decode(self, outputs: Array) -> Array:
        turns = jnp.arctan2(outputs[..., 1], outputs[..., 0]) / (2 * math.pi)
        return jnp.mod(jnp.round(turns * self.modulus), self.modulus).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Linear(Readout):
    """`count` real numbers; the loss is half the squared distance."""

    count: int

    @property
    def width(self) -> int:
        return self.count

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.count,)

    def loss(self, outputs: Array, targets: Float[Array, "*axes width"]) -> Array:
        return 0.5 * ((outputs - targets.astype(outputs.dtype)) ** 2).sum(-1)

    def decode(self, outputs: Array) -> Array:
        return outputs
