"""Plots: what they show of tables made by hand, and that drawing takes whatever it is given."""

import csv
import dataclasses
import io
import re

import matplotlib as mpl
import numpy as np
import pytest
from hand_made import NANO, SMALL, SOUND, posterior_of
from matplotlib.figure import Figure
from report_worlds import DOUBTFUL, HOSTILE, curve, material, record, world

import ullage
from ullage import chart
from ullage.boundary import Interval
from ullage.material import Material
from ullage.plot import csv_text, every_plot, span
from ullage.readoff import quantiles

PLOTS = every_plot()
EVERY_PLOT = pytest.mark.parametrize("name", PLOTS)


def full_material():
    """A world in which every plot has something to show."""
    finals = world()
    searched = [
        record(
            f"trial {number}",
            finals[0].task,
            finals[0].level,
            0.1 * number,
            phase="search",
            study=finals[0].study,
            status=status,
        )
        for number, status in enumerate(["finished"] * 9 + ["pruned"])
    ]
    late = dataclasses.replace(finals[1], late_generalisation_steps=300)
    records = [finals[0], late, *finals[2:], *searched]
    found = material(
        records,
        curves=curve(finals[0].run_id) + curve(finals[-1].run_id),
        importances=tuple(
            {"family": "parity", "knob": f"knob {n}", "share": 0.5, "trials": 10} for n in "ab"
        ),
    )
    return with_technique(found)


def with_technique(found):
    """The same material, in which a technique doubles C."""
    posterior = found.posterior
    conditions = dataclasses.replace(posterior.conditions, techniques=("none", "big"))
    families = len(conditions.families)
    draws = {
        "technique": np.stack([np.zeros(400), np.ones(400)], axis=1),
        "technique_family": np.zeros((400, 2, families)),
    }
    changed = dataclasses.replace(posterior, conditions=conditions, draws={**posterior.draws, **draws})
    return dataclasses.replace(found, posterior=changed)


@pytest.fixture(scope="module")
def full():
    return full_material()


@pytest.fixture(scope="module")
def rows_of(full):
    return {name: plot.data(full) for name, plot in PLOTS.items()}


# ── what holds for every plot ─────────────────────────────────────────────────────────────────────


@EVERY_PLOT
def test_a_plot_has_rows_with_the_columns_that_it_names(name, rows_of):
    assert rows_of[name]
    assert {tuple(sorted(row)) for row in rows_of[name]} == {tuple(sorted(PLOTS[name].columns))}


