"""The contract suite of architectures: what every model promises, on every interface it is given.

Each promise is a function that gives the reason why it is broken, or nothing. Inputs are drawn from
fixed keys, so that a verdict is always the same.

>>> from ullage.architecture import find
>>> from ullage.task import find as find_task
>>> model = find("nano", {"layers": 1})
>>> clauses = check_architecture(model, [find_task("parity").at(5).interface])
>>> [clause.why for clause in clauses if not clause.passed]
[]
"""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ullage import keys
from ullage.architecture import Architecture, Parameters
from ullage.task import Interface, Tokens
from ullage.testing import Clause

BATCH = 3
COLUMNS = {"layers", "heads", "d_head", "d_model", "d_ff", "precision_bits"}
STORED_BITS = 32  # the least with which an optimiser's small steps are not lost

# How far two ways to the same numbers may differ, as a share of their size: some roundings.
TOLERANCES = {16: 0.05, 32: 1e-4, 64: 1e-10}

Promise = Callable[[Architecture, Interface], str]


def check_architecture(architecture: Architecture, interfaces: Sequence[Interface]) -> list[Clause]:
    """Check all promises on all interfaces; the reason names the first interface that breaks one."""
    return [_judged(clause, promise, architecture, interfaces) for clause, promise in _PROMISES.items()]


def _judged(
    clause: str, promise: Promise, architecture: Architecture, interfaces: Sequence[Interface]
) -> Clause:
    for interface in interfaces:
        try:
            why = promise(architecture, interface)
        except Exception as error:  # noqa: BLE001 - an architecture may be anyone's, and fail in any way
            why = f"raised {type(error).__name__}: {error}".partition("\n")[0]
        if why:
            return Clause(clause, passed=False, why=f"{why} ({_told(interface)})")
    return Clause(clause, passed=True)


def _told(interface: Interface) -> str:
    kind = "tokens" if isinstance(interface.inputs, Tokens) else "vectors"
    return f"{interface.length} {kind}, {len(interface.reads)} reads{', causal' * interface.causal}"


def example_inputs(interface: Interface, batch: int = BATCH) -> Array:
    """Inputs of the declared kind, uniform tokens or normal vectors."""
    key, shape = keys.derive(keys.root(0), "testing/inputs"), (batch, interface.length)
    if isinstance(interface.inputs, Tokens):
        return jax.random.randint(key, shape, 0, interface.inputs.vocabulary, dtype=jnp.int32)
    return jax.random.normal(key, (*shape, interface.inputs.width), jnp.float32)


@functools.lru_cache(maxsize=4)
def _parameters(architecture: Architecture, interface: Interface) -> Parameters:
    return architecture.init(keys.derive(keys.root(0), "testing/weights"), interface)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _apply(architecture: Architecture, parameters: Parameters, inputs: Array, interface: Interface) -> Array:
    return architecture.apply(parameters, inputs, interface)


def _differ(architecture: Architecture, one: Array, other: Array) -> bool:
    """Whether two results are further apart than roundings can bring them."""
    wide, against = (np.asarray(value).astype(np.float64) for value in (one, other))
    size = max(float(np.abs(wide).max()), 1.0)
    return not float(np.abs(wide - against).max()) <= TOLERANCES[architecture.precision_bits] * size


# ── the promises ─────────────────────────────────────────────────────────────────────────────────


def _is_its_knobs(architecture: Architecture, interface: Interface) -> str:
    del interface
    params = getattr(type(architecture), "__dataclass_params__", None)
    if params is None or not params.frozen:
        return "it is no frozen dataclass"
    fields = {field.name for field in dataclasses.fields(architecture)}  # type: ignore[arg-type]
    if fields != architecture.knobs().keys():
        return f"these fields are no knobs: {sorted(fields - architecture.knobs().keys())}"
    again = type(architecture)(**json.loads(json.dumps(architecture.knobs())))
    return (
        "" if (again, hash(again)) == (architecture, hash(architecture)) else "its knobs do not make it again"
    )


