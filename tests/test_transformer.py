"""The Transformer: torch's encoder gives the same, its shortcuts change nothing, its numbers are as asked."""

import dataclasses
import functools
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import precision
import pytest
import reference_weights

from ullage import kernels, keys
from ullage.architecture import find
from ullage.architectures import transformer
from ullage.architectures.transformer import LONGEST, Transformer
from ullage.errors import BadInput
from ullage.readout import Softmax
from ullage.recipe import Recipe, from_json
from ullage.task import Interface, Tokens, Vectors
from ullage.testing_architectures import check_architecture

TESTS = Path(__file__).parent
TORCH_TOLERANCE = 1e-5

SMALL = Transformer(d_model=8, heads=2, d_ff=16, layers=2)
LENGTH, VOCABULARY, ANSWERS = 6, 5, 3
READS = {"one": (5,), "contiguous": (2, 3, 4), "scattered": (0, 3, 5)}


def interface(reads=(5,), causal=False, inputs=None):
    return Interface(inputs or Tokens(VOCABULARY), LENGTH, reads, Softmax(ANSWERS), causal)


EVERYWHERE = tuple(range(LENGTH))
INTERFACES = [
    interface(),
    interface(READS["scattered"], causal=True),
    interface(EVERYWHERE, inputs=Vectors(3)),
]


@functools.partial(jax.jit, static_argnums=(0, 3))
def apply(model, parameters, inputs, look):
    return model.apply(parameters, inputs, look)


def weights(model):
    """Parameters of which none is zero or one, so that each of them counts; NumPy draws them quickly."""
    shapes = jax.eval_shape(lambda: model.init(keys.root(0), interface()))
    state = np.random.RandomState(0)

    def draw(place, leaf):
        size = 0.3 + 0.5 * (leaf.ndim == 2) / np.sqrt(leaf.shape[0])
        return jnp.asarray(size * state.standard_normal(leaf.shape) + ("gain" in str(place)), leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def tokens(count=4):
    return jax.random.randint(keys.root(2), (count, LENGTH), 0, VOCABULARY, dtype=jnp.int32)


# ── torch's encoder ───────────────────────────────────────────────────────────────────────────────


@functools.cache
def torch_outputs():
    return np.load(TESTS / "data" / "torch_reference.npz")["outputs"]


@functools.cache
def torch_inputs():
    layers, inputs = reference_weights.drawn()
    return {"layers": [dict(layer) for layer in layers]}, inputs


def torch_gap(model=None, layers=None, forward=None):
    """How far a model on the drawn weights is from torch, at the worst of all numbers."""
    given, inputs = torch_inputs()
    forward = forward or jax.jit((model or find("paper", {})).blocks)
    parameters = {"layers": [jax.tree.map(jnp.asarray, layer) for layer in layers or given["layers"]]}
    return float(np.abs(np.asarray(forward(parameters, jnp.asarray(inputs))) - torch_outputs()).max())


def test_paper_preset_gives_what_torch_gives():
    paper = find("paper", {})
    shape = (paper.layers, paper.heads, paper.head_width, paper.d_ff, paper.bandwidth_bits)

    assert shape == (2, 8, 32, 1024, 8192.0)
    assert torch_outputs().reshape(-1, paper.d_model).shape == (200, 256)
    assert 0.5 < np.abs(torch_outputs()).mean() < 2
    assert torch_gap() < TORCH_TOLERANCE


def test_every_weight_that_can_matter_is_compared():
    """A bias of the keys adds the same to all scores of a query, which the softmax takes away."""
    forward = jax.jit(find("paper", {}).blocks)
    given = torch_inputs()[0]["layers"]
    gaps = {}
    for name, index in itertools.product(reference_weights.SHAPES, range(len(given))):
        changed = [dict(layer) for layer in given]
        changed[index][name] = changed[index][name] * np.float32(1.01)
        gaps[name, index] = torch_gap(layers=changed, forward=forward)

    assert {name for name, gap in gaps.items() if gap < 10 * TORCH_TOLERANCE} == {
        ("key_bias", 0),
        ("key_bias", 1),
    }


def tanh_gelu(hidden):
    return jax.nn.gelu(hidden, approximate=True)


def post_norm(model, parameters, stream):
    stream = kernels.width_first(stream)
    for layer in parameters["layers"]:
        mixed, _ = model._attend(layer, stream, stream, None)
        stream = stream + kernels.product(mixed, layer["output"], layer["output_bias"])
        stream = normed(layer, "attention", stream)
        hidden = model._activate(kernels.product(stream, layer["rise"], layer["rise_bias"]))
        stream = stream + kernels.product(hidden, layer["fall"], layer["fall_bias"])
        stream = normed(layer, "feed", stream)
    return kernels.width_last(stream)


def normed(layer, name, stream):
    gain, shift = (layer[f"{name}_{part}"][:, None, None] for part in ("gain", "shift"))
    return kernels.standardised(stream) * gain + shift


def unscaled(layer):
    return layer | {name: layer[name] * np.float32(32**0.5) for name in ("query", "query_bias")}


def test_another_gelu_is_told_from_torch(monkeypatch):
    monkeypatch.setattr(Transformer, "_activate", lambda self, hidden: tanh_gelu(hidden))

    assert torch_gap() > 10 * TORCH_TOLERANCE


def test_norm_after_each_part_is_told_from_torch():
    assert torch_gap(forward=jax.jit(functools.partial(post_norm, find("paper", {})))) > 0.1


def test_scores_that_are_not_divided_are_told_from_torch():
    layers = [unscaled(layer) for layer in torch_inputs()[0]["layers"]]

    assert torch_gap(layers=layers) > 0.1


@pytest.mark.parametrize(
    "other", [{"heads": 4}, {"activation": "relu"}, {"attention": "causal"}, {"norm": "none"}], ids=str
)
def test_another_knob_is_told_from_torch(other):
    assert torch_gap(find("paper", other)) > 0.01


# ── shortcuts ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_reading_few_positions_changes_none_of_them(reads, causal, layers):
    model = dataclasses.replace(SMALL, layers=layers, final_norm=True)
    parameters = weights(model)

    few = apply(model, parameters, tokens(), interface(reads, causal))
    everywhere = apply(model, parameters, tokens(), interface(EVERYWHERE, causal))

    np.testing.assert_allclose(few, everywhere[:, np.array(reads)], atol=1e-5)


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_reading_few_positions_changes_no_gradient(reads):
    parameters = weights(SMALL)

    def gradient(asked, chosen):
        def loss(parameters):
            return (apply(SMALL, parameters, tokens(), interface(asked))[:, chosen] ** 2).sum()

        return jax.jit(jax.grad(loss))(parameters)

    few = gradient(reads, np.arange(len(reads)))
    everywhere = gradient(EVERYWHERE, np.array(reads))

    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-4), few, everywhere
    )


