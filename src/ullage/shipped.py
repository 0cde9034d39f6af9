"""The runs that come with the package: what is known before anything was trained here.

They are a store like any other, made by `benchmarks/shipped_table.py`: five families on models that
separate the budgets, at effort quick and without a search.

>>> sorted({record.task for record in shipped_records()})
['copy', 'induction', 'memorise', 'modulo', 'parity']
"""

import functools
from pathlib import Path

from ullage.record import RunRecord
from ullage.store import open_store

FOLDER = Path(__file__).with_name("shipped")


@functools.cache
def shipped_records() -> tuple[RunRecord, ...]:
    """All of them, in the order in which they were made."""
    return tuple(open_store(FOLDER).read().records.values())
