"""The boundary of one family: recovered from simulated runs, one-sided where the runs are."""

import math

import numpy as np
import pytest

from ullage.boundary import (
    STEPS,
    UNKNOWN,
    Interval,
    fit,
    is_monotone,
    log_beta_binomial,
    typical,
)

WORLDS = 200
LEVELS = 2.0 ** np.arange(1, 9)


def simulate(generator, *, seeds=3, questions=None):
    """Runs of a family with a random boundary, slope, lapse and spread; and its true log2 C."""
    centre, slope = generator.uniform(2.0, 7.0), 2 ** generator.uniform(0.5, 5.0)
    lapse, concentration = generator.choice([0.0, 0.0, 0.1]), 10 ** generator.uniform(-0.7, 1.3)
    runs = []
    for demand in LEVELS:
        expected = (1 - lapse) / (1 + math.exp(-min(max(slope * (centre - math.log2(demand)), -40), 40)))
        expected = min(max(expected, 0.001), 0.999)
        for _ in range(seeds):
            skill = generator.beta(expected * concentration, (1 - expected) * concentration)
            # The negative control: each of a run's questions passes for a run of its own.
            copies = generator.binomial(1, skill, questions) if questions else [skill]
            runs += [(float(demand), float(value)) for value in copies]
    odds = 0.5 / (1 - lapse)
    return runs, centre - (math.log(odds / (1 - odds)) / slope if lapse else 0.0)


def covers(interval, truth):
    low = -math.inf if interval.low is None else math.log2(interval.low)
    high = math.inf if interval.high is None else math.log2(interval.high)
    return low <= truth <= high


def coverage(worlds, **how):
    generator = np.random.default_rng(7)
    simulated = [simulate(generator, **how) for _ in range(worlds)]
    return np.mean([covers(fit(runs).interval(), truth) for runs, truth in simulated])


def test_interval_covers_the_truth_nine_times_of_ten():
    # 90 % of 200 worlds is 180 ± 4.2: the band is wider than four standard errors on either side.
    assert 0.80 <= coverage(WORLDS) <= 0.99


def test_questions_that_pass_for_runs_make_the_interval_far_too_sure():
    assert coverage(WORLDS // 4, questions=100) < 0.7


def test_the_scatter_of_runs_sums_to_one():
    means, concentrations = np.array([0.005, 0.5, 0.995]), np.array([0.3, 0.3, 30.0])

    chances = [np.exp(log_beta_binomial(means, concentrations, step)) for step in range(STEPS + 1)]

    np.testing.assert_allclose(np.sum(chances, axis=0), 1.0, atol=1e-8)


def test_all_levels_learned_gives_no_upper_end():
    found = fit([(float(demand), 1.0) for demand in LEVELS for _ in range(3)]).interval()

    assert found.high is None
    assert found.median is None
    assert found.low is not None
    assert 64 <= found.low <= 256


def test_no_level_learned_gives_no_lower_end():
    found = fit([(float(demand), 0.0) for demand in LEVELS for _ in range(3)]).interval()

    assert (found.low, found.median) == (None, None)
    assert found.high is not None
    assert 2 <= found.high <= 8


def test_more_seeds_narrow_the_interval():
    def width(seeds):
        found = fit([(float(b), float(b < 20)) for b in LEVELS for _ in range(seeds)]).interval()
        assert found.low is not None
        assert found.high is not None
        return math.log2(found.high / found.low)

    assert width(12) < width(2)


def test_one_lucky_run_does_not_move_the_boundary_to_it():
    runs = [(float(b), float(b < 20)) for b in LEVELS for _ in range(3)]
    lucky = [*runs[:-1], (runs[-1][0], 1.0)]

    moved, plain = fit(lucky).interval(), fit(runs).interval()

    assert moved.median is not None
    assert plain.median is not None
    assert abs(math.log2(moved.median / plain.median)) < 1.0


def test_skills_outside_zero_to_one_count_as_the_ends():
    inside = fit([(2.0, 1.0), (4.0, 0.0)]).interval()

    assert fit([(2.0, 1.02), (4.0, -0.4)]).interval() == inside


def test_the_typical_family_is_the_average_of_logarithms():
    low = fit([(b, float(b < 6)) for b in LEVELS for _ in range(6)])
    high = fit([(b, float(b < 100)) for b in LEVELS for _ in range(6)])
    middle = typical([low, high])

    ends = [low.interval().median, high.interval().median]

    assert middle.median == pytest.approx(math.sqrt(ends[0] * ends[1]), rel=0.1)


def test_the_typical_family_has_no_upper_end_where_one_family_has_none():
    solved = fit([(b, 1.0) for b in LEVELS for _ in range(3)])
    half = fit([(b, float(b < 20)) for b in LEVELS for _ in range(3)])

    found = typical([solved, half])

    assert (found.median, found.high) == (None, None)
    assert found.low is not None


def test_no_family_has_no_capacity():
    assert typical([]) == UNKNOWN == Interval(None, None, None)


@pytest.mark.parametrize(
    ("skills", "expected"),
    [
        ([1, 1, 0], True),
        ([1, 0, 1], False),
        ([0, 0, 1], False),
        ([1, 0.6, 1], True),
        ([0, 0, 0], True),
        ([1, 1], True),
        ([], True),
    ],
)
def test_levels_that_fail_below_learned_ones_are_not_one_boundary(skills, expected):
    runs = [(2.0**place, float(skill)) for place, skill in enumerate(skills) for _ in range(4)]

    assert is_monotone(runs) == expected


def test_one_failed_run_below_the_boundary_is_no_hole():
    runs = [(4.0, 1.0), (8.0, 1.0), (16.0, 1.0), (32.0, 0.0)] * 3

    assert is_monotone([*runs, (4.0, 0.0)])