def test_other_reads_would_be_noticed():
    parameters = weights(SMALL)

    some = apply(SMALL, parameters, tokens(), interface((0, 3, 5)))
    others = apply(SMALL, parameters, tokens(), interface((0, 2, 5)))

    assert float(jnp.abs(some - others).max()) > 0.01


# ── attention ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_observed_attention_is_a_distribution_over_what_may_be_seen(attention):
    model = dataclasses.replace(SMALL, attention=attention)

    seen = model.observe(weights(model), tokens(), interface())
    pattern = np.asarray(seen["attention"])
    future = pattern[..., ~np.tri(LENGTH, dtype=bool)]

    assert pattern.shape == (4, 2, 2, LENGTH, LENGTH)
    np.testing.assert_allclose(pattern.sum(-1), 1, atol=1e-6)
    assert (future == 0).all() == (attention == "causal")
    assert seen["residual"].shape == (4, 3, LENGTH, 8)


@pytest.mark.parametrize("asked", ["architecture", "task"])
def test_causal_positions_do_not_see_later_ones(asked):
    model = dataclasses.replace(SMALL, attention="causal" if asked == "architecture" else "bidirectional")
    look = interface(EVERYWHERE, causal=asked == "task")
    changed = tokens().at[:, 4].set((tokens()[:, 4] + 1) % VOCABULARY)

    before, after = (apply(model, weights(model), inputs, look) for inputs in (tokens(), changed))

    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert float(jnp.abs(before - after)[:, 4:].max()) > 0.01


def test_bidirectional_positions_see_later_ones():
    changed = tokens().at[:, 4].set((tokens()[:, 4] + 1) % VOCABULARY)

    before, after = (apply(SMALL, weights(SMALL), inputs, interface((0,))) for inputs in (tokens(), changed))

    assert float(jnp.abs(before - after).max()) > 1e-3


