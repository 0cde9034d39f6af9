"""Read-outs: losses against NumPy, answers against the targets that they came from."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ullage.readout import Circle, Linear, Softmax, SoftTargets

STATE = np.random.RandomState(0)
LOGITS = STATE.standard_normal((2, 3, 5)).astype(np.float32)
CLASSES = STATE.randint(0, 5, (2, 3)).astype(np.int32)
SHARES = STATE.dirichlet(np.ones(5), (2, 3)).astype(np.float32)
POINTS = STATE.standard_normal((2, 3, 2)).astype(np.float32)

ALL = [
    (Softmax(5), LOGITS, CLASSES),
    (SoftTargets(5), LOGITS, SHARES),
    (Circle(5), POINTS, CLASSES),
    (Linear(2), POINTS, POINTS[::-1]),
]


def log_softmax(logits):
    logits = logits.astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize(("readout", "outputs", "targets"), ALL, ids=lambda value: type(value).__name__)
def test_every_position_has_one_loss_and_one_answer(readout, outputs, targets):
    loss, said = (
        readout.loss(jnp.asarray(outputs), jnp.asarray(targets)),
        readout.decode(jnp.asarray(outputs)),
    )

    assert outputs.shape == (2, 3, readout.width)
    assert targets.shape == said.shape == (2, 3, *readout.target_shape)
    assert (loss.shape, said.dtype) == ((2, 3), targets.dtype)


@pytest.mark.parametrize(("readout", "outputs", "targets"), ALL, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_losses_and_gradients_are_finite_in_the_precision_of_the_outputs(readout, outputs, targets, kind):
    given = jnp.asarray(outputs, kind)

    loss = readout.loss(given, jnp.asarray(targets))
    gradient = jax.grad(lambda outputs: readout.loss(outputs, jnp.asarray(targets)).sum())(given)

    assert (loss.dtype, gradient.dtype) == (kind, kind)
    assert bool(jnp.isfinite(loss).all())
    assert bool(jnp.isfinite(gradient).all())


def test_softmax_loss_is_the_surprise_at_the_target_in_nats():
    expected = -np.take_along_axis(log_softmax(LOGITS), CLASSES[..., None], axis=-1)[..., 0]

    np.testing.assert_allclose(
        Softmax(5).loss(jnp.asarray(LOGITS), jnp.asarray(CLASSES)), expected, rtol=1e-5
    )


def test_softmax_loss_of_equal_logits_is_log_of_the_classes():
    loss = Softmax(8).loss(jnp.zeros((1, 8)), jnp.array([3]))

    np.testing.assert_allclose(loss, [math.log(8)], rtol=1e-6)


def test_softmax_loss_survives_huge_logits():
    loss = Softmax(2).loss(jnp.array([[1e30, -1e30]]), jnp.array([0]))

    np.testing.assert_array_equal(loss, [0.0])


def test_soft_targets_loss_is_the_cross_entropy():
    expected = -(SHARES * log_softmax(LOGITS)).sum(-1)

    np.testing.assert_allclose(
        SoftTargets(5).loss(jnp.asarray(LOGITS), jnp.asarray(SHARES)), expected, rtol=1e-5
    )


def test_soft_targets_of_one_class_are_a_softmax():
    certain = jnp.asarray(np.eye(5, dtype=np.float32)[CLASSES])

    one, other = (
        SoftTargets(5).loss(jnp.asarray(LOGITS), certain),
        Softmax(5).loss(jnp.asarray(LOGITS), jnp.asarray(CLASSES)),
    )

    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_linear_loss_is_half_the_squared_distance():
    loss = Linear(2).loss(jnp.array([[1.0, 2.0]]), jnp.array([[4.0, 6.0]]))

    np.testing.assert_array_equal(loss, [12.5])


@pytest.mark.parametrize("modulus", [2, 7, 97])
def test_circle_reads_every_residue_back_from_its_point(modulus):
    residues = np.arange(modulus, dtype=np.int32)
    angles = residues * (2 * math.pi / modulus)
    points = jnp.asarray(0.3 * np.stack([np.cos(angles), np.sin(angles)], axis=-1), jnp.float32)

    np.testing.assert_array_equal(Circle(modulus).decode(points), residues)


def test_circle_rounds_to_the_nearest_residue_also_across_zero():
    right_angles = np.array([0.24, 0.26, -0.24, -0.26, 0.99])
    angles = right_angles * math.pi / 2
    points = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=-1))

    # A right angle is two residues modulo 8.
    np.testing.assert_array_equal(Circle(8).decode(points), [0, 1, 0, 7, 2])


def test_circle_loss_is_zero_at_the_target_and_nowhere_less():
    circle, target = Circle(6), jnp.array([1])
    angle = 2 * math.pi / 6
    right = jnp.array([[math.cos(angle), math.sin(angle)]])
    others = jnp.asarray(POINTS.reshape(-1, 2))

    assert abs(float(circle.loss(right, target)[0])) < 1e-6
    assert float(circle.loss(others, jnp.ones(6, jnp.int32)).min()) > 0


def test_circle_loss_is_what_the_paper_says_less_its_least_value():
    point, ring = np.array([0.6, -0.7]), 0.01
    square = (point**2).sum()
    distance = ((point - np.array([0.0, 1.0])) ** 2).sum()
    expected = ring * (square + 1 / square - 2) + (1 - ring) * distance

    loss = Circle(4).loss(jnp.asarray(point[None], jnp.float32), jnp.array([1]))

    np.testing.assert_allclose(loss, [expected], rtol=1e-5)


def test_circle_keeps_loss_and_gradient_finite_at_the_origin():
    loss, gradient = jax.value_and_grad(lambda point: Circle(4).loss(point, jnp.array(1)))(jnp.zeros(2))

    assert np.isfinite([float(loss), *np.asarray(gradient)]).all()


@pytest.mark.parametrize("readout", [Softmax(5), SoftTargets(5)])
def test_probabilities_sum_to_one(readout):
    logs = readout.log_probabilities(jnp.asarray(LOGITS))

    np.testing.assert_allclose(np.exp(logs).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(logs, log_softmax(LOGITS), rtol=1e-4)


def test_numbers_that_are_no_distribution_have_no_probabilities():
    kinds = [
        (readout.classes, readout.log_probabilities(jnp.zeros((1, 2)))) for readout in (Linear(2), Circle(9))
    ]

    assert kinds == [(None, None), (9, None)]
