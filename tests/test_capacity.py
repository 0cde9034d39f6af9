"""The meta-model: what is read off a posterior, known worlds found again, and fits that cannot be trusted."""

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from ullage import kept, readoff
from ullage.boundary import STEPS, Interval, in_levels
from ullage.capacity import Settings, fit, prepared
from ullage.conditions import conditions_from_json, conditions_of, misread
from ullage.errors import BadInput
from ullage.heldout import dealt
from ullage.observations import Effort, Model, Observation, Observations
from ullage.posterior import Curve, Diagnostics, Posterior
from ullage.scatter import LARGEST_CONCENTRATION, LEAST_CONCENTRATION, log_beta_binomial
from ullage.tabled import tabled, zero_sum_basis
from ullage.worlds import KINDS, draw_prior_world, draw_world

DRAWS = 400
SMALL = Model("small", "transformer", 2, 4, 8, 32, 32)
LARGE = Model("large", "transformer", 2, 4, 32, 128, 32)
WELL = Diagnostics(rhat_max=1.0, ess_min=400.0, divergences=0, draws=DRAWS)


def runs_of(family, model, skills, *, technique="none", notion="context", parameters=None):
    """Two runs a level; level n asks for 2^n bits."""
    return [
        Observation(family, level, seed, notion, {notion: 2.0**level}, skill, model, parameters, technique)
        for level, skill in skills.items()
        for seed in range(2)
    ]


def posterior_of(runs, notion="context", **draws):
    """A posterior that somebody wrote: everything is known, and 0 unless it is told."""
    conditions = conditions_of(runs, notion)
    models, families = len(conditions.models), len(conditions.families)
    shapes = {"difficulty": (families,), "model": (models,), "pair": (models, families), "typical": ()}
    techniques = len(conditions.techniques)
    if techniques > 1:
        shapes |= {"technique": (techniques,), "technique_family": (techniques, families)}
    flat = {name: np.zeros((DRAWS, *shape)) for name, shape in shapes.items()}
    for name, value in {"slope": 4.0, "low": 0.0, "high": 1.0, "concentration": 3.0}.items():
        flat[name] = np.full((DRAWS, families), value)
    flat["growth"] = np.zeros(DRAWS)
    flat |= {name: np.broadcast_to(value, (DRAWS, *np.shape(value))) for name, value in draws.items()}
    return Posterior(conditions, Effort(), "hierarchical", "beta_binomial", flat, WELL, {})


BOTH_ENDS = {1: 1.0, 2: 1.0, 3: 1.0, 4: 0.0, 5: 0.0}  # the middle of the levels is 2^3 bits


# ── reading off ──────────────────────────────────────────────────────────────────────────────────


def test_capacity_is_read_off_the_curve_and_not_off_the_parameter():
    runs = runs_of("a", SMALL, BOTH_ENDS)

    sure = readoff.family_capacity(posterior_of(runs), 0, 0, 0)
    lapsing = readoff.family_capacity(posterior_of(runs, high=[0.75]), 0, 0, 0)

    assert sure.median == pytest.approx(8.0)
    # 0.75 σ(x) is one half at x = log 2, a quarter of it in log2 bits below the middle.
    assert lapsing.median == pytest.approx(2 ** (3 - math.log(2) / 4))


def test_all_levels_learned_gives_no_upper_end_and_all_failed_no_lower_one():
    learned = posterior_of(runs_of("a", SMALL, dict.fromkeys(BOTH_ENDS, 1.0)), typical=4.0)
    failed = posterior_of(runs_of("a", SMALL, dict.fromkeys(BOTH_ENDS, 0.0)), typical=-4.0)

    assert readoff.family_capacity(learned, 0, 0, 0).to_json() == {"median": None, "low": 32.0, "high": None}
    assert readoff.model_capacity(learned, 0, 0).to_json() == {"median": None, "low": 32.0, "high": None}
    assert readoff.family_capacity(failed, 0, 0, 0).to_json() == {"median": None, "low": None, "high": 2.0}
    assert readoff.model_capacity(failed, 0, 0).to_json() == {"median": None, "low": None, "high": 2.0}


def test_capacity_of_a_model_is_the_mean_of_log2_capacity_over_all_families():
    runs = runs_of("a", SMALL, BOTH_ENDS) + runs_of("b", SMALL, BOTH_ENDS)

    found = readoff.model_capacity(posterior_of(runs, difficulty=[1.0, -1.0]), 0, 0)

    assert found.median == pytest.approx(8.0)


def test_a_model_that_was_not_tried_on_a_family_is_not_listed_there():
    posterior = posterior_of(
        [*runs_of("a", SMALL, BOTH_ENDS), *runs_of("b", SMALL, BOTH_ENDS), *runs_of("a", LARGE, BOTH_ENDS)]
    )

    pairs = [(row["model_id"], row["task"]) for row in readoff.summary(posterior)["capacity"]]

    assert pairs == [("small", "a"), ("small", "b"), ("large", "a")]


