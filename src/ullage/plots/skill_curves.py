"""Skill against demand: every run, the fitted curve with its band, and the boundary."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ullage import chart
from ullage.boundary import STEPS
from ullage.material import Learner, Material, unit
from ullage.plot import Plot, Rows, grouped, span
from ullage.posterior import Posterior
from ullage.readoff import families_of, family_capacity, quantiles, tried

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 49  # of a curve
BEYOND = 0.6  # log2 bits: how far a curve goes on beyond what was tried
DODGE = 0.012  # of the width: runs that came out alike stand side by side
ABREAST = 7  # runs side by side at most; more stand closer


class SkillCurves(Plot):
    """A panel for each learner and family."""

    section = "boundaries"
    title = "Skill against demand"
    columns = (
        "model",
        "technique",
        "family",
        "unit",
        "kind",
        "demand_bits",
        "skill",
        "low",
        "high",
        "runs",
        "trusted",
    )

    def data(self, material: Material) -> Rows:
        """Rows of three kinds: `run` (with a count of those alike), `curve`, and `boundary` in bits."""
        return [row for learner in material.learners for row in _learner_rows(material, learner)]

    def caption(self, rows: Rows) -> str:
        shares = [row for row in rows if row["kind"] == "boundary"]
        bounded = sum(row["low"] is not None and row["high"] is not None for row in shares)
        told = (
            "Each circle is one training on a fresh seed, read in twentieths; those that came out alike "
            "stand side by side. The line is the skill to expect, its band holds it with 90 %. The bar on "
            "the half is the boundary C with its 90 % interval; it ends in an arrow where the runs do not "
            f"bound it. {bounded} of {len(shares)} boundaries are bounded on both sides."
        )
        doubtful = any(not row["trusted"] for row in rows)
        return f"{told} Dashed: the sampler did not settle." if doubtful else told

    def panels(self, rows: Rows) -> Mapping[str, Rows]:
        groups = grouped(rows, "model", "family")
        several = len({model for model, _ in groups}) > 1
        return {
            f"{family} · {model}" if several else str(family): part
            for (model, family), part in groups.items()
        }

    def first(self, rows: Rows) -> int:
        """Those of the learner that the report is about."""
        return len({row["family"] for row in rows if row["model"] == rows[0]["model"]})

    def draw(self, axes: "Axes", rows: Rows) -> None:
        kinds = grouped(rows, "kind")
        curve, runs = kinds.get(("curve",), []), kinds.get(("run",), [])
        ends = span([row["demand_bits"] for row in [*curve, *runs]], 1.02)
        chart.logarithmic(axes, *ends)
        chart.skill_axis(axes)
        axes.set(xlabel=f"demand, {rows[0]['unit']}", ylabel="skill")
        trusted = all(row["trusted"] for row in rows)
        demands = [row["demand_bits"] for row in curve]
        if curve:
            axes.fill_between(
                demands,
                [row["low"] for row in curve],
                [row["high"] for row in curve],
                color=chart.BLUE,
                alpha=0.16,
                linewidth=0,
            )
            skills = [row["skill"] for row in curve]
            axes.plot(demands, skills, color=chart.BLUE, linestyle="-" if trusted else (0, (3, 2)))
        for row in kinds.get(("boundary",), []):
            chart.whisker(axes, {**row, "median": row["demand_bits"]}, 0.5, ends, chart.RED)
        _draw_runs(axes, runs, ends)


def _draw_runs(axes: "Axes", runs: Rows, ends: tuple[float, float]) -> None:
    width = math.log(ends[1] / ends[0])
    places: list[float] = []
    heights: list[float] = []
    for row in runs:
        step = DODGE * width * min(1.0, ABREAST / row["runs"])
        offsets = step * (np.arange(row["runs"]) - (row["runs"] - 1) / 2)
        places += (row["demand_bits"] * np.exp(offsets)).tolist()
        heights += [row["skill"]] * row["runs"]
    axes.plot(
        places,
        heights,
        "o",
        markersize=3.4,
        markerfacecolor="none",
        markeredgecolor=chart.INK,
        markeredgewidth=0.6,
    )


def _learner_rows(material: Material, learner: Learner) -> Iterator[dict[str, Any]]:
    posterior = material.posterior
    assert posterior is not None
    for family in families_of(posterior.conditions, learner.model, learner.technique):
        name = posterior.conditions.families[family]
        common = {
            "model": learner.name,
            "technique": learner.technique_name,
            "family": name,
            "unit": unit(material, name),
            "trusted": material.trusted,
        }
        for row in (
            *_run_rows(posterior, learner, family),
            *_curve_rows(posterior, learner, family),
            _boundary_row(posterior, learner, family),
        ):
            yield common | {"skill": None, "low": None, "high": None, "runs": None} | row


def _run_rows(posterior: Posterior, learner: Learner, family: int) -> Iterator[dict[str, Any]]:
    conditions = posterior.conditions
    here = (conditions.model == learner.model) & (conditions.technique == learner.technique)
    for place in np.flatnonzero(here & (conditions.family == family)):
        for step in np.flatnonzero(conditions.counts[place]):
            yield {
                "kind": "run",
                "demand_bits": float(conditions.demand_bits[place]),
                "skill": int(step) / STEPS,
                "runs": int(conditions.counts[place, step]),
            }


def _curve_rows(posterior: Posterior, learner: Learner, family: int) -> Iterator[dict[str, Any]]:
    curve = posterior.curve(learner.model, family, learner.technique)
    ends = tried(posterior.conditions, learner.model, learner.technique, family)
    assert ends is not None
    for log2_demand in np.linspace(ends[0] - BEYOND, ends[1] + BEYOND, POINTS):
        found = quantiles(curve.expected_skill(float(log2_demand)))
        yield {
            "kind": "curve",
            "demand_bits": float(2**log2_demand),
            "skill": found.median,
            "low": found.low,
            "high": found.high,
        }


def _boundary_row(posterior: Posterior, learner: Learner, family: int) -> dict[str, Any]:
    found = family_capacity(posterior, learner.model, learner.technique, family)
    return {
        "kind": "boundary",
        "demand_bits": found.median,
        "skill": 0.5,
        "low": found.low,
        "high": found.high,
    }
