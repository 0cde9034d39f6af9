"""The architecture, checked: who may import whom, what may be named where, and how large code may grow."""

import ast
import functools
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "ullage"
FILES = sorted(SOURCE.rglob("*.py"))

# Top first: a file imports only from above its own place. A folder of members has one place.
ORDER = (  # noqa: SIM905 - forty lines of one word each would tell no more
    "errors knobs keys bits record budget registry readout task split tasks kernels together "
    "architecture architectures "
    "recipe technique techniques evaluate train job store stores shipped table executor worker executors "
    "observations boundary imported conditions tabled scatter metamodel sampler posterior capacity kept "
    "netcdf heldout readoff worlds prediction calibration placement summary search importance protocol "
    "rehearsal space campaign study present present_fit present_predict progress chart material verdict "
    "present_report diagnosis form plot plots sections page testing testing_stores testing_architectures "
    "testing_executors request pilot inquiry shapes verbs flags output cli __main__"
).split()
FRONT = ("cli", "__main__")
MEMBER_FOLDERS = ("tasks", "architectures", "techniques", "stores", "executors", "plots")

# Runs that were made elsewhere can be judged: the statistics know records and nothing of training.
STATISTICS = (
    "record",
    "observations",
    "boundary",
    "imported",
    "conditions",
    "sampler",
    "capacity",
    "kept",
    "netcdf",
    "heldout",
    "readoff",
    "worlds",
    "prediction",
    "calibration",
    "summary",
    "importance",
    "verdict",
    "diagnosis",
    "form",
    "plot",
    "page",
)
TRAINING = {"task", "split", "architecture", "recipe", "technique", "evaluate", "train", "job"}

HEAVY = {"jax", "numpyro", "optax", "optuna", "matplotlib", "jinja2", "duckdb"}

# Written in two halves, so that this file does not hold what it forbids.
FORBIDDEN = [
    first + second
    for first, second in [
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("npmjs", ".org"),
        ("--index", "-url"),
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("/tmp/", "venv"),
        ("../sha", "red"),
        ("DESIGN", ".md"),
        ("SCIENCE", ".md"),
        ("STYLE", ".md"),
        ("ECOSYSTEM", ".md"),
    ]
]
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".cff", ".json", ".csv", ".html", ""}
NOT_OURS = {".git", ".venv", "build", "dist", "ullage-store", "__pycache__", "shared"}

LONGEST_FUNCTION = 60
LONG_FUNCTION = 30
MEDIAN_FUNCTION = 8
LONGEST_FILE = 400


def test_every_file_has_a_place_in_the_order():
    places = {place_of(path) for path in FILES}

    assert places - {"__init__"} <= set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_from_above(path):
    assert imported_places(parsed(path)) <= may_import(place_of(path))


def test_the_order_is_what_stops_an_import_from_below():
    upward = ast.parse("def f():\n    from ullage import study\n    import ullage.tasks.parity")
    bare = ast.parse("import ullage")

    assert imported_places(upward) == {"study", "tasks"}
    assert imported_places(bare) == {"__init__"}


def test_no_import_is_relative():
    nodes = ((path, node) for path in FILES for node in ast.walk(parsed(path)))

    assert [path for path, node in nodes if isinstance(node, ast.ImportFrom) and node.level] == []


@pytest.mark.parametrize("start", [name for name in STATISTICS if (SOURCE / f"{name}.py").exists()])
def test_statistics_know_nothing_of_training(start):
    reached = {start}
    while grown := {place for name in reached for place in imports_of_place(name)} - reached:
        reached |= grown

    assert reached & TRAINING == set()


def test_no_file_names_a_member_of_another():
    named = [
        f"{path.relative_to(SOURCE)}:{line} names {name}"
        for path in FILES
        for line, name in strings_and_imports(parsed(path))
        if path not in members().get(name, {path})
    ]

    assert named == []


def test_naming_a_member_is_found_in_strings_and_imports_but_not_in_docstrings():
    tree = ast.parse(
        '"""parity"""\nimport copy\nx = {"parity": f"{1} copy"}\nfrom ullage.tasks import modulo'
    )

    assert [name for _, name in strings_and_imports(tree)] == ["parity", " copy", "modulo"]


