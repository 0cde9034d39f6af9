"""Calibration: right predictions pass, too sure and shuffled ones do not, and every run is held out once."""

import dataclasses

import numpy as np
import pytest
from hand_made import NANO, counts_of, posterior_of, shuffled, simulated

from ullage.calibration import (
    SCHEMES,
    by_families,
    calibrate,
    covered,
    folds_of,
    held_out,
    parts_of,
    reliability,
    scores_of,
)
from ullage.capacity import DEFAULT_SETTINGS
from ullage.errors import BadInput
from ullage.posterior import Diagnostics

KEYS = ["scheme", "n", "log_score", "brier", "coverage_90", "baselines", "reliability"]


def right(conditions, settings):
    """A fit that finds the truth."""
    return posterior_of(conditions, settings=settings)


def blind(conditions, settings):
    """A fit that takes every family for the typical one, unless it is asked for the real model."""
    found = posterior_of(conditions, settings=settings)
    if settings.rival == "hierarchical":
        return found
    alike = {**found.draws, "difficulty": 0.0 * found.draws["difficulty"]}
    return dataclasses.replace(found, rival="hierarchical", draws=alike)


def calibrated(conditions, scheme="level", fit=right, rivals=()):
    return calibrate(conditions, scheme, rivals=rivals, fit=fit)


# ── what is held out ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", ["level", "family"])
def test_every_condition_is_held_out_once(scheme):
    conditions = simulated()

    assert (np.sum(folds_of(conditions, scheme), axis=0) == 1).all()


def test_a_fold_of_levels_leaves_one_level_of_each_family_out_on_all_models():
    conditions = simulated()

    for fold in folds_of(conditions, "level"):
        left_out = {*zip(conditions.family[fold], conditions.level[fold], strict=True)}
        assert len(left_out) == len(conditions.families)
        assert fold.sum() == len(left_out) * len(conditions.models)


def test_the_largest_model_is_left_out():
    conditions = simulated()
    (fold,) = folds_of(conditions, "model")

    assert {conditions.models[at].model_id for at in conditions.model[fold]} == {"small"}


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_a_fit_sees_no_run_that_it_predicts(scheme):
    conditions, seen = simulated(), []

    def spying(table, settings):
        seen.append(table.runs)
        return right(table, settings)

    calibrated(conditions, scheme, spying)

    for runs, fold in zip(seen, folds_of(conditions, scheme), strict=True):
        assert runs[fold].sum() == 0
        assert (runs[~fold] == conditions.runs[~fold]).all()


@pytest.mark.parametrize(
    ("conditions", "scheme", "told"),
    [
        (simulated(), "seed", "there is no scheme 'seed'"),
        (simulated(models=(NANO,)), "model", "two models"),
        (simulated(capacities={"parity": 3.0}), "family", "two families"),
    ],
)
def test_what_cannot_be_held_out_is_told(conditions, scheme, told):
    with pytest.raises(BadInput, match=told):
        folds_of(conditions, scheme)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────


def test_scores_are_what_they_are_by_hand():
    chances = np.zeros((1, 21))
    chances[0, 0], chances[0, 20] = 0.25, 0.75
    counts = counts_of([1.0, 1.0, 0.0])
    found = scores_of(counts, parts_of(counts, chances))
    logs = (2 * np.log(0.75) + np.log(0.25)) / 3

    assert found.log_score.value == pytest.approx(logs)
    assert found.learned_log_score.value == pytest.approx(logs)
    assert found.brier.value == pytest.approx((2 * 0.25**2 + 0.75**2) / 3)


def test_coverage_of_a_right_forecast_is_nine_tenths_however_coarse_it_is():
    random = np.random.default_rng(0)
    for concentration in (0.05, 0.3, 3.0, 300.0):
        chances = random.dirichlet(np.full(21, concentration), size=50)

        assert (chances * covered(chances)).sum(axis=1) == pytest.approx(np.full(50, 0.9))


def test_right_predictions_are_covered_and_ahead_of_those_that_know_no_family():
    # 168 runs in 42 conditions: a right forecast strays from 0.9 by 0.023, so this fails once in 10 000.
    found = calibrated(simulated(seed=3), fit=blind, rivals=("pooled",))
    ahead = found.ahead["pooled"]["log_score"]

    assert found.runs == 168
    assert found.conditions == 42
    assert 0.81 < found.scores.coverage_90.value < 0.98
    assert ahead.value > 2 * ahead.standard_error > 0


def unsure(conditions, settings):
    """A fit that takes families to be as hard as they are, or far harder; a rival unsure of each run."""
    found = posterior_of(conditions, settings=settings)
    stray = np.where(np.arange(found.count) % 2, 4.0, 0.0)[:, None]
    difficulty = found.draws["difficulty"]
    if settings.rival == "hierarchical":
        return dataclasses.replace(found, draws={**found.draws, "difficulty": difficulty + stray})
    shallow = {**found.draws, "slope": 0.3 * found.draws["slope"]}
    return dataclasses.replace(found, rival="hierarchical", draws=shallow)


def test_runs_of_a_fold_are_scored_together_as_the_mean_over_draws_of_their_product():
    conditions = simulated(seed=3)
    folds = folds_of(conditions, "family")
    posterior = unsure(conditions, DEFAULT_SETTINGS)

    found = held_out(conditions, folds, DEFAULT_SETTINGS, unsure)

    for fold, together in zip(folds, found.together, strict=True):
        products = np.zeros(posterior.count)
        for place in np.flatnonzero(fold):
            curve = posterior.curve(int(conditions.model[place]), int(conditions.family[place]))
            chances = curve.chances(conditions.log2_demand[place])
            for skill in np.flatnonzero(conditions.counts[place]):
                products += conditions.counts[place, skill] * np.log(chances[:, skill])
        largest = products.max()
        assert together == pytest.approx(largest + np.log(np.exp(products - largest).mean()))