def _fills_the_columns(architecture: Architecture, interface: Interface) -> str:
    columns = architecture.columns()
    if columns.keys() != COLUMNS:
        return f"columns() differ in {sorted(columns.keys() ^ COLUMNS)}"
    if columns["precision_bits"] != architecture.precision_bits:
        return f"precision_bits is {columns['precision_bits']} and {architecture.precision_bits}"
    sizes = {
        "bandwidth_bits": architecture.bandwidth_bits,
        "forward_flops": architecture.forward_flops(interface),
    }
    wrong = [name for name, size in sizes.items() if not (math.isfinite(size) and size > 0)]
    return f"{wrong[0]} is {sizes[wrong[0]]}" if wrong else ""


def _counts_parameters(architecture: Architecture, interface: Interface) -> str:
    made = sum(leaf.size for leaf in jax.tree.leaves(_parameters(architecture, interface)))
    told = architecture.parameters(interface)
    return "" if made == told else f"parameters() is {told}, but init made {made}"


def _stores_wide_numbers(architecture: Architecture, interface: Interface) -> str:
    leaves = jax.tree.leaves(_parameters(architecture, interface))
    kinds = {leaf.dtype for leaf in leaves}
    narrow = [str(kind) for kind in kinds if jnp.finfo(kind).bits < STORED_BITS]
    return f"parameters are stored as {narrow[0]}" if narrow else ""


def _draws_from_the_key(architecture: Architecture, interface: Interface) -> str:
    one, again, other = (architecture.init(keys.root(seed), interface) for seed in (0, 0, 1))
    if not _equal(one, again):
        return "one key gave two sets of parameters"
    return "two keys gave the same parameters" if _equal(one, other) else ""


def _equal(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


def _takes_a_traced_scale(architecture: Architecture, interface: Interface) -> str:
    jax.eval_shape(lambda scale: architecture.init(keys.root(0), interface, scale), jnp.ones(()))
    plain, scaled = (architecture.init(keys.root(0), interface, scale) for scale in (1.0, 2.0))
    return "the initial scale changes nothing" if _equal(plain, scaled) else ""


def _answers_at_every_read(architecture: Architecture, interface: Interface) -> str:
    outputs = _apply(architecture, _parameters(architecture, interface), example_inputs(interface), interface)
    wanted = (BATCH, len(interface.reads), interface.readout.width)
    if outputs.shape != wanted:
        return f"the outputs have the shape {outputs.shape}, not {wanted}"
    if jnp.finfo(outputs.dtype).bits != architecture.precision_bits:
        return f"the outputs are {outputs.dtype}, not of {architecture.precision_bits} bits"
    return "" if bool(jnp.isfinite(outputs).all()) else "an output is no finite number"


def _sees_no_other_example(architecture: Architecture, interface: Interface) -> str:
    parameters, inputs = _parameters(architecture, interface), example_inputs(interface)
    others = inputs[:, ::-1].at[1].set(inputs[1])
    one, same = (_apply(architecture, parameters, batch, interface)[1] for batch in (inputs, others))
    return "an example's outputs change with its batch" if _differ(architecture, one, same) else ""


def _looks_back_only(architecture: Architecture, interface: Interface) -> str:
    """Where the task is causal; what the last position holds is then for the last position alone."""
    parameters, inputs = _parameters(architecture, interface), example_inputs(interface)
    interface = dataclasses.replace(interface, reads=tuple(range(interface.length)), causal=True)
    changed = inputs.at[:, -1].set(inputs[:, 0])
    before, after = (_apply(architecture, parameters, one, interface)[:, :-1] for one in (inputs, changed))
    return "a causal model sees what comes later" if _differ(architecture, before, after) else ""


def _reads_only(architecture: Architecture, interface: Interface) -> str:
    everywhere = dataclasses.replace(interface, reads=tuple(range(interface.length)))
    parameters, inputs = _parameters(architecture, interface), example_inputs(interface)
    some = _apply(architecture, parameters, inputs, interface)
    chosen = _apply(architecture, parameters, inputs, everywhere)[:, np.array(interface.reads)]
    return "what is read depends on what else is read" if _differ(architecture, some, chosen) else ""


def _drops_with_a_key_only(architecture: Architecture, interface: Interface) -> str:
    parameters, inputs = _parameters(architecture, interface), example_inputs(interface)
    ask = jax.jit(functools.partial(architecture.apply, interface=interface))
    plain = _apply(architecture, parameters, inputs, interface)
    if _differ(architecture, plain, ask(parameters, inputs, dropout=0.5)):
        return "something drops without a key"
    if _differ(architecture, plain, ask(parameters, inputs, dropout=0.0, key=keys.root(0))):
        return "a rate of nought changes the outputs"
    drawn = (keys.root(seed) for seed in (0, 0, 1))
    one, again, other = (ask(parameters, inputs, dropout=0.5, key=key) for key in drawn)
    if not np.array_equal(one, again):
        return "one key dropped two ways"
    return "dropping does not depend on the key" if np.array_equal(one, other) else ""


def _is_traced_once(architecture: Architecture, interface: Interface) -> str:
    traces: list[int] = []

    @functools.partial(jax.jit, static_argnums=(0, 1))
    def apply(
        architecture: Architecture, interface: Interface, parameters: Parameters, inputs: Array
    ) -> Array:
        traces.append(0)
        return architecture.apply(parameters, inputs, interface)

    for _ in range(2):
        equal = type(architecture)(**architecture.knobs())
        ask = functools.partial(apply, equal, dataclasses.replace(interface))
        jax.eval_shape(
            lambda *given, ask=ask: ask(*given), _parameters(equal, interface), example_inputs(interface)
        )
    return "" if len(traces) == 1 else f"two equal architectures were traced {len(traces)} times"


def _has_finite_gradients(architecture: Architecture, interface: Interface) -> str:
    inputs, parameters = example_inputs(interface), _parameters(architecture, interface)

    def loss(parameters: Parameters) -> Array:
        return (_apply(architecture, parameters, inputs, interface).astype(jnp.float32) ** 2).sum()

    gradient = jax.tree.leaves(jax.jit(jax.grad(loss))(parameters))
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in gradient):
        return "a gradient is no finite number"
    return "" if any(bool((leaf != 0).any()) for leaf in gradient) else "all gradients are zero"


