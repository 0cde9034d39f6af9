"""Kernels: what a model computes most, written so that XLA's CPU backend runs it at full speed.

Each computes what its plain form computes, to rounding. A stream is (width, batch, length); its columns
are what stands along the width.

>>> column = jnp.array([1.0, 3.0]).reshape(2, 1, 1)
>>> standardised(column).ravel().round(2).tolist()
[-1.0, 1.0]
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

NORM_EPSILON = 1e-5  # that of the usual libraries, so that weights can be compared
SMALL_VOCABULARY = 64  # up to which an embedding is faster as a product than as a look-up


def width_first(x: Float[Array, "batch length width"]) -> Float[Array, "width batch length"]:
    """A stream from vectors as they are usually kept."""
    return jnp.moveaxis(x, -1, 0)


def width_last(x: Float[Array, "width batch length"]) -> Float[Array, "batch length width"]:
    """Vectors as they are usually kept, from a stream."""
    return jnp.moveaxis(x, 0, -1)


def product(x: Array, matrix: Array, bias: Array | None = None) -> Array:
    """What a matrix of weights makes of every column, in one two-dimensional product."""
    flat = _weigh(x.reshape(x.shape[0], -1), matrix)
    flat = flat if bias is None else flat + bias[:, None]
    return flat.reshape(-1, *x.shape[1:])


@jax.custom_vjp
def _weigh(x: Float[Array, "width places"], matrix: Float[Array, "width out"]) -> Float[Array, "out places"]:
    """What the matrix makes of every column; turned beforehand, because XLA turns it piece by piece."""
    return turned(matrix) @ x


def _weigh_forward(x: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return turned(matrix) @ x, (x, matrix)


def _weigh_backward(kept: tuple[Array, Array], change: Array) -> tuple[Array, Array]:
    x, matrix = kept
    return matrix @ change, x @ change.T


_weigh.defvjp(_weigh_forward, _weigh_backward)


def turned(matrices: Array) -> Array:
    """The last two axes swapped, in a step of its own.

    XLA's CPU backend is up to three times slower at a product that turns its left side as it goes.
    """
    return jax.lax.optimization_barrier(matrices.swapaxes(-1, -2))


@jax.custom_vjp
def times(left: Array, right: Array) -> Array:
    """The matrix products of two stacks of matrices, the left ones the smaller."""
    return left @ right


def _times_forward(left: Array, right: Array) -> tuple[Array, tuple[Array, Array]]:
    return left @ right, (left, right)


def _times_backward(kept: tuple[Array, Array], change: Array) -> tuple[Array, Array]:
    left, right = kept
    # The small matrix is turned, not the large one.
    return jnp.einsum("...mn,...cn->...mc", change, right), turned(left) @ change


times.defvjp(_times_forward, _times_backward)


def absorbed(weights: dict[str, Any], norm: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Weights whose matrices have the gain and the shift of the norm before them multiplied in."""
    if f"{norm}_gain" not in weights:
        return weights
    gain, shift = weights[f"{norm}_gain"], weights[f"{norm}_shift"]
    scaled = {name: gain[:, None] * weights[name] for name in names}
    shifted = {f"{name}_bias": weights[f"{name}_bias"] + shift @ weights[name] for name in names}
    return weights | scaled | shifted


@jax.custom_vjp
def standardised(x: Array) -> Array:
    """Each column less its mean, over its standard deviation."""
    return _standardised_forward(x)[0]


def _standardised_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    # The barriers keep XLA from finding means anew in every loop that makes use of them.
    x = jax.lax.optimization_barrier(x)
    mean = x.mean(0, keepdims=True)
    # One pass over x: the mean of squares less the squared mean, which cannot be below zero but for rounding.
    variance = jnp.maximum((x * x).mean(0, keepdims=True) - mean * mean, jnp.zeros((), x.dtype))
    rate = jax.lax.rsqrt(variance + jnp.asarray(NORM_EPSILON, x.dtype))
    mean, rate = jax.lax.optimization_barrier((mean, rate))
    found = (x - mean) * rate
    return found, (found, rate)


def _standardised_backward(kept: tuple[Array, Array], change: Array) -> tuple[Array]:
    found, rate = kept
    change = jax.lax.optimization_barrier(change)
    means = change.mean(0, keepdims=True), (change * found).mean(0, keepdims=True)
    level, along = jax.lax.optimization_barrier(means)
    return (rate * (change - level - found * along),)


standardised.defvjp(_standardised_forward, _standardised_backward)


def take(x: Array, positions: tuple[int, ...]) -> Array:
    """A stream at some positions."""
    first, last = positions[0], positions[-1]
    if positions == tuple(range(first, last + 1)):
        return x[:, :, first : last + 1]  # a slice: its gradient is a pad, not a scatter
    return x[:, :, np.array(positions)]


def look_up(table: Array, tokens: Array) -> Array:
    """The rows of a table that tokens name, as columns."""
    if table.shape[0] > SMALL_VOCABULARY:
        return width_first(table[tokens])
    # The gradient of a gather is a scatter, which XLA's CPU backend runs one element at a time.
    chosen = jnp.arange(table.shape[0], dtype=tokens.dtype)[:, None, None] == tokens[None]
    return product(chosen.astype(table.dtype), table)