def test_functions_are_short():
    sizes = {f"{path.relative_to(SOURCE)}:{name}": size for path in FILES for name, size in functions(path)}
    lengths = sorted(sizes.values())

    assert {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION} == {}
    assert sum(size <= LONG_FUNCTION for size in lengths) >= 0.9 * len(lengths)
    assert statistics.median(lengths) <= MEDIAN_FUNCTION


def test_files_are_short():
    lines = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in FILES}

    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_is_public_has_a_docstring(path):
    tree = parsed(path)
    public = [node for node in tree.body if is_public(node)]

    assert ast.get_docstring(tree)
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_nothing_names_a_place_where_it_was_made():
    found = [
        f"{path.relative_to(ROOT)} holds {word}"
        for path in tracked_texts()
        for word in FORBIDDEN
        if word in path.read_text(encoding="utf-8")
    ]

    assert found == []


def test_pins_are_a_name_and_a_version():
    pins = (ROOT / "constraints.txt").read_text().splitlines()

    assert pins
    assert [pin for pin in pins if len(pin.split("==")) != 2 or any(sign in pin for sign in "@/ :;")] == []


@pytest.mark.parametrize(
    "program",
    [
        "import ullage",
        "import runpy; sys.argv = ['ullage', '--help']; runpy.run_module('ullage', run_name='__main__')",
    ],
    ids=["import", "help"],
)
def test_a_look_is_light(program):
    listed = (
        f"import sys, atexit; atexit.register(lambda: print(*{HEAVY} & sys.modules.keys(), file=sys.stderr))"
    )
    result = subprocess.run(
        [sys.executable, "-c", f"{listed}; {program}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (result.returncode, result.stderr.strip()) == (0, "")


@pytest.mark.parametrize("command", [["format", "--check", "."], ["check", "."]], ids=["format", "lint"])
def test_the_code_is_clean(command):
    result = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("def test_it(): pass", True),
        ("import pytest\n@pytest.mark.skip\ndef test_it(): pass", False),
        ("import pytest\npytest.importorskip('no_such_module')", False),
        ("import pytest\n@pytest.mark.xfail\ndef test_it(): assert False", False),
        ("import warnings\ndef test_it(): warnings.warn('loud', stacklevel=1)", False),
    ],
    ids=["passed", "skipped", "skipped module", "expected to fail", "warning"],
)
def test_a_run_that_has_shown_nothing_fails(body, passes, tmp_path):
    (tmp_path / "test_example.py").write_text(f"{body}\ndef test_other(): pass\n")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.toml").write_text('[pytest]\nfilterwarnings = ["error"]\n')

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode == 0) == passes, result.stdout


def test_ci_runs_the_line_of_the_readme():
    line = "pip install -e '.[test]' && pytest"

    assert line in (ROOT / "README.md").read_text().splitlines()
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == line


# ── how the questions above are answered ─────────────────────────────────────────────────────────


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def place_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def may_import(place: str) -> set[str]:
    """What stands above; the package itself, which shows everything, is for the command line alone."""
    if place == "__init__":
        return {*ORDER}
    above = {"__version__", *ORDER[: ORDER.index(place)]}
    return above | {"__init__"} if place in FRONT else above


def imported_places(tree: ast.Module) -> set[str]:
    """The places of all imports of the package, those inside functions included."""
    return {[*name.split("."), "__init__"][1] for name in imported_names(tree)}


def imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "ullage")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ullage":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of_place(place: str) -> set[str]:
    files = [path for path in FILES if place_of(path) == place]
    return {name for path in files for name in imported_places(parsed(path))}


@functools.cache
def members() -> dict[str, set[Path]]:
    """The files of all members, by their names; two kinds may have a member of one name."""
    paths = [path for folder in MEMBER_FOLDERS for path in (SOURCE / folder).glob("[!_]*.py")]
    return {path.stem: {other for other in paths if other.stem == path.stem} for path in paths}


def strings_and_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings, but for docstrings, and the last part of imports from folders of members."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value
    for name in imported_names(tree):
        parts = name.split(".")
        if len(parts) > 2 and parts[1] in MEMBER_FOLDERS:
            yield 0, parts[2]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """The lines of each function's body without its docstring; those of a contract have none."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                yield node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1


def is_public(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")


def tracked_texts() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in NOT_OURS and (not name.startswith(".") or name == ".ci")
        ]
        yield from (Path(folder, name) for name in names if Path(name).suffix in TEXT_SUFFIXES)
