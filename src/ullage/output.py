"""What the command line prints: one document on stdout, all else on stderr."""

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from cyclopts import CycloptsError
from rich.console import Console, RenderableType

from ullage.errors import BadInput

WIDEST = 100  # columns; sentences that run across a whole screen are hard to read


def stderr() -> Console:
    """Where progress and complaints go."""
    return Console(stderr=True, soft_wrap=True)


def show(document: Any, as_json: bool, picture: Callable[[Any], RenderableType]) -> None:
    """Print a document: as JSON and nothing else, or as a person reads it."""
    text = json.dumps(document, indent=1, allow_nan=False) if as_json else rendered(picture(document))
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        let_go_of_stdout()
        raise BadInput(
            f"standard output cannot be written ({error.strerror}); give it a place that takes it"
        ) from None


def rendered(shown: RenderableType) -> str:
    """What a person sees, as text; no line ends in spaces."""
    console = Console(width=min(Console().width, WIDEST), highlight=False)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def let_go_of_stdout() -> None:
    """What could not be written is not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def sentence(error: CycloptsError) -> str:
    """What the parser says, as one sentence that ends with where to look."""
    said = re.sub(r"\. (\w)", lambda found: "; " + found[1].lower(), str(error)).rstrip(" .?")
    verb = " ".join(("ullage", *(error.command_chain or ())))
    return f"{said[:1].lower()}{said[1:]}; `{verb} --help` tells what is allowed"
