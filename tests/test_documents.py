"""Documents that cannot lie: their code runs, their commands exist, their links lead somewhere."""

import doctest
import functools
import importlib.util
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest

import ullage

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
WITH_CODE = [page for page in PAGES if "\n```python\n" in page.read_text(encoding="utf-8")]

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # A module of its own, since dataclasses look up the module in which they are defined.
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    assert [run(text, module, page) for text in blocks(page, "python")].count(0) == len(
        blocks(page, "python")
    )


@EVERY_PAGE
def test_commands_on_the_page_exist(page):
    unknown = [
        " ".join(words)
        for words in commands(page)
        if any(flag not in help_of(words[1]) for flag in [words[1], *flags(words)])
    ]

    assert unknown == []


@EVERY_PAGE
def test_links_on_the_page_lead_to_a_file(page):
    targets = LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_generated_pages_are_what_would_be_generated():
    expected = generator().pages()

    stale = [
        path.name for path, text in expected.items() if not path.exists() or path.read_text("utf-8") != text
    ]

    assert stale == [], "run `make docs`"


def test_every_verb_is_found_in_the_overview():
    overview = "│ list         Tell what there is   │\n│              and go on │\n│ --help (-h)  Say this. │"

    assert generator().verbs(overview) == ["list"]


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert f"\nversion: {ullage.__version__}\n" in citation
    assert f"\n## [{ullage.__version__}]" in changes


# ── how the questions above are answered ─────────────────────────────────────────────────────────


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def run(text: str, module: types.ModuleType, page: Path) -> int:
    """Run one block as a script, or as a doctest where it has prompts; gives the number of failures."""
    if not text.startswith(">>> "):
        exec(compile(text, page.name, "exec"), module.__dict__)
        return 0
    example = doctest.DocTestParser().get_doctest(text, module.__dict__, page.name, str(page), 0)
    # The globals are kept, for later blocks of the page go on with what earlier ones have made.
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, clear_globs=False)
    module.__dict__.update(example.globs)
    return result.failed


def commands(page: Path) -> list[list[str]]:
    lines = [line for text in blocks(page, "console") for line in text.splitlines()]
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ullage ")]


def flags(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if word.startswith("--")]


@functools.cache
def help_of(verb: str) -> str:
    """The help of a verb, or nothing where there is no such verb."""
    result = subprocess.run(
        [sys.executable, "-m", "ullage", verb, "--help"], capture_output=True, text=True, check=False
    )
    return result.stdout if result.returncode == 0 else ""


@functools.cache
def generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("docs_make", ROOT / "docs" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
