"""Write one self-contained page that shows what a store, a table or the shipped runs say.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> found = report(store=folder / "store", report=folder / "page.html")
>>> found["verdict"], (folder / "page.html").exists()
('Nothing is known yet: no run was made.', True)
"""

import dataclasses
import importlib.metadata
import json
import os
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ullage import __version__
from ullage.calibration import FOLD_SETTINGS, calibrate
from ullage.capacity import DEFAULT_SETTINGS, Settings, prepared
from ullage.errors import BadInput
from ullage.form import form_of
from ullage.importance import importances
from ullage.inquiry import Evidence, gather
from ullage.kept import identity, posterior_of
from ullage.material import Material
from ullage.observations import NOMINAL, NOTIONS, Effort
from ullage.page import figure_files, page, write
from ullage.posterior import Posterior
from ullage.prediction import raised, raising
from ullage.present import counted
from ullage.readoff import half_skill
from ullage.record import CurveRow, RunRecord
from ullage.shapes import plain_shapes, sizes_of
from ullage.shipped import shipped_records
from ullage.store import KEPT, Store, open_store
from ullage.verdict import doubts, headline, shares

LIBRARIES = ("ullage", "jax", "numpyro", "optax", "optuna", "numpy", "matplotlib")
CURVES_A_LEVEL = 4  # runs whose curves are drawn, at the level next to the boundary on either side
PAGE = "ullage-report.html"
Told = Callable[[int, int, str], None]


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the runs of a report are from, and where the fits of them are kept."""

    evidence: Evidence
    records: tuple[RunRecord, ...]
    store: Store | None
    folder: Path
    flags: tuple[str, ...]  # of the command line, that say the same
    asked: tuple[str, ...]  # those of `ullage predict`


ANY = Effort()


@dataclasses.dataclass(frozen=True)
class Wish:
    """What of the runs is to be shown."""

    effort: Effort = ANY
    focus: str | None = None  # the model_id that the page is about
    notions: bool = True
    hold_out: bool = False

    def flags(self) -> tuple[str, ...]:
        """The same for the command line."""
        given = {"--model": self.focus, **_effort_flags(self.effort)}
        told = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        told += ["--calibrate"] if self.hold_out else []
        return tuple(told if self.notions else [*told, "--no-notions"])


def _effort_flags(effort: Effort) -> dict[str, int | None]:
    return {
        "--steps": effort.step_limit,
        "--trials": effort.search_trials,
        "--train-examples": effort.train_examples,
    }


EVERYTHING = Wish()


def report(
    *,
    store: str | Path = "ullage-store",
    runs: str | Path | None = None,
    shipped: bool = False,
    report: str | Path = PAGE,
    figures: str | Path | None = None,
    keep: str | Path | None = None,
    calibrate: bool = False,
    notions: bool = True,
    model: str | None = None,
    steps: int | None = None,
    trials: int | None = None,
    train_examples: int | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    told: Told = lambda done, count, what: None,
) -> dict[str, Any]:
    """Write the page, and with `figures` every figure as SVG, PDF and CSV; return the document of `--json`.

    Fits that are kept are read; the others are made, 20 to 60 seconds each, one for all families and one for
    each notion (unless `notions` is false). `calibrate` holds levels out, too, which takes eight fits more.
    Of several efforts the largest complete one is shown, or that of `steps`, `trials`, `train_examples`.
    """
    source = source_of(Path(store), None if runs is None else Path(runs), keep, shipped=shipped)
    wanted = Effort(steps, trials, train_examples)
    wish = Wish(wanted, model, notions=notions, hold_out=calibrate)
    material = material_of(source, wish, settings, told)
    facts = made(material, (*source.flags, *wish.flags()), Path(report), asked_of(source, material))
    material = dataclasses.replace(material, made=facts)
    size = write(page(material), Path(report))
    written = [] if figures is None else write_figures(material, Path(figures))
    return document_of(material) | {
        "report": str(report),
        "bytes": size,
        "figures": written,
        "source": source.evidence.source,
        "store": str(store),
    }


def report_measured(measured: Mapping[str, Any], file: Path, told: Told) -> dict[str, Any]:
    """The page of what `ullage measure` has just found, from its document: of that model at that effort."""
    spent = {"steps": "step_limit", "trials": "trials", "train_examples": "train_examples"}
    chosen = {argument: measured[name] for argument, name in spent.items()}
    chosen["model"] = measured["model"]["model_id"]
    is_evidence = any(task["levels"] for task in measured["tasks"].values())
    return report(store=measured["store"], report=file, told=told, **(chosen if is_evidence else {}))


def document_of(material: Material) -> dict[str, Any]:
    """What was found, for scripts and for the terminal."""
    learner = material.learners[0] if material.learners else None
    return {
        "verdict": headline(material),
        "doubts": doubts(material),
        "model": None if learner is None else learner.model_id,
        "effort": None if material.effort is None else dataclasses.asdict(material.effort),
        "families": material.document.get("families", []),
        "budgets": [] if learner is None else shares(material, learner),
        "models": material.document.get("models", []),
        "capacity": material.document.get("capacity", []),
        "runs": len(material.records) or material.observations.count,
        "evidence": material.used.count if material.posterior else 0,
        "trusted": material.trusted,
    }


def source_of(store: Path, runs: Path | None, keep: str | Path | None, *, shipped: bool) -> Source:
    """The runs that are asked for."""
    if shipped and runs is not None:
        raise BadInput(f"runs={runs} and --shipped are two answers to one question; give one of them")
    folder = store / KEPT if keep is None else Path(keep)
    if runs is not None:
        flags = ("--runs", str(runs))
        return Source(gather(store, runs)[0], (), None, folder, flags, flags)
    own, package = gather(store, None)
    if shipped:
        return Source(package, shipped_records(), None, folder, ("--shipped",), ())
    opened = open_store(store)
    flags = ("--store", str(store))
    return Source(own, tuple(opened.read().records.values()), opened, folder, flags, flags)


def material_of(
    source: Source,
    wish: Wish = EVERYTHING,
    settings: Settings = DEFAULT_SETTINGS,
    told: Told = lambda done, count, what: None,
) -> Material:
    """Everything that the page is made of."""
    fits = fits_of(source, wish, settings, told)
    focus = wish.focus
    observations = source.evidence.together
    found = Material(
        fits.pop(NOMINAL, None),
        fits,
        observations,
        source.records,
        source=source.evidence.source,
        focus=focus,
    )
    if found.posterior is None:
        return found
    known = [model.model_id for model in found.posterior.conditions.models]
    if focus is not None and focus not in known:
        raise BadInput(f"no run that was fitted is of the model {focus!r}; choose one of {', '.join(known)}")
    families = {name: found.notions.get(name, NOMINAL) for name in found.posterior.conditions.families}
    posteriors = {NOMINAL: found.posterior, **fits}
    return dataclasses.replace(
        found,
        curves=curves_of(found, source.store),
        importances=tuple(importances(found.spent)),
        calibration=calibration_of(found.posterior, source.folder, settings, told, make=wish.hold_out),
        form=form_of(posteriors, families, plain_shapes(source.records), sizes_of(families)),
    )


def fits_of(source: Source, wish: Wish, settings: Settings, told: Told) -> dict[str, Posterior]:
    """The posterior of all families, and of those of each notion, as `ullage predict` has them."""
    observations = source.evidence.together
    if not observations.runs:
        return {}
    wanted = [NOMINAL, *(notion for notion in NOTIONS if wish.notions and raising(observations, notion))]
    fits = {}
    for done, notion in enumerate(wanted, start=1):
        conditions, effort, excluded = prepared(raised(observations, notion), notion, wish.effort)
        fits[notion] = posterior_of(conditions, effort, settings, excluded, source.folder)
        told(done, len(wanted), f"{notion} bits")
    return fits


def asked_of(source: Source, material: Material) -> tuple[str, ...] | None:
    """The flags with which `ullage predict` reads the same runs; None if it would take another effort."""
    if material.posterior is None:
        return source.asked
    _, usual, _ = prepared(source.evidence.together, NOMINAL)
    return source.asked if usual == material.effort else None


def calibration_of(
    posterior: Posterior, folder: Path, settings: Settings, told: Told, *, make: bool
) -> Mapping[str, Any] | None:
    """How well held-out levels were predicted: from the file if it is there, or made if that is asked for."""
    name = identity(posterior.conditions, posterior.effort, settings)
    file = folder / f"{name}-held-out.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    if not make:
        return None
    found = calibrate(posterior.conditions, "level", FOLD_SETTINGS, (), told=told).to_json()
    file.write_text(json.dumps(found), encoding="utf-8")
    return found


def curves_of(material: Material, store: Store | None) -> tuple[CurveRow, ...]:
    """The curves of the final runs nearest to the boundary of each family, on the model of the report."""
    if store is None or material.posterior is None:
        return ()
    learner, posterior = material.learners[0], material.posterior
    chosen: set[str] = set()
    for place, family in enumerate(posterior.conditions.families):
        log2_capacity = sorted(half_skill(posterior, learner.model, learner.technique, place))
        middle = 2 ** log2_capacity[len(log2_capacity) // 2]
        finals = [
            record
            for record in material.spent
            if record.is_evidence
            and (record.task, record.model_id, record.technique)
            == (family, learner.model_id, learner.technique_name)
        ]
        for level in _next_to(middle, {record.level: record.demand_bits or 0.0 for record in finals}):
            same = [record.run_id for record in finals if record.level == level]
            chosen |= set(same[:CURVES_A_LEVEL])
    return tuple(store.curves(chosen)) if chosen else ()


def _next_to(bits: float, demands: Mapping[int, float]) -> list[int]:
    """The hardest level below so many bits and the easiest above."""
    below = [level for level, demand in demands.items() if demand <= bits]
    above = [level for level, demand in demands.items() if demand > bits]
    return [
        *sorted(below, key=lambda level: demands[level])[-1:],
        *sorted(above, key=lambda level: demands[level])[:1],
    ]


def made(
    material: Material, flags: Sequence[str], report: Path, asked: Sequence[str] | None
) -> dict[str, str]:
    """How the report was made, and the command that makes it again."""
    versions = {name: _version(name) for name in LIBRARIES}
    records = material.records
    facts = {
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "machine": f"{platform.system()} {platform.machine()}, {counted(os.cpu_count() or 1, 'core')}, "
        f"Python {platform.python_version()}",
        "runs made by": _distinct(f"ullage {record.version}" for record in records),
        "trained on": _distinct(
            f"{record.device}{f' of {record.host}' if record.host else ''}" for record in records
        ),
        "seeds": _seeds(records),
        "fits": "NUTS, two chains of 1000 draws after 500 of warm-up, seed 0",
    }
    command = shlex.join(["ullage", "report", *flags, "--report", str(report)])
    told = {name: text for name, text in facts.items() if text} | {"command": command}
    return told if asked is None else told | {"where": shlex.join(asked)}


def _seeds(records: Sequence[RunRecord]) -> str:
    """Every run has its own seed, derived from its campaign's; the studies name the campaigns."""
    seeds = len({record.seed for record in records})
    studies = _distinct(record.study for record in records if record.study)
    return f"{seeds} different ones, in the studies {studies}" if records else ""


def _distinct(texts: Any, most: int = 6) -> str:
    found = list(dict.fromkeys(texts))
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def _version(name: str) -> str:
    if name == "ullage":
        return __version__
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def write_figures(material: Material, folder: Path) -> list[str]:
    """Write every figure as SVG, PDF and CSV; the paths."""
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in figure_files(material):
            (folder / name).write_bytes(data)
            paths.append(str(folder / name))
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"{folder} cannot be written ({why}); choose another folder for the figures") from None
    return paths