def test_what_is_observed_is_what_is_read():
    parameters = weights(SMALL)

    last = SMALL.observe(parameters, tokens(), interface())["residual"][:, -1, 5]
    read = last @ parameters["read"] + parameters["read_bias"][None]

    np.testing.assert_allclose(read, apply(SMALL, parameters, tokens(), interface())[:, 0], atol=1e-5)


def test_gradient_of_a_norm_is_that_of_its_formula():
    drawn = 5 + 3 * jax.random.normal(keys.root(0), (16, 2, 3))

    def plainly(x):
        mean, variance = x.mean(0, keepdims=True), x.var(0, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + kernels.NORM_EPSILON)

    found, expected = (
        jax.grad(lambda x, norm=norm: (jnp.sin(norm(x)) * drawn).sum())(drawn)
        for norm in (kernels.standardised, plainly)
    )

    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_gain_and_shift_of_a_norm_are_absorbed_by_the_matrix_behind_it():
    state = np.random.RandomState(0)
    shapes = {"n_gain": 4, "n_shift": 4, "m": (4, 3), "m_bias": 3, "x": (4, 2, 5)}
    drawn = {name: jnp.asarray(state.standard_normal(shape), jnp.float32) for name, shape in shapes.items()}

    def plainly(given):
        normed = given["x"] * given["n_gain"][:, None, None] + given["n_shift"][:, None, None]
        return kernels.product(normed, given["m"], given["m_bias"])

    def absorbed(given):
        given = kernels.absorbed(given, "n", ("m",))
        return kernels.product(given["x"], given["m"], given["m_bias"])

    for one, other in zip(
        *(jax.tree.leaves(jax.vjp(made, drawn)[1](plainly(drawn))) for made in (plainly, absorbed)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("asking", [1, 6])
def test_gradient_of_stacked_products_is_that_of_any_product(asking):
    state = np.random.RandomState(0)
    left, right = (jnp.asarray(state.randn(2, 3, *shape), jnp.float32) for shape in ((4, 5), (5, asking)))

    def gradient(product):
        return jax.grad(lambda pair: jnp.sin(product(*pair)).sum())((left, right))

    for given, true in zip(gradient(kernels.times), gradient(jnp.matmul), strict=True):
        np.testing.assert_allclose(given, true, atol=1e-5)


@pytest.mark.parametrize("count", [1, kernels.SMALL_VOCABULARY, kernels.SMALL_VOCABULARY + 1])
def test_an_embedding_is_the_row_of_its_token_whatever_the_vocabulary(count):
    table = jnp.asarray(np.random.RandomState(0).randn(count, 8), jnp.float32)
    asked = jnp.arange(count, dtype=jnp.int32)[None]

    np.testing.assert_array_equal(kernels.look_up(table, asked), table.T[:, None])


# ── knobs ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "other",
    [
        {"positional": "none"},
        {"positional": "learned"},
        {"norm": "none"},
        {"final_norm": True},
        {"activation": "relu"},
        {"attention": "causal"},
        {"layers": 3},
        {"d_ff": 0},
        {"d_head": 3},
        {"precision": "bf16"},
    ],
    ids=str,
)
def test_every_knob_changes_what_is_computed(other):
    model = dataclasses.replace(SMALL, **other)
    read = interface((2,))

    plain, changed = (np.float32(apply(one, weights(one), tokens(), read)) for one in (SMALL, model))

    assert np.isfinite(changed).all()
    assert np.abs(plain - changed).max() > 1e-3


@pytest.mark.parametrize("positional", ["none", "sinusoidal", "learned"])
def test_only_positions_tell_the_order(positional):
    model = dataclasses.replace(SMALL, positional=positional)
    swapped = tokens()[:, np.array([1, 0, 2, 3, 4, 5])]

    before, after = (apply(model, weights(model), inputs, interface()) for inputs in (tokens(), swapped))

    assert (float(jnp.abs(before - after).max()) < 1e-5) == (positional == "none")


def test_relu_and_gelu_are_what_they_are_called():
    hidden = jnp.array([-1.0, 0.0, 1.0])
    relu = dataclasses.replace(SMALL, activation="relu")

    np.testing.assert_array_equal(relu._activate(hidden), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(SMALL._activate(hidden), [-0.158655, 0.0, 0.841345], atol=1e-6)


def test_norm_makes_mean_zero_and_variance_one():
    drawn = 5 + 3 * jax.random.normal(keys.root(0), (64, 2, 4))

    normed = np.asarray(kernels.standardised(drawn))

    np.testing.assert_allclose(normed.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(normed.std(0), 1, atol=1e-4)


def test_dropout_needs_a_key_and_keeps_the_mean():
    """A mean of 40 000 numbers of which half are kept: it is off by 0.05 once in 10²³ times."""
    ones = jnp.ones((1, 200, 200))
    dropped = transformer._drop(ones, "feed", 0.5, keys.root(0))

    np.testing.assert_array_equal(transformer._drop(ones, "feed", 0.5, None), ones)
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert abs(float(dropped.mean()) - 1) < 0.05


def test_initial_scale_multiplies_all_that_is_drawn():
    one, three = (SMALL.init(keys.root(0), interface(), scale) for scale in (1.0, 3.0))
    drawn = ("query", "key", "value", "output", "rise", "fall")

    np.testing.assert_allclose(three["embed"], 3 * one["embed"], rtol=1e-6)
    for name in drawn:
        np.testing.assert_allclose(three["layers"][1][name], 3 * one["layers"][1][name], rtol=1e-6)
    assert (one["layers"][0]["query"] != one["layers"][1]["query"]).any()


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def counted_by_hand(model, rows):
    width, span = model.d_model, model.heads * model.head_width
    attention = 3 * (width * span + span) + span * width + width
    feed = 2 * width * model.d_ff + model.d_ff + width if model.d_ff else 0
    norms = {"none": 0, "pre": 2 * width * (2 if model.d_ff else 1)}[model.norm]
    positions = LONGEST * width if model.positional == "learned" else 0
    final = 2 * width if model.final_norm else 0
    read = width * ANSWERS + ANSWERS
    return rows * width + positions + model.layers * (attention + feed + norms) + final + read


@pytest.mark.parametrize(
    "other",
    [{}, {"d_ff": 0}, {"norm": "none"}, {"final_norm": True}, {"positional": "learned"}, {"d_head": 5}],
    ids=str,
)
def test_parameters_are_as_many_as_counted_by_hand(other):
    model = dataclasses.replace(SMALL, **other)

    assert model.parameters(interface()) == counted_by_hand(model, VOCABULARY)
    assert model.parameters(interface(inputs=Vectors(7))) == counted_by_hand(model, 7)


def test_blocks_of_the_paper_preset_have_the_known_size():
    rest = 256 * VOCABULARY + 256 * ANSWERS + ANSWERS

    # 12·256² in the matrices of one layer, 13·256 in its biases and norms.
    assert find("paper", {}).parameters(interface()) - rest == 2 * (12 * 256**2 + 13 * 256)


@pytest.mark.parametrize(
    ("preset", "width", "heads", "bandwidth"),
    [("nano", 32, 4, 1024), ("small", 64, 4, 2048), ("medium", 128, 8, 4096), ("paper", 256, 8, 8192)],
)
def test_presets_are_what_is_promised(preset, width, heads, bandwidth):
    model = find(preset, {})
    shape = (model.layers, model.d_model, model.heads, model.d_ff, model.bandwidth_bits, model.model_id)

    assert shape == (2, width, heads, 4 * width, bandwidth, preset)
    assert from_json(json.loads(json.dumps(Recipe(model).to_json()))).architecture == model


@pytest.mark.parametrize(("kind", "bits"), [("bf16", 16), ("f16", 16), ("f32", 32), ("f64", 64)])
def test_bandwidth_grows_with_the_bits_of_a_number(kind, bits):
    model = find("nano", {"precision": kind})

    assert (model.precision_bits, model.bandwidth_bits, model.uses_x64) == (bits, 32 * bits, bits == 64)


def test_products_are_counted_where_they_are_made():
    """Two layers of which the second asks at one of six positions; every product counts twice."""
    first = 6 * (3 * 64 + 64 + 2 * 8 * 16) + 2 * 6 * 6 * 8
    last = 1 * (2 * 64 + 2 * 8 * 16) + 6 * 2 * 64 + 2 * 6 * 8
    read = 8 * ANSWERS

    assert SMALL.forward_flops(interface()) == 2 * (first + last + read)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"heads": 3}, "d_model=8 is not divisible by heads=3; choose heads that divide it, or give d_head"),
        ({"d_model": 9, "heads": 3}, "d_model=9 is odd; sinusoidal positions need an even d_model"),
    ],
    ids=["heads", "odd"],
)
def test_knobs_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(BadInput) as told:
        dataclasses.replace(SMALL, **wrong)

    assert str(told.value) == message


