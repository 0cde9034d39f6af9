"""The flags of the command line that several verbs share, each with the sentence that `--help` shows.

>>> StudyFlags(levels="5,11").chosen()["levels"]
(5, 11)
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ullage.errors import BadInput

Json = Annotated[
    bool,
    Parameter(name="--json", negative="", show_default=False, help="Print one JSON document on stdout."),
]
Switch = Annotated[bool, Parameter(negative="")]
StorePath = Annotated[Path, Parameter(name="--store", help="The folder that holds the runs.")]
DEFAULT_STORE = Path("ullage-store")


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


@Parameter(name="*")
@dataclasses.dataclass(frozen=True)
class EffortFlags:
    """Which runs of a store that holds several efforts."""

    steps: int | None = None
    "Only runs with this step limit; without it, those of the largest complete effort."
    trials: int | None = None
    "Only runs whose search had so many trials."
    train_examples: int | None = None
    "Only runs with so many training examples."

    def chosen(self) -> dict[str, Any]:
        """The arguments of the verb."""
        return dataclasses.asdict(self)


NO_KNOBS, DEFAULTS, ANY_EFFORT = ModelFlags(), StudyFlags(), EffortFlags()


def parse_levels(text: str) -> tuple[int, ...]:
    """The levels of `5,11,23`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"levels={text} is not allowed; write whole numbers such as 5,11,23") from None
