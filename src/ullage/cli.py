"""The command line: parse, call one function of the package, print what it returns.

Documents go to stdout (`--json`) or are shown as tables; progress goes to stderr. Exit code 0: did
what was asked; 1: did part of it; 2: a bad request, told in one sentence.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cyclopts import App, CycloptsError

from ullage import __version__
from ullage.errors import BadInput
from ullage.flags import (
    ANY_EFFORT,
    DEFAULT_STORE,
    DEFAULTS,
    NO_KNOBS,
    EffortFlags,
    Json,
    ModelFlags,
    StorePath,
    StudyFlags,
    Switch,
)
from ullage.output import let_go_of_stdout, sentence, show, stderr

DONE, PARTLY, BAD_REQUEST, INTERRUPTED = 0, 1, 2, 130

app = App(
    name="ullage",
    version=__version__,
    help="Measure how much of a small Transformer's information budget a task fills.",
    help_format="plaintext",
)


@app.command
def measure(
    *tasks: str,
    study: StudyFlags = DEFAULTS,
    flags: ModelFlags = NO_KNOBS,
    demand: str = "nominal",
    minutes: float | None = None,
    retry: str | None = None,
    report: Path | None = None,
    json: Json = False,
) -> int:
    """Measure the effective capacity of one model (the main job).

    Parameters
    ----------
    tasks
        name, name:knob=value,… or file.py; without any, the collection classic.
    demand
        Notion of bits for the top-level C: nominal, answer, input, context or storage.
    minutes
        Start no run after this many minutes; the same command goes on later.
    retry
        failed: make failed runs again, and only these besides what is missing.
    report
        Write the page that shows it to this file, too; see `ullage report`.
    """
    from ullage import present
    from ullage.progress import FitTeller, Teller
    from ullage.verbs.measure import measure as run

    with Teller(stderr()) as watcher:
        document = run(
            tasks or ("classic",),
            **study.chosen(),
            knobs=flags.chosen(),
            demand=demand,
            minutes=minutes,
            retry=retry,
            watcher=watcher,
        )
    if report is not None:
        from ullage.verbs.report import report_measured

        with FitTeller(stderr()) as told:
            document |= {"report": report_measured(document, report, told)["report"]}
    show(document, json, present.measured)
    return DONE if document["complete"] and document["sound"] else PARTLY


@app.command
def plan(*tasks: str, study: StudyFlags = DEFAULTS, flags: ModelFlags = NO_KNOBS, json: Json = False) -> int:
    """Tell what `measure` would cost, as a range, before anything is trained.

    Parameters
    ----------
    tasks
        name, name:knob=value,… or file.py; without any, the collection classic.
    """
    from ullage import present
    from ullage.verbs.plan import plan as run

    show(run(tasks or ("classic",), **study.chosen(), knobs=flags.chosen()), json, present.planned)
    return DONE


@app.command
def status(*, store: StorePath = DEFAULT_STORE, json: Json = False) -> int:
    """Tell what a store holds, what failed and why."""
    from ullage import present
    from ullage.verbs.status import status as run

    show(run(store), json, present.stored)
    return DONE


@app.command
def export(
    file: Path, /, *, curves: bool = False, store: StorePath = DEFAULT_STORE, json: Json = False
) -> int:
    """Write the table of runs to FILE.csv or FILE.parquet, or their posterior to FILE.nc.

    Parameters
    ----------
    file
        Where to; the suffix chooses the format.
    curves
        The long table of all checkpoints in place of the runs.
    """
    from ullage import present
    from ullage.verbs.export import export as run

    show(run(file, curves=curves, store=store), json, present.exported)
    return DONE


@app.command
def fit(
    *,
    store: StorePath = DEFAULT_STORE,
    runs: Path | None = None,
    demand: str = "nominal",
    spent: EffortFlags = ANY_EFFORT,
    scatter: str = "own_floor",
    notions: bool = True,
    keep: Path | None = None,
    force: Switch = False,
    json: Json = False,
) -> int:
    """Fit all models and families together: capacities, difficulties, growth.

    Parameters
    ----------
    runs
        A table made elsewhere (.csv, .parquet, .jsonl) in place of the store.
    demand
        Notion of bits: nominal (each family's own), answer, input, context or storage.
    scatter
        How runs of one condition scatter: own_floor, beta_binomial or mixture.
    notions
        Score each notion of demand by how well it predicts held-out levels; takes a dozen fits.
    keep
        The folder that keeps the posterior; beside the store's runs unless given.
    force
        Fit anew although a posterior of these runs is kept.
    """
    from ullage import present_fit
    from ullage.verbs.fit import fit as run

    document = run(
        store=store,
        runs=runs,
        demand=demand,
        **spent.chosen(),
        scatter=scatter,
        notions=notions,
        keep=keep,
        force=force,
    )
    show(document, json, present_fit.fitted)
    return DONE if document["diagnostics"]["trusted"] else PARTLY


@app.command
def predict(
    task: str | None = None,
    /,
    *,
    level: int | None = None,
    bits: float | None = None,
    demand: str | None = None,
    model: str | None = None,
    flags: ModelFlags = NO_KNOBS,
    runs: Path | None = None,
    store: StorePath = DEFAULT_STORE,
    keep: Path | None = None,
    pilot: int = 0,
    smallest: Switch = False,
    probability: float | None = None,
    workers: int | None = None,
    json: Json = False,
) -> int:
    """Predict whether a model learns a task, before it is trained.

    Parameters
    ----------
    task
        name, name:knob=value,… or file.py; none where bits alone are asked about.
    level
        Level of the task; a file without one is asked about at the level it declares.
    bits
        Bits that are asked for, in place of a level.
    demand
        Notion of the bits, and of the fit: answer, input, context or storage; or nominal.
    model
        nano, small, medium or paper; nano unless given.
    runs
        A table made elsewhere (.csv, .parquet, .jsonl) in place of the store.
    keep
        The folder that keeps the fit; beside the store's runs unless given.
    pilot
        Train so many runs near the expected boundary first, then predict.
    smallest
        Find the smallest model, by parameters, that learns it.
    probability
        What the smallest model must reach at the lower end of its interval, 0.5 unless given.
    workers
        Processes that train a pilot; as many as there are cores unless given.
    """
    from ullage import present_predict
    from ullage.inquiry import Asked
    from ullage.progress import Teller
    from ullage.verbs.predict import answer

    with Teller(stderr()) as watcher:
        found = answer(
            Asked(task, level, bits, demand),
            model=model,
            knobs=flags.chosen(),
            runs=runs,
            store=store,
            keep=keep,
            pilot=pilot,
            smallest=smallest,
            probability=probability,
            workers=workers,
            watcher=watcher,
        )
    show(found.to_json(), json, lambda _: present_predict.predicted(found))
    return DONE if found.reached and not found.failed and found.prediction.diagnostics.trusted else PARTLY


@app.command
def report(
    *,
    store: StorePath = DEFAULT_STORE,
    runs: Path | None = None,
    shipped: Switch = False,
    report: Path = Path("ullage-report.html"),
    figures: Path | None = None,
    keep: Path | None = None,
    calibrate: Switch = False,
    notions: bool = True,
    model: str | None = None,
    spent: EffortFlags = ANY_EFFORT,
    json: Json = False,
) -> int:
    """Write one self-contained HTML page that shows what was measured.

    Parameters
    ----------
    runs
        A table made elsewhere (.csv, .parquet, .jsonl) in place of the store.
    shipped
        The runs that come with the package, in place of the store.
    report
        The file to write.
    figures
        A folder for every figure as SVG and PDF, with the CSV of what is drawn.
    keep
        The folder that keeps the fits; beside the store's runs unless given.
    calibrate
        Hold levels out and show whether predictions come true; takes eight fits more.
    notions
        Fit each notion of demand, too: what a budget is filled by needs it.
    model
        The model_id that the page is about; the one with the most runs unless given.
    """
    from ullage import present_report
    from ullage.progress import FitTeller
    from ullage.verbs.report import report as run

    with FitTeller(stderr()) as told:
        document = run(
            store=store,
            runs=runs,
            shipped=shipped,
            report=report,
            figures=figures,
            keep=keep,
            calibrate=calibrate,
            notions=notions,
            model=model,
            **spent.chosen(),
            told=told,
        )
    show(document, json, present_report.reported)
    return DONE if document["trusted"] else PARTLY


@app.command
def calibrate(
    *,
    scheme: str = "level",
    demand: str = "nominal",
    runs: Path | None = None,
    store: StorePath = DEFAULT_STORE,
    json: Json = False,
) -> int:
    """Hold out runs, predict them, and tell whether predictions can be believed.

    Parameters
    ----------
    scheme
        level (of a family that is known), family (a new one) or model (the largest one).
    demand
        Notion of bits: nominal (each family's own), answer, input, context or storage.
    runs
        A table made elsewhere (.csv, .parquet, .jsonl) in place of the store.
    """
    from ullage import present_predict
    from ullage.progress import FitTeller
    from ullage.verbs.calibrate import calibration

    with FitTeller(stderr()) as told:
        found = calibration(scheme, demand=demand, runs=runs, store=store, told=told)
    show(found.to_json(), json, lambda _: present_predict.calibrated(found))
    return PARTLY if found.untrusted else DONE


@app.command(name="list")
def list_members(kind: Literal["tasks", "architectures", "techniques"], /, *, json: Json = False) -> int:
    """List what there is to choose from, with its knobs.

    Parameters
    ----------
    kind
        tasks, architectures or techniques.
    """
    from ullage import present
    from ullage.verbs.members import members

    show(members(kind), json, present.listed)
    return DONE


@app.command
def check(task: str, /, *, json: Json = False) -> int:
    """Hold a task file to the contract that every task keeps.

    Parameters
    ----------
    task
        file.py, or the name of a task.
    """
    from ullage import present
    from ullage.verbs.check import check as run

    document = run(task)
    show(document, json, present.checked)
    return DONE if document["passed"] else BAD_REQUEST


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (BadInput, CycloptsError) as error:
        said = str(error) if isinstance(error, BadInput) else sentence(error)
        stderr().print(f"ullage: {' '.join(said.split())}", markup=False, emoji=False, highlight=False)
        code = BAD_REQUEST
    except KeyboardInterrupt:
        stderr().print("ullage: stopped; what was stored is kept, the same command goes on from here")
        code = INTERRUPTED
    except BrokenPipeError:
        let_go_of_stdout()  # the reader has gone: not our error
        code = DONE
    sys.exit(code if isinstance(code, int) else DONE)
