"""What holds for every test: silent failures are loud, output is plain, nothing is skipped.

A test that is skipped or expected to fail has shown nothing, so a run that has one does not pass.
"""

import os

import jax
import pytest

SHOWN_NOTHING = ("skipped", "xfailed", "xpassed")

# Before any test starts a program that writes to a terminal: no colour, and one width for all.
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS"):
    os.environ.pop(name, None)
os.environ.update(NO_COLOR="1", COLUMNS="100")

# Shapes that only broadcast by luck and dtypes that widen in silence are errors.
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def shown_nothing(config: pytest.Config) -> int:
    """How many tests have shown nothing so far."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return sum(len(reporter.stats.get(outcome, [])) for outcome in SHOWN_NOTHING)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and shown_nothing(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = shown_nothing(config)
    if count:
        terminalreporter.section("not run", red=True)
        terminalreporter.line(
            f"{count} skipped or expected to fail: the run fails; mend or remove these tests"
        )
