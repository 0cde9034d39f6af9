"""Hold a task to its contract: ours and a user's file alike."""

import dataclasses
from typing import Any

from ullage.task import find
from ullage.testing import check_task


def check(task: str) -> dict[str, Any]:
    """Judge a task, clause by clause.

    >>> check("parity")["passed"]
    True
    """
    family = find(task)
    clauses = check_task(family)
    return {
        "name": family.name,
        "passed": all(clause.passed for clause in clauses),
        "clauses": [dataclasses.asdict(clause) for clause in clauses],
    }
