"""The look of figures: one set of colours, shapes and sizes, for the page and for a paper alike.

Colours differ in lightness as well as in hue, and nothing is told by colour alone, so that a figure can be
read by the colour-blind and in grey. What was measured is drawn full; what the runs bound on one side only
ends in an arrow; what cannot be trusted is dashed and hollow.

>>> ticks(2.3, 6.6), ticks(8.0, 4000.0)
([3.0, 4.0, 5.0, 6.0], [10.0, 100.0, 1000.0])
"""

import contextlib
import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ullage.present import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

INK, QUIET, RULE, PAPER = "#1f1d1a", "#615c52", "#d5cfc2", "#fdfcf9"
BLUE, RED, GREEN, OCHRE = "#1b5a86", "#b0461a", "#2a6e50", "#8a6300"
# What a colour is called in the style of the page, which has two themes.
THEMED = {
    INK: "ink",
    QUIET: "quiet",
    RULE: "rule",
    PAPER: "paper",
    BLUE: "blue",
    RED: "red",
    GREEN: "green",
    OCHRE: "ochre",
}
SERIES = ((BLUE, "o", "-"), (RED, "s", "--"), (GREEN, "^", "-."), (OCHRE, "D", ":"))

LONGEST_LABEL = 34  # letters; the middle of a longer one is left out

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "text.color": INK,
    "text.parse_math": False,  # a family may be called "$5"
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "pdf.fonttype": 42,
    "hatch.linewidth": 0.4,
}
_UNTOLD: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextlib.contextmanager
def style(**more: Any) -> Iterator[None]:
    """Our settings and no others, whatever the user's own are."""
    import matplotlib as mpl

    with warnings.catch_warnings(), mpl.rc_context():
        # A letter that our font lacks is drawn by the reader's.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        mpl.rcdefaults()
        for name, value in (_SETTINGS | more).items():
            mpl.rcParams[name] = value  # type: ignore[index]
        yield


# ── files and markup ──────────────────────────────────────────────────────────────────────────────


def svg_file(figure: "Figure") -> bytes:
    """A figure for a paper: letters as outlines, so that it looks alike everywhere."""
    return _written(figure, "svg", {"svg.fonttype": "path", "svg.hashsalt": "ullage"}, _UNTOLD)


def pdf_file(figure: "Figure") -> bytes:
    """A figure for a paper, with its fonts inside."""
    return _written(figure, "pdf", {}, {"CreationDate": None, "Producer": None, "Creator": None})


def markup(figure: "Figure", name: str, title: str) -> str:
    """A figure as part of the page: its letters are text, its colours are those of the theme.

    `name` keeps the ids of one figure apart from those of all others.
    """
    settings = {"svg.fonttype": "none", "svg.hashsalt": name}
    text = _written(figure, "svg", settings, _UNTOLD).decode()
    body = text[text.index("<svg") :]
    width, height = (float(found) for found in re.findall(r'(?:width|height)="([\d.]+)pt"', body)[:2])
    inner = body[body.index(">") + 1 : body.rindex("</svg>")]
    inner = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", inner, flags=re.DOTALL)
    inner = re.sub(r"(<g) id=\"[^\"]*\"", r"\1", inner)
    inner = re.sub(r" font-family: [^;\"]*;?", "", inner)
    inner = re.sub(r"(\d\.\d\d)\d+", r"\1", inner)
    inner = re.sub(r"\s*\n\s*", " ", inner)
    for colour, theme in THEMED.items():
        inner = inner.replace(colour, f"var(--{theme})")
    return (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {width:g} {height:g}" '
        f'style="max-width: {width * 4 / 3:.0f}px" role="img" aria-label="{_attribute(title)}">{inner}</svg>'
    )


def _attribute(text: str) -> str:
    for letter, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(letter, entity)
    return text