def test_who_knows_that_runs_of_a_family_share_their_fate_is_ahead_where_they_are_scored_together():
    found = calibrated(simulated(seed=3), "family", fit=unsure, rivals=("pooled",))

    assert found.together_ahead["pooled"].value > max(found.ahead["pooled"]["log_score"].value, 0)
    assert list(found.together) == ["hierarchical", "pooled"]


def test_shuffled_outcomes_are_predicted_worse_and_covered_less():
    conditions = simulated(seed=3)
    right_order, wrong_order = calibrated(conditions), calibrated(shuffled(conditions))

    assert wrong_order.scores.log_score.value < right_order.scores.log_score.value - 0.5
    assert wrong_order.scores.brier.value > right_order.scores.brier.value + 0.1
    assert wrong_order.scores.coverage_90.value < 0.75


def test_a_posterior_that_is_too_sure_fails_its_coverage():
    # Each condition's own boundary strays by one log2 bit, of which the posterior knows nothing, or all.
    conditions = simulated(seed=3, stray=1.0)
    too_sure = calibrated(conditions, fit=lambda table, settings: posterior_of(table, spread=0.05))
    honest = calibrated(conditions, fit=lambda table, settings: posterior_of(table, spread=1.0))

    assert too_sure.scores.coverage_90.value < 0.78 < honest.scores.coverage_90.value
    assert too_sure.scores.log_score.value < honest.scores.log_score.value


def test_few_questions_are_no_surprise_to_a_right_prediction():
    # Graded on 20 questions with a floor of one half, skills are read a fifth off: the same forecast that
    # does not know this is caught out by runs that guess well.
    conditions, random = simulated(seed=3), np.random.default_rng(0)
    floor, questions = 0.5 * np.ones(len(conditions)), 20.0 * np.ones(len(conditions))
    reading = dataclasses.replace(conditions, floor=floor, questions=questions)
    counts = np.zeros_like(conditions.counts)
    for place, true in zip(*np.nonzero(conditions.counts), strict=True):
        chances = reading.misread(int(place))[true]
        counts[place] += random.multinomial(conditions.counts[place, true], chances / chances.sum())
    knows, does_not = (dataclasses.replace(table, counts=counts) for table in (reading, conditions))
    knowing, ignorant = calibrated(knows).scores, calibrated(does_not).scores

    assert 0.81 < knowing.coverage_90.value < 0.98
    assert knowing.log_score.value > ignorant.log_score.value


def test_runs_of_one_condition_that_are_alike_do_not_make_the_score_look_surer():
    chances = np.random.default_rng(0).dirichlet(np.ones(21), size=10)
    counts = np.concatenate([counts_of([step / 10]) for step in range(10)])
    once, often = (scores_of(many, parts_of(many, chances)).log_score for many in (counts, 7 * counts))

    assert often.value == pytest.approx(once.value)
    assert often.standard_error == pytest.approx(once.standard_error)


def test_the_reliability_table_counts_every_run_once_and_compares_what_was_said_with_what_came():
    chances = np.zeros((4, 21))
    chances[:, 20] = (0.1, 0.15, 0.9, 1.0)
    chances[:, 0] = 1 - chances[:, 20]
    counts = np.concatenate([counts_of([0.0] * 9 + [1.0]), counts_of([0.0]), *[counts_of([1.0] * 2)] * 2])
    low, high = reliability(counts, chances)

    assert (low["runs"], low["learned"]) == (11, pytest.approx(1 / 11))
    assert low["predicted"] == pytest.approx((10 * 0.1 + 0.15) / 11)
    assert (high["low"], high["high"], high["runs"], high["learned"]) == (0.8, 1.0, 4, 1.0)


def test_the_document_has_the_promised_keys_and_no_other():
    document = calibrated(simulated(), fit=blind, rivals=("pooled", "independent")).to_json()

    assert list(document) == KEYS
    assert list(document["baselines"]) == ["pooled", "independent"]
    assert document["n"] == sum(row["runs"] for row in document["reliability"])


def test_fits_that_cannot_be_trusted_are_counted_and_every_fit_is_told():
    told = []
    doubtful = Diagnostics(rhat_max=2.0, ess_min=3.0, divergences=0, draws=400)
    calibration = calibrate(
        simulated(),
        "family",
        rivals=("pooled",),
        fit=lambda table, settings: dataclasses.replace(right(table, settings), diagnostics=doubtful),
        told=lambda done, count, what: told.append((done, count, what)),
    )

    assert calibration.untrusted == calibration.folds == 3
    assert told == [(n, 6, "hierarchical" if n <= 3 else "pooled") for n in range(1, 7)]


# ── what other families are worth ─────────────────────────────────────────────────────────────────


def test_each_family_is_predicted_from_so_many_others_and_never_from_itself():
    conditions, seen = simulated(), []

    def spying(table, settings):
        seen.append({table.families[at] for at in table.family[table.runs > 0]})
        return right(table, settings)

    found = by_families(conditions, fit=spying)

    assert [len(families) for families in seen] == [1, 1, 1, 2, 2, 2]
    assert sorted(found) == [1, 2]
    assert {frozenset({*conditions.families} - families) for families in seen[3:]} == {
        frozenset({name}) for name in conditions.families
    }


def test_one_family_calibrates_nothing():
    with pytest.raises(BadInput, match="1 family"):
        by_families(simulated(capacities={"parity": 3.0}), fit=right)