def test_the_architecture_keeps_its_contract():
    broken = [clause for clause in check_architecture(SMALL, INTERFACES) if not clause.passed]

    assert broken == []


@pytest.mark.parametrize("other", [{"precision": "bf16"}, {"d_ff": 0, "norm": "none", "layers": 1}], ids=str)
def test_the_architecture_keeps_its_contract_with_other_knobs(other):
    clauses = check_architecture(dataclasses.replace(SMALL, **other), INTERFACES[1:2])

    assert [clause for clause in clauses if not clause.passed] == []


# ── precision ─────────────────────────────────────────────────────────────────────────────────────

# Products, softmax, norm, activation and the logarithm of the loss: what a precision is asked for.
MADE_AS_ASKED = {
    "forward": (
        "dot_general",
        "exp",
        "reduce_max",
        "rsqrt",
        "sub",
        "mul",
        "add",
        "max",
    ),
    "gradient": ("dot_general", "exp", "reduce_max", "rsqrt", "log", "integer_pow", "add_any", "neg"),
}
GELU = {"bf16": "erfc", "f16": "erfc", "f32": "erf", "f64": "erf"}
# Sums of 16-bit numbers are taken in 32 bits and rounded at once, as the units for products do it.
SUMS = {"convert_element_type", "reduce_sum", "broadcast_in_dim", "div"}
NAMES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}