@EVERY_PLOT
def test_drawing_takes_no_row_one_row_and_very_many(name, rows_of):
    rows = rows_of[name]
    huge = [row for row in rows for _ in range(500 // len(rows) + 1)]

    for some in ([], [rows[0]], rows, huge):
        figure = PLOTS[name](some)
        assert isinstance(figure, Figure)
        assert chart.markup(figure, "x", "title").startswith("<svg")


@EVERY_PLOT
def test_the_csv_holds_what_is_drawn(name, rows_of):
    read = list(csv.DictReader(io.StringIO(csv_text(PLOTS[name], rows_of[name]))))

    assert len(read) == len(rows_of[name])
    assert list(read[0]) == list(PLOTS[name].columns)
    assert read[0] == {
        key: "" if rows_of[name][0][key] is None else str(rows_of[name][0][key]) for key in read[0]
    }


@EVERY_PLOT
def test_a_caption_is_a_sentence_with_a_point_at_its_end(name, rows_of):
    caption = PLOTS[name].caption(rows_of[name])

    assert caption[0].isupper() or caption[0].isdigit()
    assert caption.endswith((".", "*"))


@EVERY_PLOT
def test_nothing_to_show_gives_no_rows(name):
    assert list(PLOTS[name].data(Material())) == []


@EVERY_PLOT
def test_a_plot_stands_in_the_package_under_its_own_name(name, rows_of):
    figure = getattr(ullage.plots, name)(rows_of[name])

    assert isinstance(figure, Figure)
    assert type(getattr(ullage.plots, name)) is type(PLOTS[name])


def test_a_name_that_is_no_plot_is_told_with_those_that_are():
    with pytest.raises(AttributeError, match="skill_curves"):
        ullage.plots.pie_chart  # noqa: B018 - the question is whether it is there


# ── skill against demand ──────────────────────────────────────────────────────────────────────────


def test_every_run_is_a_dot(full, rows_of):
    drawn = sum(row["runs"] for row in rows_of["skill_curves"] if row["kind"] == "run")

    assert drawn == full.posterior.conditions.runs.sum() == len(world())


def test_the_curve_is_that_of_the_posterior(full, rows_of):
    rows = [row for row in rows_of["skill_curves"] if row["kind"] == "curve" and row["family"] == "parity"]
    nano = [row for row in rows if row["model"] == "nano"]
    family = full.posterior.conditions.families.index("parity")
    expected = [
        quantiles(full.posterior.curve(0, family).expected_skill(float(np.log2(row["demand_bits"]))))
        for row in nano
    ]

    assert len(nano) > 20
    assert [Interval(row["skill"], row["low"], row["high"]) for row in nano] == expected


def test_a_boundary_beyond_what_was_tried_has_no_end():
    easy = [one for one in world({"parity": 3.0}, (NANO,)) if one.demand_bits <= 4.0]
    found = material(easy)
    draws = {**found.posterior.draws, "difficulty": np.full((400, 1), -9.0)}
    far = dataclasses.replace(found, posterior=dataclasses.replace(found.posterior, draws=draws))

    (row,) = [row for row in PLOTS["skill_curves"].data(far) if row["kind"] == "boundary"]

    assert (row["demand_bits"], row["high"]) == (None, None)
    assert row["low"] == 4.0
    assert "0 of 1 boundaries" in PLOTS["skill_curves"].caption(PLOTS["skill_curves"].data(far))


def test_what_cannot_be_trusted_is_dashed_and_what_is_open_ends_in_an_arrow():
    def lines(row):
        with chart.style():
            axes = Figure().subplots()
            chart.whisker(axes, row, 0.0, (1.0, 10.0))
            return axes.lines

    sure = lines({"median": 3.0, "low": 2.0, "high": 4.0, "trusted": True})
    doubtful = lines({"median": 3.0, "low": 2.0, "high": 4.0, "trusted": False})
    half_open = lines({"median": 3.0, "low": 2.0, "high": None, "trusted": True})

    assert (sure[0].get_linestyle(), doubtful[0].get_linestyle()) == ("-", "--")
    assert [line.get_marker() for line in half_open if line.get_marker() in "<>"] == [">"]
    assert sure[-1].get_markerfacecolor() != half_open[-1].get_markerfacecolor() == chart.PAPER


@pytest.mark.parametrize("ends", [(256.0, 8192.0), (-4.0, 4.0)])
def test_the_words_for_an_interval_without_ends_stay_clear_of_the_names(ends):
    with chart.style():
        axes = Figure(layout="constrained").subplots()
        chart.rows_axis(axes, ["a model with a long name"])
        axes.set_xlim(*ends)
        chart.whisker(axes, {"median": None, "low": None, "high": None}, 0.0, ends)
        axes.figure.draw_without_rendering()
        (words,) = axes.texts
        (name,) = axes.get_yticklabels()

        assert words.get_text() == "not bounded"
        assert words.get_window_extent().x0 > name.get_window_extent().x1


def test_captions_say_what_is_not_trusted():
    rows = PLOTS["skill_curves"].data(material(diagnostics=DOUBTFUL))

    assert {row["trusted"] for row in rows} == {False}
    assert "did not settle" in PLOTS["skill_curves"].caption(rows)


# ── the other figures ─────────────────────────────────────────────────────────────────────────────


def test_difficulties_are_those_of_the_fit_hardest_first(full, rows_of):
    rows = rows_of["family_difficulty"]

    assert [row["median"] for row in rows] == sorted((row["median"] for row in rows), reverse=True)
    assert {row["family"]: row["median"] for row in rows} == {
        name: task["difficulty"]["median"] for name, task in full.document["tasks"].items()
    }


def test_one_family_has_no_difficulty_to_compare():
    assert PLOTS["family_difficulty"].data(material(world({"parity": 3.0}))) == []


def test_a_budget_is_what_the_model_offers_and_only_its_own_notion_is_held_against_it(rows_of):
    rows = rows_of["budget_headroom"]

    assert {(row["notion"], row["budget"]) for row in rows} == {("input", "bandwidth")}
    assert {row["model_id"]: row["budget_bits"] for row in rows} == {
        "nano": NANO.bandwidth_bits,
        "small": SMALL.bandwidth_bits,
    }


def test_a_multiplier_of_two_is_shown_as_two(rows_of):
    (row,) = rows_of["multiplier_forest"]

    assert row["technique"] == "big"
    assert row["median"] == pytest.approx(2.0)
    assert "one of 1 surely" in PLOTS["multiplier_forest"].caption([row])


def test_optimism_compares_the_winner_in_its_search_with_the_same_on_fresh_seeds(rows_of):
    (row,) = rows_of["search_optimism"]
    finals = [one for one in world() if (one.task, one.level, one.model_id) == ("copy", row["level"], "nano")]

    assert row["searched"] == pytest.approx(0.9)
    assert row["judged"] == pytest.approx(np.mean([one.skill for one in finals]))
    assert (row["trials"], row["runs"]) == (10, 3)


def test_learning_is_drawn_in_skill_and_by_split(rows_of):
    rows = [row for row in rows_of["learning_curves"] if row["quantity"] == "skill"]

    assert {row["split"] for row in rows} == {"train", "validation"}
    assert sorted({row["value"] for row in rows}) == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert {row["quantity"] for row in rows_of["learning_curves"]} == {
        "skill",
        "cross_entropy_bits",
        "entropy_bits",
    }


def test_a_skill_below_chance_is_not_cut_off(rows_of):
    row = next(row for row in rows_of["learning_curves"] if row["quantity"] == "skill")
    figure = PLOTS["learning_curves"]([{**row, "value": -1.0}, {**row, "step": 999, "value": 1.0}])
    low, high = figure.axes[0].get_ylim()

    assert low < -1.0
    assert high > 1.0


def test_reliability_is_of_held_out_runs_only_where_there_are_such(full):
    held_out = {"reliability": [{"low": 0.0, "high": 0.2, "predicted": 0.1, "learned": 0.2, "runs": 5}]}
    told = dataclasses.replace(full, calibration=held_out)
    plot = PLOTS["calibration_bins"]

    assert {row["held_out"] for row in plot.data(full)} == {False}
    assert "the runs that were fitted" in plot.caption(plot.data(full))
    assert plot.data(told) == [{"held_out": True, **held_out["reliability"][0]}]
    assert sum(row["runs"] for row in plot.data(full)) == full.posterior.conditions.runs.sum()


def test_failures_are_counted_and_pruned_trials_are_none():
    ended = [
        record("a"),
        record("b", status="failed"),
        record("c", status="pruned", phase="search"),
        record("d", status="out_of_memory"),
    ]
    rows = PLOTS["run_outcomes"].data(Material(records=tuple(ended)))

    assert sum(row["runs"] for row in rows) == 4
    assert "2 of 4 runs failed" in PLOTS["run_outcomes"].caption(rows)


def test_costs_add_up():
    runs = [record("a"), record("b"), record("c", phase="search", train_flops=None)]
    rows = PLOTS["training_costs"].data(Material(records=tuple(runs)))

    assert [(row["phase"], row["runs"], row["train_flops"], row["seconds"]) for row in rows] == [
        ("final", 2, 2e9, 4.0),
        ("search", 1, 0.0, 2.0),
    ]


def test_delays_are_shown_where_a_run_was_late():
    early = Material(records=(record("a", late_generalisation_steps=0),))
    late = Material(
        records=(record("a", late_generalisation_steps=0), record("b", late_generalisation_steps=9))
    )

    assert PLOTS["generalisation_delay"].data(early) == []
    assert [row["delay_steps"] for row in PLOTS["generalisation_delay"].data(late)] == [0, 9]


# ── how figures look ──────────────────────────────────────────────────────────────────────────────


def test_a_figure_of_the_page_leaves_colours_and_fonts_to_the_page(rows_of):
    plot = PLOTS["skill_curves"]
    svg = chart.markup(plot(rows_of["skill_curves"]), "x", "t")
    colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))

    assert colours <= {"#000000"}  # of shapes that are drawn in the colour of those who use them
    assert "font-family" not in svg
    assert "var(--blue)" in svg
    assert "<text" in svg


