"""What a store holds, what failed and why."""

import collections
from pathlib import Path
from typing import Any

from ullage.record import EVIDENCE, Phase, Status
from ullage.store import open_store


def status(store: str | Path = "ullage-store") -> dict[str, Any]:
    """Count the runs of a store and tell of those that failed; a trial that lost to its rivals did not.

    >>> import tempfile
    >>> status(tempfile.mkdtemp())["records"]
    0
    """
    contents = open_store(Path(store)).read()
    records = list(contents.records.values())
    failures = [
        {
            "run_id": record.run_id,
            "task": record.task,
            "level": record.level,
            "model_id": record.model_id,
            "status": record.status,
            "attempt": record.attempt,
            "reason": record.reason,
        }
        for record in records
        if record.status not in (*EVIDENCE, Status.PRUNED)
    ]
    return {
        "records": len(records),
        "finals": sum(record.phase == Phase.FINAL for record in records),
        "by_status": dict(collections.Counter(record.status for record in records)),
        "by_task": dict(collections.Counter(record.task for record in records)),
        "failures": failures,
        "damaged_lines": contents.damaged_lines,
        "seconds": round(sum(record.seconds for record in records), 1),
        "store": str(store),
    }