@functools.cache
def told_of_64_bits():
    result = subprocess.run(
        [sys.executable, str(TESTS / "precision.py")],
        env=os.environ | {"JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@functools.cache
def kinds(precision_name):
    if precision_name == "f64":
        return told_of_64_bits()
    return {
        "model": precision.kinds_of_model(precision_name),
        "gradient": precision.kinds_of_gradient(precision_name, dropout=0.1),
        "step": precision.kinds_of_step(precision_name),
    }


@pytest.mark.parametrize("asked", NAMES)
def test_the_model_computes_in_the_precision_that_was_asked(asked):
    found = kinds(asked)

    for name in (*MADE_AS_ASKED["forward"], GELU[asked]):
        assert (name, found["model"][name]) == (name, [NAMES[asked]])
    for name in (*MADE_AS_ASKED["gradient"], GELU[asked]):
        assert (name, found["gradient"][name]) == (name, [NAMES[asked]])


@pytest.mark.parametrize("asked", NAMES)
def test_only_sums_are_wider_than_what_was_asked(asked):
    other = {name for name, types in kinds(asked)["model"].items() if types != [NAMES[asked]]}

    assert other == (SUMS if asked in {"bf16", "f16"} else set())


@pytest.mark.parametrize("asked", NAMES)
def test_the_compiled_step_has_no_product_of_another_precision(asked):
    found = kinds(asked)["step"]

    assert [found[name] for name in ("dot_general", "exp", "rsqrt", GELU[asked])] == [[NAMES[asked]]] * 4


def test_a_product_of_another_precision_would_be_noticed():
    @jax.jit
    def mixed(x):
        return jax.lax.fori_loop(0, 2, lambda _, y: y @ y.astype(jnp.bfloat16).astype(jnp.float32).T, x)

    found = precision.kinds(jax.make_jaxpr(mixed)(jnp.ones((2, 2))).jaxpr)

    assert found["dot_general"] == ["float32"]
    assert found["convert_element_type"] == ["bfloat16", "float32"]


def test_only_64_bits_tell_one_from_barely_more():
    found = told_of_64_bits()["difference"]

    assert found["f32"] == 0.0
    assert 1e-14 < found["f64"] < 1e-9


def test_a_training_in_64_bits_keeps_64_bits():
    found = told_of_64_bits()

    assert (found["stored"], found["finite"]) == (["float64"], True)


@pytest.mark.parametrize("asked", ["bf16", "f16"])
def test_fewer_bits_give_about_the_same_answer(asked):
    short = dataclasses.replace(SMALL, precision=asked)
    parameters = weights(SMALL)

    exact, rounded = (np.float32(apply(model, parameters, tokens(), interface())) for model in (SMALL, short))

    assert 0 < np.abs(exact - rounded).max() < 0.02 * np.abs(exact).max()