def test_the_parts_of_two_figures_have_different_names(rows_of):
    plot = PLOTS["boundary_forest"]
    ids = [
        set(re.findall(r'\bid="([^"]+)"', chart.markup(plot(rows_of["boundary_forest"]), name, "t")))
        for name in ("one", "two")
    ]

    assert ids[0]
    assert ids[1]
    assert not ids[0] & ids[1]


def test_a_figure_is_the_same_however_often_it_is_made(rows_of):
    plot = PLOTS["family_difficulty"]
    made = [
        [draw(plot(rows_of["family_difficulty"])) for draw in (chart.svg_file, chart.pdf_file)] for _ in "ab"
    ]

    assert made[0] == made[1]


def test_the_users_own_settings_of_matplotlib_do_not_matter_and_are_left_alone(rows_of):
    plot, rows = PLOTS["family_difficulty"], rows_of["family_difficulty"]
    plain = chart.svg_file(plot(rows))
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 30.0}):
        changed = chart.svg_file(plot(rows))
        kept = mpl.rcParams["font.size"]

    assert changed == plain
    assert kept == 30.0


@pytest.mark.parametrize("family", [HOSTILE, "$\\frac{", "零", "a" * 300, ""])
def test_any_name_of_a_family_can_be_drawn(family):
    found = material(world({family: 3.0, "other": 4.0}, (NANO,)))

    for plot in PLOTS.values():
        rows = plot.data(found)
        for title, part in plot.panels(rows).items() if rows else ():
            svg = chart.markup(plot.panel(title, part), "x", title)
            assert "<img" not in svg
            assert "</script" not in svg


