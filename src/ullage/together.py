"""Together: computations that an executor may bring together with the same ones of other runs.

A run asks for the few computations that take its time by `call`. Alone, that is calling the function.
An executor that runs several jobs in threads of one process gives each thread a caller of its own
(`calling`), which waits for the others and makes all of them in one `vmap` (see `executors/`).

>>> double = jax.jit(lambda factor, x: factor * x, static_argnums=0)
>>> float(call(double, (2,), (jnp.ones(()),)))
2.0
>>> [float(found) for found in call_many(double, (2,), [(jnp.ones(()),), (jnp.zeros(()),)])]
[2.0, 0.0]
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp

Function = Callable[..., Any]
Caller = Callable[[Function, tuple[Any, ...], tuple[Any, ...]], Any]


def alone(function: Function, fixed: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
    """Call the function: what it is compiled for stands first, then the arrays."""
    return function(*fixed, *arrays)


_caller: ContextVar[Caller] = ContextVar("caller", default=alone)


def call(function: Function, fixed: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
    """The function of `fixed`, which is hashable, and of trees of arrays; the executor says who makes it."""
    return _caller.get()(function, fixed, arrays)


@contextlib.contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """In this thread, `call` goes to the caller."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def shape_of(function: Function, fixed: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
    """What two calls must have in common so that one `vmap` makes both."""
    leaves, tree = jax.tree.flatten(arrays)
    return function, fixed, tree, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)


def call_many(function: Function, fixed: tuple[Any, ...], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results of several calls of one shape, made at once.

    Their number is filled up to a power of two by repeating the first, so that a few programs serve all
    numbers of lanes.
    """
    if len(calls) == 1:
        return [alone(function, fixed, calls[0])]
    size = 1 << (len(calls) - 1).bit_length()
    filled = [*calls, *[calls[0]] * (size - len(calls))]
    return _many(function, fixed)(filled)[: len(calls)]


@functools.lru_cache(64)
def _many(function: Function, fixed: tuple[Any, ...]) -> Callable[[list[Any]], list[Any]]:
    """One program that takes the lanes in, works on all of them and gives them out again."""
    mapped = jax.vmap(functools.partial(function, *fixed))

    @jax.jit
    def many(calls: list[Any]) -> list[Any]:
        stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *calls)
        found = mapped(*stacked)
        return [jax.tree.map(lambda leaf, lane=lane: leaf[lane], found) for lane in range(len(calls))]

    return many
