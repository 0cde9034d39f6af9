"""Runs that were made elsewhere: a table in a CSV, Parquet or JSON-lines file as observations.

One row is one run. These columns are needed, in any order and among any others:

    task layers heads d_head precision_bits demand_bits demand_notion
    and score score_floor score_ceiling, or accuracy chance, or correct total chance

All others of `ullage export` are used where they are there. What makes a whole table doubtful is a bad
request, told in one sentence; a row that is no evidence is left out and counted. Runs of one condition
that came out alike are merged as they are read, so a million rows are a few thousand observations.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.boundary import STEPS
from ullage.errors import BadInput, listed
from ullage.observations import NO_TECHNIQUE, NOTIONS, Effort, Model, Observation, Observations
from ullage.record import EVIDENCE, Phase, Status

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NEEDED = ("task", "layers", "heads", "d_head", "precision_bits", "demand_bits", "demand_notion")
# Any of these says how well a run did, above which floor; the first that is there counts.
SCORES = (("score", "score_floor", "score_ceiling"), ("accuracy", "chance"), ("correct", "total", "chance"))
TEXTS: Mapping[str, str] = {
    "run_id": "",
    "task": "",
    "demand_notion": "",
    "architecture": "",
    "model_id": "",
    "study": "",
    "technique": NO_TECHNIQUE,
    "phase": str(Phase.FINAL),
    "status": str(Status.FINISHED),
}
SHAPE = ("layers", "heads", "d_head", "d_model", "precision_bits")
SPENT = ("step_limit", "search_trials", "train_examples")
WHOLE = ("level", *SHAPE, "parameters", *SPENT, "correct", "total", "recipe_round", "attempt")
BITS = ("demand_bits", *(f"demand_{notion}_bits" for notion in NOTIONS))
REAL = (*BITS, "score", "score_floor", "score_ceiling", "accuracy", "chance")
SUFFIXES = {".csv": "read_csv", ".parquet": "read_parquet", ".jsonl": "read_json", ".ndjson": "read_json"}


def read_table(path: Path) -> Observations:
    """The evidence that a table holds, its rows merged; what is left out is counted by reason."""
    import duckdb

    _check_file(path)
    with duckdb.connect() as connection, _told(path):
        columns = _open(connection, path)
        _check_columns(path, columns)
        _check_numbers(connection, path, columns)
        connection.execute(_typed(columns))
        _check_values(connection, path)
        connection.execute(_JUDGED)
        excluded = dict(connection.execute(_EXCLUDED).fetchall())
        merged = connection.execute(_MERGED)
        names = [column[0] for column in merged.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in merged.fetchall()]
    if not rows and not excluded:
        raise BadInput(f"{path} holds no run, only the names of columns; write one row a run")
    return Observations(tuple(map(_observation, rows)), excluded)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise BadInput(f"there is no file {path}; give the name of a table of runs")
    if path.suffix.lower() not in SUFFIXES:
        raise BadInput(f"{path} is not a table that is read here; choose one of {listed(SUFFIXES)}")
    if not path.stat().st_size:
        raise BadInput(f"{path} is empty; write a line with the names of columns and one row a run")


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the reader refuses becomes a sentence."""
    import duckdb

    try:
        yield
    except (OSError, duckdb.Error) as error:
        why = str(error).splitlines()[0]
        raise BadInput(f"{path} cannot be read as a table ({why}); mend it, or export it again") from None


def _open(connection: "DuckDBPyConnection", path: Path) -> list[str]:
    """Make the table `raw`, all of it text; its columns."""
    reader = SUFFIXES[path.suffix.lower()]
    name = str(path).replace("'", "''")
    options = ", all_varchar = true, header = true" if reader == "read_csv" else ""
    told = "SELECT CAST(COLUMNS(*) AS VARCHAR)"
    connection.execute(f"CREATE TABLE raw AS {told} FROM {reader}('{name}'{options})")
    columns = connection.execute("SELECT * FROM raw LIMIT 0").description or ()
    return [str(column[0]).strip().lower() for column in columns]


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise BadInput(f"{path} has no column {', '.join(missing)}; `ullage export` shows a table with all")
    if not any(set(names) <= set(columns) for names in SCORES):
        choices = "; or ".join(", ".join(names) for names in SCORES)
        raise BadInput(f"{path} does not tell each run's score with its floor or chance; give {choices}")


def _check_numbers(connection: "DuckDBPyConnection", path: Path, columns: list[str]) -> None:
    """Text in a column of numbers: one look at all columns, and the first such text is told."""
    numbers = [name for name in (*WHOLE, *REAL) if name in columns]
    wrong = ", ".join(
        f'any_value("{name}") FILTER (trim("{name}") <> \'\' AND TRY_CAST("{name}" AS DOUBLE) IS NULL)'
        for name in numbers
    )
    found = connection.execute(f"SELECT {wrong} FROM raw").fetchone() or ()
    for name, value in zip(numbers, found, strict=True):
        if value is not None:
            raise BadInput(
                f"{path} has {name}={value!r}, which is no number; write a number, or leave it empty"
            )


