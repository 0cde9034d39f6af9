"""The command line: parse, call one function of the package, print what it returns.

Documents go to stdout (`--json`) or are shown as tables; progress goes to stderr. Exit code 0: did
what was asked; 1: did part of it; 2: a bad request, told in one sentence.
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console, RenderableType

from ullage import __version__
from ullage.errors import BadInput

DONE, PARTLY, BAD_REQUEST, INTERRUPTED = 0, 1, 2, 130

app = App(
    name="ullage",
    version=__version__,
    help="Measure how much of a small Transformer's information budget a task fills.",
    help_format="plaintext",
)

Json = Annotated[
    bool,
    Parameter(name="--json", negative="", show_default=False, help="Print one JSON document on stdout."),
]
Switch = Annotated[bool, Parameter(negative="")]
StorePath = Annotated[Path, Parameter(name="--store", help="The folder that holds the runs.")]
DEFAULT_STORE = Path("ullage-store")
WIDEST = 100  # columns; sentences that run across a whole screen are hard to read


@Parameter(name="*")
@dataclasses.dataclass(frozen=True)
class ModelFlags:
    """Knobs of the model; what is not given is the preset's."""

    layers: int | None = None
    "Blocks of attention and feed-forward."
    heads: int | None = None
    "Attention heads of one layer."
    d_head: int | None = None
    "Width of one head, 0 for d_model / heads."
    d_model: int | None = None
    "Width of the residual stream."
    d_ff: int | None = None
    "Hidden width of the feed-forward part, 0 for attention only."
    positional: str | None = None
    "none, sinusoidal or learned."
    norm: str | None = None
    "pre or none."
    final_norm: bool | None = None
    "A layer norm before the read-out."
    activation: str | None = None
    "gelu (exact) or relu."
    attention: str | None = None
    "bidirectional or causal."
    precision: str | None = None
    "bf16, f16, f32 or f64."

    def chosen(self) -> dict[str, Any]:
        """Only the knobs that were given."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


@Parameter(name="*")
@dataclasses.dataclass(frozen=True)
class StudyFlags:
    """What is measured, and how thoroughly."""

    model: str = "nano"
    "nano, small, medium or paper."
    effort: str = "quick"
    "quick, standard or full: a number of runs and of steps, never a clock."
    protocol: str = "adaptive"
    "adaptive (the level that tells most for its price) or grid (all levels alike)."
    levels: str | None = None
    "Levels for all tasks, such as 5,11,23, in place of their own."
    steps: int | None = None
    "Step limit of a run, in place of the effort's."
    trials: int | None = None
    "Trials of a search at one level, in place of the effort's; 0 trains the default recipe only."
    seeds: int | None = None
    "Fresh seeds a level of a grid, in place of the effort's."
    train_examples: int | None = None
    "Different examples to train on, 0 for all there are."
    search_embedding: Switch = False
    "Search how positions are told, too; otherwise the model's own way is kept."
    store: StorePath = DEFAULT_STORE
    workers: int | None = None
    "Processes that train side by side; as many as there are cores unless given."
    seed: int = 0
    "Which fresh seeds; another seed is another campaign."

    def chosen(self) -> dict[str, Any]:
        """The arguments of the verb."""
        return dataclasses.asdict(self) | {"levels": () if self.levels is None else parse_levels(self.levels)}


NO_KNOBS, DEFAULTS = ModelFlags(), StudyFlags()


@app.command
def measure(
    *tasks: str,
    study: StudyFlags = DEFAULTS,
    flags: ModelFlags = NO_KNOBS,
    demand: str = "nominal",
    minutes: float | None = None,
    retry: str | None = None,
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
    """
    from ullage import present
    from ullage.progress import Teller
    from ullage.verbs.measure import measure as run

    with Teller(_stderr()) as watcher:
        document = run(
            tasks or ("classic",),
            **study.chosen(),
            knobs=flags.chosen(),
            demand=demand,
            minutes=minutes,
            retry=retry,
            watcher=watcher,
        )
    _print(document, json, present.measured)
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

    _print(run(tasks or ("classic",), **study.chosen(), knobs=flags.chosen()), json, present.planned)
    return DONE


@app.command
def status(*, store: StorePath = DEFAULT_STORE, json: Json = False) -> int:
    """Tell what a store holds, what failed and why."""
    from ullage import present
    from ullage.verbs.status import status as run

    _print(run(store), json, present.stored)
    return DONE


@app.command
def export(
    file: Path, /, *, curves: bool = False, store: StorePath = DEFAULT_STORE, json: Json = False
) -> int:
    """Write the table of runs to FILE.csv or FILE.parquet.

    Parameters
    ----------
    file
        Where to; the suffix chooses the format.
    curves
        The long table of all checkpoints in place of the runs.
    """
    from ullage import present
    from ullage.verbs.export import export as run

    _print(run(file, curves=curves, store=store), json, present.exported)
    return DONE


@app.command
def fit(
    *,
    store: StorePath = DEFAULT_STORE,
    runs: Path | None = None,
    demand: str = "nominal",
    steps: int | None = None,
    trials: int | None = None,
    train_examples: int | None = None,
    scatter: str = "beta_binomial",
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
    steps
        Only runs with this step limit; without it, those of the largest complete effort.
    trials
        Only runs whose search had so many trials.
    train_examples
        Only runs with so many training examples.
    scatter
        How runs of one condition scatter: beta_binomial, own_floor or mixture.
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
        steps=steps,
        trials=trials,
        train_examples=train_examples,
        scatter=scatter,
        notions=notions,
        keep=keep,
        force=force,
    )
    _print(document, json, present_fit.fitted)
    return DONE if document["diagnostics"]["trusted"] else PARTLY


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

    _print(members(kind), json, present.listed)
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
    _print(document, json, present.checked)
    return DONE if document["passed"] else BAD_REQUEST


def parse_levels(text: str) -> tuple[int, ...]:
    """The levels of `5,11,23`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"levels={text} is not allowed; write whole numbers such as 5,11,23") from None


def _stderr() -> Console:
    return Console(stderr=True, soft_wrap=True)


def _print(document: Any, as_json: bool, show: Callable[[Any], RenderableType]) -> None:
    text = json.dumps(document, indent=1, allow_nan=False) if as_json else _rendered(show(document))
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _let_go_of_stdout()
        raise BadInput(
            f"standard output cannot be written ({error.strerror}); give it a place that takes it"
        ) from None


def _rendered(shown: RenderableType) -> str:
    console = Console(width=min(Console().width, WIDEST), highlight=False)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def _let_go_of_stdout() -> None:
    """What could not be written is not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: CycloptsError) -> str:
    """What the parser says, as one sentence that ends with where to look."""
    said = re.sub(r"\. (\w)", lambda found: "; " + found[1].lower(), str(error)).rstrip(" .?")
    verb = " ".join(("ullage", *(error.command_chain or ())))
    return f"{said[:1].lower()}{said[1:]}; `{verb} --help` tells what is allowed"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (BadInput, CycloptsError) as error:
        said = str(error) if isinstance(error, BadInput) else _sentence(error)
        _stderr().print(f"ullage: {' '.join(said.split())}", markup=False, emoji=False, highlight=False)
        code = BAD_REQUEST
    except KeyboardInterrupt:
        _stderr().print("ullage: stopped; what was stored is kept, the same command goes on from here")
        code = INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()  # the reader has gone: not our error
        code = DONE
    sys.exit(code if isinstance(code, int) else DONE)
