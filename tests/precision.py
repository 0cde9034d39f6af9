"""Which kinds of numbers a training step computes with; run as a program, it tells of 64 bits.

    JAX_ENABLE_X64=1 python tests/precision.py

JAX decides once a process whether there are 64-bit numbers, so their test starts this in its own.
"""

import json
from collections import defaultdict
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from toy_tasks import Sums

from ullage import keys
from ullage.architectures.transformer import Transformer
from ullage.evaluate import answers
from ullage.recipe import Recipe
from ullage.split import training_data
from ullage.task import Example, find
from ullage.train import Program, _loss, advance

# One more than the last of 32-bit numbers can tell from one, and well within 64 bits.
BARELY_MORE_THAN_ONE = 1 + 2**-40
OPTIONS = {"final_norm": True, "d_model": 8, "heads": 2, "d_ff": 16}


def equations(jaxpr):
    """All equations of a program, those of the programs within it included."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=is_program):
            if is_program(inner):
                yield from equations(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def is_program(value):
    return isinstance(value, ClosedJaxpr | Jaxpr)


def kinds(jaxpr):
    """For each operation the kinds of real numbers that it gives."""
    found = defaultdict(set)
    for equation in equations(jaxpr):
        # A program within is told by its own equations; its results are not computed again.
        if any(map(is_program, jax.tree.leaves(list(equation.params.values()), is_leaf=is_program))):
            continue
        for result in equation.outvars:
            if jnp.issubdtype(result.aval.dtype, jnp.floating):
                found[equation.primitive.name].add(str(result.aval.dtype))
    return {name: sorted(types) for name, types in sorted(found.items())}


def prepared(precision, dropout=0.0):
    """A program of a small model on a real task, and what a step takes."""
    task = find("copy").at(2)
    recipe = Recipe(Transformer(precision=precision, **OPTIONS), batch_size=4, step_limit=2, evaluate_every=1)
    data = training_data(task)
    program = Program(recipe.architecture, task.interface, data.source, recipe.batch_size, dropout > 0)
    state = program.init(keys.root(0), 1.0, recipe.traced)
    return program, recipe.traced._replace(dropout=dropout), state, data


def kinds_of_model(precision):
    """Of the forward pass alone."""
    program, _, state, data = prepared(precision)
    forward = partial(program.architecture.apply, interface=program.interface)
    return kinds(jax.make_jaxpr(forward)(state.parameters, data.rows.inputs[:4]).jaxpr)


def kinds_of_gradient(precision, dropout=0.0):
    """Of the loss and its gradient: forward, read-out and backward, without the optimiser and the data."""
    program, traced, state, data = prepared(precision, dropout)
    batch = Example(*(leaf[:4] for leaf in data.rows))
    key = keys.root(1) if program.drops else None
    step = jax.value_and_grad(partial(_loss, program, batch=batch, dropout=traced.dropout, key=key))
    return kinds(jax.make_jaxpr(step)(state.parameters).jaxpr)


def kinds_of_step(precision):
    """Of all that `advance` runs: data, loss, gradient, schedule and optimiser."""
    program, traced, state, data = prepared(precision)
    step = partial(advance.__wrapped__, program)
    return kinds(jax.make_jaxpr(step)(traced, state, data.rows, data.count, keys.root(0), 0, 2).jaxpr)


def difference(precision):
    """How far apart a model sees 1 and 1 + 2**-40, from its input to its answer."""
    task = Sums(level=2)
    model = Transformer(precision=precision, **OPTIONS)
    inputs = np.ones((2, 2, 2))
    inputs[1] = BARELY_MORE_THAN_ONE
    blank = np.ones((2, 1), bool)
    asked = Example(inputs, np.zeros((2, 1, 2)), blank, blank)
    said = answers(task, model, model.init(keys.root(0), task.interface), asked).predictions
    return float(np.abs(said[1] - said[0]).max())


def told():
    """All of the above in 64 bits, and the difference in 32 bits in the same process."""
    program, traced, state, data = prepared("f64")
    state = advance(program, traced, state, data.rows, data.count, keys.root(0), 0, 2)
    return {
        "model": kinds_of_model("f64"),
        "gradient": kinds_of_gradient("f64", dropout=0.1),
        "step": kinds_of_step("f64"),
        "difference": {precision: difference(precision) for precision in ("f32", "f64")},
        "stored": sorted({str(leaf.dtype) for leaf in jax.tree.leaves(state.parameters)}),
        "finite": bool(state.finite),
    }


if __name__ == "__main__":
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    print(json.dumps(told()))
