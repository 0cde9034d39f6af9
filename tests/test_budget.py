"""Budgets: what a model offers, and that demands are held against budgets of their own kind only."""

import math

import pytest

from ullage import budget
from ullage.architecture import find
from ullage.budget import COMPARED, Budgets, budgets_of, typical_budgets
from ullage.readout import Softmax
from ullage.task import Interface, Notion, Tokens
from ullage.task import find as find_task

OFFERED = Budgets(bandwidth_bits=100.0, weight_bits=10_000.0, storage_bits=1000.0)


def interface(vocabulary):
    return Interface(Tokens(vocabulary), 4, (3,), Softmax(2), causal=False)


@pytest.mark.parametrize(("precision", "bits"), [("bf16", 16), ("f32", 32), ("f64", 64)])
def test_budgets_are_heads_width_bits_and_parameters(precision, bits):
    model = find("nano", {"precision": precision})
    # Embedding and read-out, then two layers: 12 d² in matrices, 13 d in biases and norms.
    parameters = 10 * 32 + 32 * 2 + 2 + 2 * (12 * 32**2 + 13 * 32)

    offered = budgets_of(model, interface(10))

    assert offered.bandwidth_bits == 4 * 8 * bits
    assert offered.weight_bits == parameters * bits
    assert offered.storage_bits == pytest.approx(3.6 * parameters)


def test_the_paper_preset_offers_8192_bits_of_bandwidth():
    assert budgets_of(find("paper", {}), interface(10)).bandwidth_bits == 8 * 32 * 32


def test_storage_does_not_grow_with_the_precision():
    half, full = (budgets_of(find("nano", {"precision": kind}), interface(10)) for kind in ("bf16", "f32"))

    assert half.storage_bits == full.storage_bits
    assert 2 * half.weight_bits == full.weight_bits


def test_every_notion_is_compared_with_budgets_that_exist():
    names = {name for compared in COMPARED.values() for name in compared}

    assert COMPARED.keys() == set(Notion)
    assert names == OFFERED.named().keys()


@pytest.mark.parametrize(
    ("demands", "shares"),
    [
        ({"answer": 5.0}, {"bandwidth": 0.05}),
        ({"answer": 5.0, "context": 50.0, "input": 20.0}, {"bandwidth": 0.5}),
        ({"storage": 100.0}, {"storage": 0.1, "weights": 0.01}),
        ({"answer": 30.0, "storage": 100.0}, {"bandwidth": 0.3, "storage": 0.1, "weights": 0.01}),
        ({}, {}),
    ],
    ids=["answer", "largest", "storage", "both", "none"],
)
def test_demands_are_shares_of_budgets_of_their_kind(demands, shares):
    assert OFFERED.shares(demands) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("demands", "binding"),
    [
        ({"answer": 1.0, "storage": 100.0}, "storage"),
        ({"answer": 11.0, "storage": 100.0}, "bandwidth"),
        ({"context": 1.0}, "bandwidth"),
        ({}, None),
    ],
    ids=str,
)
def test_the_binding_budget_is_the_one_with_the_largest_share(demands, binding):
    assert OFFERED.binding(demands) == binding


def test_weights_bind_where_they_are_fewer_than_what_can_be_stored():
    poor = Budgets(bandwidth_bits=100.0, weight_bits=10.0, storage_bits=36.0)

    assert poor.binding({"storage": 5.0}) == "weights"


def test_an_unknown_notion_is_compared_with_nothing():
    with pytest.raises(ValueError, match="width"):
        OFFERED.shares({"width": 3.0})


def test_all_demands_of_a_shipped_family_can_be_compared():
    for name in ("modulo", "parity", "copy", "memorise"):
        family = find_task(name)
        shares = OFFERED.shares(family.at(family.levels[0]).demands())

        assert shares
        assert min(shares.values()) > 0


def test_typical_budgets_are_geometric_means():
    other = Budgets(bandwidth_bits=400.0, weight_bits=90_000.0, storage_bits=1000.0)

    typical = typical_budgets([OFFERED, other])

    assert list(typical.named().values()) == pytest.approx([200.0, 30_000.0, 1000.0])


def test_bounds_grow_as_published():
    lengths = (16, 256)

    assert [budget.one_layer_induction_bandwidth(length) for length in lengths] == [16.0, 256.0]
    assert [budget.two_layer_induction_bandwidth(length) for length in lengths] == [4.0, 8.0]
    assert [budget.one_layer_equality_bandwidth(length) for length in lengths] == [16.0, 256.0]
    assert budget.recurrent_copy_bits(16, 10) == pytest.approx(16 * math.log2(10))


def test_the_bound_of_copying_is_the_demand_of_copying():
    task = find_task("copy").at(4)

    assert budget.recurrent_copy_bits(task.level, 16) == task.demand("context")