def _written(figure: "Figure", kind: str, settings: Mapping[str, Any], untold: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    with style(**settings):
        figure.savefig(file, format=kind, metadata=untold)
    return file.getvalue()


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    r"""A user's text as a label: on one line, of letters that can be seen, and not too long.

    >>> label("a\tb" + "c" * 50)
    'a bccccccccccccc…cccccccccccccccc'
    """
    seen = "".join(letter if letter.isprintable() else " " for letter in text)
    half = (longest - 1) // 2
    return seen if len(seen) <= longest else f"{seen[:half]}…{seen[-half:]}"


def short_names(model_ids: Mapping[str, Any] | list[str]) -> dict[str, str]:
    """Names of models without what all of them share.

    >>> short_names(["nano", "transformer:layers=1,heads=4", "transformer:layers=2,heads=4"])
    {'nano': 'nano', 'transformer:layers=1,heads=4': 'layers=1', 'transformer:layers=2,heads=4': 'layers=2'}
    """
    parts = {name: name.partition(":")[2].split(",") for name in model_ids if ":" in name}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    short = {
        name: ", ".join(part for part in parts.get(name, []) if part not in shared) for name in model_ids
    }
    taken = list(short.values())
    return {name: told if told and taken.count(told) == 1 else name for name, told in short.items()}


# ── axes ──────────────────────────────────────────────────────────────────────────────────────────


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two ends of a logarithmic axis: three at least where they can be had."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for heads in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 5, 6, 8)):
        found = _within([head * 10.0**power for power in powers for head in heads], low, high)
        if len(found) >= 3:
            return found[:: math.ceil(len(found) / most)]
    return _even(low, high)


def _within(values: list[float], low: float, high: float) -> list[float]:
    return [float(f"{value:.6g}") for value in values if low <= value <= high]


def _even(low: float, high: float) -> list[float]:
    """Two to five round numbers at even distances, for an axis that is too short for anything else."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(head * power for head in (1, 2, 5, 10) if head * power >= rough)
    return _within(
        [place * step for place in range(math.ceil(low / step), math.floor(high / step) + 1)], low, high
    )


def logarithmic(axes: "Axes", low: float, high: float, *, most: int = 6) -> None:
    """A logarithmic axis with round numbers on it."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    chosen = ticks(low, high, most)
    axes.xaxis.set_ticks(chosen, labels=[number(value) for value in chosen])
    axes.xaxis.set_ticks([], minor=True)


def skill_axis(axes: "Axes") -> None:
    """Skill from nothing to everything, with the half that a boundary is read off at."""
    axes.set_ylim(-0.06, 1.06)
    axes.set_yticks([0, 0.5, 1], labels=["0", "½", "1"])
    axes.axhline(0.5, color=RULE, linewidth=0.6, zorder=0)


def rows_axis(axes: "Axes", names: list[str]) -> None:
    """One line a name, the first on top."""
    axes.set_yticks(range(len(names)), labels=[label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=INK, pad=9)  # room for an arrow to the left
    axes.spines["left"].set_visible(False)


def whisker(axes: "Axes", row: Row, place: float, ends: tuple[float, float], colour: str = BLUE) -> None:
    """An interval on a line of its own; an end that is not bounded is an arrow to the edge.

    `row` has `median`, `low`, `high`, each None where it is not known, and may say that it is not `trusted`.
    """
    low, median, high = row["low"], row["median"], row["high"]
    if low is None and high is None:
        across = axes.get_yaxis_transform()
        axes.text(0.02, place, "not bounded", transform=across, color=QUIET, fontstyle="italic", va="center")
        return
    trusted = row.get("trusted", True)
    left, right = ends[0] if low is None else low, ends[1] if high is None else high
    axes.plot([left, right], [place, place], color=colour, linestyle="-" if trusted else (0, (2, 2)))
    for end, edge, sign in ((low, ends[0], "<"), (high, ends[1], ">")):
        if end is None:
            axes.plot([edge], [place], marker=sign, color=colour, markersize=5, clip_on=False)
    if median is not None:
        face = colour if trusted and None not in {low, high} else PAPER
        axes.plot([median], [place], "o", color=colour, markerfacecolor=face, markersize=4.5)