def test_utilisation_is_told_under_one_notion_and_not_where_notions_are_mixed():
    runs = runs_of("a", SMALL, BOTH_ENDS)

    shares = readoff.utilisation(posterior_of(runs), 0, 0)

    assert shares is not None
    assert shares["bandwidth"].median == pytest.approx(8.0 / (4 * 8 * 32))
    assert readoff.utilisation(posterior_of(runs, "nominal"), 0, 0) is None


def test_headroom_is_what_a_budget_has_left_and_its_ends_are_exchanged():
    runs = runs_of("a", SMALL, BOTH_ENDS)
    stray = np.linspace(-1.0, 1.0, DRAWS)

    capacity = readoff.model_capacity(posterior_of(runs, typical=stray), 0, 0)
    left = readoff.headroom(posterior_of(runs, typical=stray), 0, 0)
    nothing = readoff.headroom(
        posterior_of(runs_of("a", SMALL, dict.fromkeys(BOTH_ENDS, 1.0)), typical=9.0), 0, 0
    )

    assert left is not None
    assert nothing is not None
    assert left["bandwidth"].low == 1024 - capacity.high
    assert left["bandwidth"].high == 1024 - capacity.low
    assert nothing["bandwidth"].to_json() == {"median": None, "low": None, "high": 1024 - 32.0}
    assert readoff.headroom(posterior_of(runs, "nominal"), 0, 0) is None


def test_the_boundary_of_a_family_is_told_in_levels_too():
    asked = [(run.demands["context"], run.level) for run in runs_of("a", SMALL, BOTH_ENDS)]

    found = in_levels(Interval(None, 8.0, 24.0), asked)

    assert (found.median, found.low, found.high) == (None, 3.0, 4.5)


def test_storage_is_held_against_what_weights_hold():
    runs = runs_of("a", SMALL, BOTH_ENDS, notion="storage", parameters=100)

    shares = readoff.utilisation(posterior_of(runs, "storage"), 0, 0)

    assert shares is not None
    assert {name: round(one.median or 0, 6) for name, one in shares.items()} == {
        "storage": round(8 / 360, 6),
        "weights": round(8 / 3200, 6),
    }


def test_a_multiplier_is_capacity_with_a_technique_over_capacity_without():
    runs = runs_of("a", SMALL, BOTH_ENDS) + runs_of("a", SMALL, BOTH_ENDS, technique="digits")
    posterior = posterior_of(runs, technique=[0.0, 1.0])

    ratio = readoff.model_capacity(posterior, 0, 1).median / readoff.model_capacity(posterior, 0, 0).median

    assert readoff.multipliers(posterior)["digits"].median == pytest.approx(2.0)
    assert ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("models", "parameters", "said"),
    [
        ([SMALL], [100], "cannot be told from one model"),
        (
            [SMALL, dataclasses.replace(SMALL, model_id="deep", layers=4)],
            [100, 200],
            "the same for all models",
        ),
        ([SMALL, LARGE], [100, 400], "growth with the parameters"),
        ([SMALL, LARGE], [None, None], ""),
    ],
    ids=["one model", "equal budgets", "collinear", "sizes not known"],
)
def test_growth_is_told_only_where_the_models_can_tell_it(models, parameters, said):
    runs = [
        run
        for model, size in zip(models, parameters, strict=True)
        for run in runs_of("a", model, BOTH_ENDS, parameters=size)
    ]

    interval, why = readoff.growth_exponent(posterior_of(runs))

    assert said in why
    assert (interval is None) == bool(said)


def test_the_document_of_a_fit_holds_what_was_promised():
    document = readoff.summary(posterior_of(runs_of("a", SMALL, BOTH_ENDS)))

    promised = "demand_notion effort models tasks capacity multipliers growth_exponent diagnostics"
    assert set(promised.split()) <= document.keys()
    assert document["tasks"]["a"].keys() == {"difficulty", "slope"}
    assert {"rhat_max", "ess_min", "divergences", "trusted", "excluded"} <= document["diagnostics"].keys()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


# ── scatter ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scatter", ["beta_binomial", "own_floor", "mixture"])
def test_the_chances_of_all_skills_sum_to_one_and_their_mean_is_the_expected_skill(scatter):
    flat = np.array([0.2, 3.0, 50.0])
    spread = {"concentration": flat, "concentration_learned": flat, "top": np.array([0.9, 0.95, 1.0])}
    low = np.array([0.0, 0.1, 0.2]) if scatter != "beta_binomial" else np.zeros(3)
    curve = Curve(np.full(3, 5.0), np.full(3, 4.0), low, np.full(3, 0.85), spread, scatter)

    chances = curve.chances(4.8)

    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-9)
    # Means are kept half a hundredth away from 0 and 1, where a beta is no distribution.
    np.testing.assert_allclose(chances @ np.arange(STEPS + 1) / STEPS, curve.expected_skill(4.8), atol=0.006)


