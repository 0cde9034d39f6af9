"""All randomness: one root key a run, and named keys derived from it.

Never `seed + i`: neighbouring seeds would share their streams. A key is derived by folding in a
stable hash of what it is for, so that adding a purpose moves no other stream.

>>> key = root(0)
>>> bool((derive(key, "batch", 3) == derive(key, "batch", 3)).all())
True
>>> bool((derive(key, "batch", 3) == derive(key, "weights", 3)).all())
False
"""

import hashlib

import jax
from jaxtyping import Array, Int, PRNGKeyArray

SEED_LIMIT = 2**32


def root(seed: int) -> PRNGKeyArray:
    """The key from which everything random of one run is derived."""
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"seed {seed} is out of range; choose 0 to {SEED_LIMIT - 1}")
    return jax.random.key(seed)


def derive(key: PRNGKeyArray, purpose: str, index: int | Int[Array, ""] = 0) -> PRNGKeyArray:
    """The key for the `index`-th use of a named purpose."""
    return jax.random.fold_in(jax.random.fold_in(key, stable_hash(purpose)), index)


def stable_hash(text: str) -> int:
    """A 32-bit hash of a text that is the same in every process and on every machine.

    >>> stable_hash("train")
    1132630207
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