def _typed(columns: list[str]) -> str:
    """The statement that makes `runs`: every column there is with its type, those that are not as unknown."""

    def text(name: str) -> str:
        return f"nullif(trim(\"{name}\"), '')" if name in columns else "NULL"

    def number(name: str) -> str:
        cast = f"TRY_CAST({text(name)} AS DOUBLE)"
        return f"CASE WHEN isfinite({cast}) THEN {cast} END"

    chosen = [f"coalesce({text(name)}, '{other}') AS {name}" for name, other in TEXTS.items()]
    chosen += [f"CAST({number(name)} AS BIGINT) AS {name}" for name in WHOLE]
    chosen += [f"{number(name)} AS {name}" for name in REAL]
    return f"""
        CREATE TABLE runs AS SELECT * REPLACE (
            lower(demand_notion) AS demand_notion,
            coalesce(score, accuracy, correct / total) AS score,
            coalesce(score_floor, chance) AS score_floor,
            coalesce(score_ceiling, 1.0) AS score_ceiling)
        FROM (SELECT {", ".join(chosen)} FROM raw)"""


# A condition that no sound table fulfils, and what is said of the first row that does.
_DOUBTS = (
    ("least({negative}) < 0", "negative bits for {task!r}", "a demand is 0 bits or more"),
    ("correct > total", "more correct answers than there are for {task!r}", "correct is at most total"),
    ("total <= 0 OR correct < 0", "a total of {total} for {task!r}", "count at least one answer"),
    (
        "score_floor >= score_ceiling",
        "a floor that is not below the ceiling for {task!r}",
        "the floor (chance) is the score of guessing, the ceiling is 1 unless it is told",
    ),
    ("demand_notion NOT IN ('', {notions})", "the notion {demand_notion!r}", "the notions are {known}"),
)


def _check_values(connection: "DuckDBPyConnection", path: Path) -> None:
    blanks = {
        "negative": ", ".join(BITS),
        "notions": ", ".join(f"'{notion}'" for notion in NOTIONS),
    }
    for condition, what, allowed in _DOUBTS:
        query = f"SELECT task, total, demand_notion FROM runs WHERE {condition.format(**blanks)} LIMIT 1"
        found = connection.execute(query).fetchone()
        if found:
            row = dict(zip(("task", "total", "demand_notion"), found, strict=True))
            said, may = what.format(**row), allowed.format(known=listed(NOTIONS))
            raise BadInput(f"{path} has {said}; {may}: mend the row or take it out")
    found = connection.execute(_DISAGREEING).fetchone()
    if found:
        raise BadInput(f"{path} tells the run {found[0]!r} in two ways; one run_id is one run: keep one row")


# Retries have one run_id and count up their attempts; two rows of one attempt must be the same.
_DISAGREEING = """
    SELECT run_id FROM runs WHERE run_id <> ''
    GROUP BY run_id, attempt HAVING count(*) > 1 AND count(DISTINCT hash(runs)) > 1 LIMIT 1"""

# Without a level, a condition is known by the place of its demand among those of the family.
_JUDGED = f"""
    CREATE TABLE judged AS SELECT
    * REPLACE (coalesce(level, dense_rank() OVER (PARTITION BY task ORDER BY demand_bits)) AS level),
    (score - score_floor) / (score_ceiling - score_floor) AS skill,
    CASE
        WHEN run_id <> '' AND row_number() OVER (PARTITION BY run_id ORDER BY attempt DESC) > 1
            THEN 'a run that is told twice'
        WHEN phase <> '{Phase.FINAL}' THEN 'a search run, not a final one'
        WHEN status NOT IN ({", ".join(f"'{status}'" for status in EVIDENCE)}) THEN 'status ' || status
        WHEN score IS NULL THEN 'no score'
        WHEN score_floor IS NULL THEN 'no floor'
        WHEN demand_bits IS NULL OR demand_notion = '' THEN 'no demand'
        WHEN task = '' THEN 'no task'
        WHEN recipe_round < max(recipe_round) FILTER (phase = '{Phase.FINAL}')
            OVER (PARTITION BY study, task, level) THEN 'a recipe that was replaced'
        ELSE ''
    END AS reason
    FROM runs"""

_EXCLUDED = "SELECT reason, count(*) FROM judged WHERE reason <> '' GROUP BY reason ORDER BY reason"

_MERGED = f"""
    SELECT task, level, demand_notion, {", ".join(BITS)}, model_id, architecture, layers, heads, d_head,
        d_model, precision_bits, parameters, technique, step_limit, search_trials, train_examples,
        score_floor, round(least(greatest(skill, 0), 1) * {STEPS}) AS twentieths,
        max(total) AS total, avg(skill) AS skill, count(*) AS runs
    FROM judged WHERE reason = '' GROUP BY ALL ORDER BY ALL"""


def _observation(row: dict[str, Any]) -> Observation:
    demands = {notion: row[f"demand_{notion}_bits"] for notion in NOTIONS}
    demands[row["demand_notion"]] = row["demand_bits"]
    shape = {name: row[name] for name in SHAPE}
    return Observation(
        row["task"],
        row["level"],
        0,
        row["demand_notion"],
        {notion: bits for notion, bits in demands.items() if bits is not None},
        row["skill"],
        Model(row["model_id"] or _named(shape), row["architecture"] or None, **shape),
        row["parameters"],
        row["technique"],
        Effort(*(row[name] for name in SPENT)),
        row["score_floor"],
        row["total"],
        row["runs"],
    )


def _named(shape: Mapping[str, int | None]) -> str:
    """A name for a model that has none.

    >>> _named({"layers": 2, "heads": 4, "d_head": 8, "d_model": None, "precision_bits": 32})
    'layers=2,heads=4,d_head=8,precision_bits=32'
    """
    return ",".join(f"{name}={value}" for name, value in shape.items() if value is not None) or "unknown"