def test_the_sampler_and_the_read_off_have_the_same_scatter():
    expected, concentration = np.array([0.0, 0.3, 1.0]), np.array([0.2, 3.0, 50.0])
    curve = Curve(
        np.zeros(3), np.ones(3), expected, expected, {"concentration": concentration}, "beta_binomial"
    )

    sampled = np.exp(log_beta_binomial(jnp.asarray(expected), jnp.asarray(concentration)))

    np.testing.assert_allclose(sampled, curve.chances(0.0), atol=1e-4)


def test_concentrations_are_bounded():
    assert 0 < LEAST_CONCENTRATION < LARGEST_CONCENTRATION < math.inf


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def test_merged_runs_make_the_same_table_as_single_ones():
    single = runs_of("a", SMALL, BOTH_ENDS)
    merged = [dataclasses.replace(run, count=2) for run in single if run.seed == 0]

    assert conditions_of(merged, "nominal").identity() == conditions_of(single, "nominal").identity()


def test_a_table_survives_its_document():
    conditions = conditions_of(runs_of("a", SMALL, BOTH_ENDS, parameters=100), "nominal")

    again = conditions_from_json(json.loads(json.dumps(conditions.to_json())))

    assert again.identity() == conditions.identity()


def test_guessing_with_few_questions_does_not_look_like_learning():
    guessed, exact = misread(0.5, 500.0), misread(0.0, 0.0)

    np.testing.assert_allclose(guessed.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(exact, np.eye(STEPS + 1))
    # A coin thrown 500 times strays by 0.022 and a skill by twice that: 0.025 is passed by 29 % of guesses.
    assert guessed[0, 1:].sum() == pytest.approx(0.288, abs=0.005)
    assert guessed[STEPS, STEPS] == 1.0


def test_what_fills_up_a_table_has_no_runs():
    conditions = conditions_of(runs_of("a", SMALL, BOTH_ENDS), "nominal")

    table = tabled(conditions)

    assert table.counts.shape == (32, STEPS + 1)
    assert table.counts.sum() == conditions.runs.sum() == 10
    assert table.active.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_only_a_pair_that_was_seen_to_learn_and_to_fail_counts_as_bounded():
    learned, failed = dict.fromkeys(BOTH_ENDS, 1.0), dict.fromkeys(BOTH_ENDS, 0.0)
    runs = [
        *runs_of("a", SMALL, BOTH_ENDS),
        *runs_of("a", LARGE, learned),
        *runs_of("b", SMALL, failed),
        *runs_of("b", LARGE, BOTH_ENDS),
    ]

    table = tabled(conditions_of(runs, "nominal"))

    assert table.bounded[:2, :2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert not tabled(conditions_of(runs_of("a", SMALL, BOTH_ENDS), "nominal")).bounded.any()


def test_where_notions_are_mixed_stored_bits_count_as_the_same_share_of_the_bandwidth():
    stored = runs_of("b", SMALL, BOTH_ENDS, notion="storage", parameters=10_000)
    mixed = conditions_of(runs_of("a", SMALL, BOTH_ENDS, parameters=10_000) + stored, "nominal")
    apart = math.log2(3.6 * 10_000 / (4 * 8 * 32))

    assert mixed.notions == ("context", "storage")
    np.testing.assert_allclose(mixed.log2_offset, [0.0, apart])
    np.testing.assert_allclose(mixed.middles(), [3.0, 3.0 - apart])
    assert conditions_of(stored, "storage").log2_offset.tolist() == [0.0]
    unknown = conditions_of(runs_of("a", SMALL, BOTH_ENDS) + runs_of("b", SMALL, BOTH_ENDS), "nominal")
    assert unknown.log2_offset.tolist() == [0.0, 0.0]


def test_a_stored_family_keeps_its_capacity_in_bits():
    stored = runs_of("b", SMALL, BOTH_ENDS, notion="storage", parameters=10_000)
    runs = runs_of("a", SMALL, BOTH_ENDS, parameters=10_000) + stored
    offset = conditions_of(runs, "nominal").log2_offset[1]

    posterior = posterior_of(runs, "nominal", difficulty=[-offset / 2, offset / 2])

    for family in (0, 1):
        assert readoff.family_capacity(posterior, 0, 0, family).median == pytest.approx(8.0)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_difficulties_sum_to_zero(count):
    basis = zero_sum_basis(count, 8)

    np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)
    assert np.linalg.matrix_rank(basis) == count - 1
    assert not basis[count:].any()


def test_every_fold_leaves_out_some_levels_of_each_family_and_all_are_left_out_once():
    conditions = conditions_of(runs_of("a", SMALL, BOTH_ENDS) + runs_of("b", SMALL, BOTH_ENDS), "nominal")

    fold = dealt(conditions, 3)

    for family in (0, 1):
        assert sorted(fold[conditions.family == family].tolist()) == [0, 0, 1, 1, 2]


# ── fits ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def found():
    """One world and its fit."""
    world = draw_world("outlier family", seed=4)
    return world, fit(world.observations)


def test_known_capacities_are_found_again(found):
    world, posterior = found

    held = [
        interval.low is None or interval.high is None or interval.low <= 2**truth <= interval.high
        for place, truth in enumerate(world.log2_capacity.mean(axis=1))
        for interval in [readoff.model_capacity(posterior, place, 0)]
    ]

    # Each of the four holds nine times of ten: fewer than two do once in 270 worlds. The seed is fixed.
    assert sum(held) >= 2


def test_the_interval_of_a_fit_is_narrow(found):
    _, posterior = found

    intervals = [readoff.model_capacity(posterior, place, 0) for place in range(4)]

    assert all(one.low and one.high and math.log2(one.high / one.low) < 1.0 for one in intervals)


def test_the_outlier_is_the_hardest_family(found):
    _, posterior = found

    assert int(np.argmax(np.median(posterior.draws["difficulty"], axis=0))) == 0
    np.testing.assert_allclose(posterior.draws["difficulty"].sum(axis=1), 0.0, atol=1e-9)


def test_a_family_and_a_model_that_were_not_seen_are_predicted_with_a_wider_curve(found):
    _, posterior = found

    seen, new_model, new_family = (
        float(np.std(posterior.curve(*where).half_skill())) for where in ((0, 0), (None, 0), (0, None))
    )

    assert seen < new_model < new_family


def test_a_kept_posterior_is_read_and_not_made_again(found, tmp_path, monkeypatch):
    world, posterior = found
    conditions, effort, excluded = prepared(world.observations, "nominal")
    name = kept.identity(conditions, effort, Settings())
    kept.save(posterior, tmp_path, name)
    monkeypatch.setattr(kept, "fit_conditions", lambda *_: made.append(1) or posterior)
    made = []

    again = kept.posterior_of(conditions, effort, Settings(), excluded, tmp_path)
    assert made == []
    kept.posterior_of(conditions, effort, Settings(), excluded, tmp_path, force=True)
    kept.posterior_of(conditions, effort, Settings(seed=1), excluded, tmp_path)

    assert made == [1, 1]
    np.testing.assert_array_equal(again.draws["slope"], posterior.draws["slope"])
    assert readoff.summary(again) == readoff.summary(posterior)


def test_half_a_kept_posterior_is_none(found, tmp_path):
    kept.save(found[1], tmp_path, "one")
    (tmp_path / "one.npz").write_bytes(b"half")

    assert kept.load(tmp_path, "one") is None
    assert kept.load(tmp_path, "other") is None


@pytest.mark.parametrize(
    "bad", [{"rhat_max": 1.2}, {"ess_min": 20.0}, {"divergences": 40}], ids=lambda bad: next(iter(bad))
)
def test_each_diagnostic_alone_makes_a_fit_untrusted(bad):
    assert WELL.trusted
    assert not dataclasses.replace(WELL, **bad).trusted


def test_nothing_to_fit_is_told():
    with pytest.raises(BadInput, match=r"no run is left to fit \(3 no score\)"):
        prepared(Observations((), {"no score": 3}), "nominal")
    with pytest.raises(BadInput, match="choose one of"):
        Settings(scatter="normal")
    with pytest.raises(BadInput, match="choose one of"):
        Settings(rival="linear")


# ── worlds ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_is_the_same_for_the_same_seed(kind):
    one, same, other = draw_world(kind, 3), draw_world(kind, 3), draw_world(kind, 4)

    assert one.observations == same.observations
    assert one.observations != other.observations
    assert {run.task for run in one.observations.runs} == set(one.families)


def test_without_chance_a_run_that_guesses_seems_to_have_skill():
    told, broken = (draw_world("steep", 1, told_chance=told) for told in (True, False))

    gained = [
        seen.skill - run.skill
        for run, seen in zip(told.observations.runs, broken.observations.runs, strict=True)
    ]
    assert min(gained) > -1e-9
    assert max(gained) > 0.2


def test_worlds_from_the_prior_are_as_wide_as_the_prior():
    typical = [draw_prior_world(seed).log2_capacity.mean() for seed in range(200)]

    # 8 ± 3: the mean of 200 strays by 0.25 and lies outside ± 1 once in ten thousand seeds.
    assert abs(np.mean(typical) - 8) < 1
    assert 2 < np.std(typical) < 5