def test_lightness_tells_colours_apart_in_grey():
    def lightness(colour):
        return np.dot([int(colour[place : place + 2], 16) for place in (1, 3, 5)], [0.299, 0.587, 0.114])

    told = sorted(map(lightness, (chart.INK, chart.QUIET, chart.RULE, chart.PAPER)))
    looks = {(mark, dash) for _, mark, dash in chart.SERIES}

    assert min(np.diff(told)) > 30
    assert len(looks) == len(chart.SERIES)  # colours of equal lightness differ in shape and dash


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((2.0, 9.0), [2, 3, 4, 5, 6, 8]),
        ((1.0, 1e6), [1, 100, 1e4, 1e6]),
        ((6.2, 11.5), [8, 10]),
        ((3.0, 3.1), [3.0, 3.05, 3.1]),
    ],
)
def test_an_axis_has_round_numbers_and_not_too_many(ends, expected):
    assert chart.ticks(*ends, most=6 if ends[1] < 100 else 4) == expected


def test_a_span_holds_all_numbers_that_there_are():
    assert span([], 2.0) == (0.5, 2.0)
    assert span([4.0, None, 0.0, float("inf")], 2.0) == (2.0, 8.0)


def test_a_posterior_alone_is_enough_for_its_figures():
    found = Material(posterior_of(material().posterior.conditions))

    assert found.posterior.diagnostics == SOUND
    for name in ("skill_curves", "boundary_forest", "family_difficulty", "calibration_bins"):
        assert PLOTS[name].data(found)