def _observes_by_example(architecture: Architecture, interface: Interface) -> str:
    inputs = example_inputs(interface)
    observe = jax.jit(functools.partial(architecture.observe, interface=interface))
    seen = observe(_parameters(architecture, interface), inputs)
    for name, array in seen.items():
        if array.shape[:1] != (BATCH,):
            return f"{name} has the shape {array.shape} and not the batch of {BATCH} first"
        if not bool(jnp.isfinite(array).all()):
            return f"{name} holds a number that is not finite"
    sums = seen["attention"].astype(jnp.float32).sum(-1) if "attention" in seen else jnp.ones(1)
    return "attention does not sum to one" if _differ(architecture, jnp.ones_like(sums), sums) else ""


def _reads_other_lengths(architecture: Architecture, interface: Interface) -> str:
    """An extra split may ask for longer examples of the weights that were trained on short ones."""
    longer = dataclasses.replace(interface, length=2 * interface.length)
    apply = functools.partial(architecture.apply, interface=longer)
    outputs = jax.eval_shape(apply, _parameters(architecture, interface), example_inputs(longer))
    wanted = (BATCH, len(longer.reads), interface.readout.width)
    return "" if outputs.shape == wanted else f"inputs twice as long give the shape {outputs.shape}"


_PROMISES: dict[str, Promise] = {
    "it is a frozen dataclass that its knobs make again": _is_its_knobs,
    "its columns, bandwidth and products are told": _fills_the_columns,
    "parameters are counted": _counts_parameters,
    "parameters are stored in at least 32 bits": _stores_wide_numbers,
    "parameters depend on the key and on nothing else": _draws_from_the_key,
    "the initial scale may be traced": _takes_a_traced_scale,
    "every read is answered in the declared shape and precision": _answers_at_every_read,
    "an example does not see its batch": _sees_no_other_example,
    "a causal task is read without a look ahead": _looks_back_only,
    "what is read does not depend on what else is read": _reads_only,
    "dropping takes a key and a rate": _drops_with_a_key_only,
    "equal architectures share one program": _is_traced_once,
    "gradients are finite": _has_finite_gradients,
    "what is observed has the batch first": _observes_by_example,
    "weights read inputs of another length": _reads_other_lengths,
}
