"""What there is to choose from: tasks, architectures, techniques."""

import inspect
from typing import Any

from ullage import knobs, registry
from ullage.errors import BadInput
from ullage.task import Family, Task

KINDS = {"tasks": "task", "architectures": "architecture", "techniques": "technique"}


def members(kind: str) -> list[dict[str, Any]]:
    """Each member of a kind with its summary and its knobs.

    >>> [task["name"] for task in members("tasks")][0]
    'copy'
    """
    if kind not in KINDS:
        raise BadInput(f"there are no {kind!r} to list; choose one of {', '.join(KINDS)}")
    singular = KINDS[kind]
    return [_describe(name, registry.member(singular, name)) for name in registry.names(singular)]


def _describe(name: str, member: type) -> dict[str, Any]:
    declared = knobs.knobs_of(member).values() if hasattr(member, "__dataclass_fields__") else ()
    described = {
        "name": name,
        "summary": (inspect.getdoc(member) or "").partition("\n")[0],
        "knobs": [
            {"name": one.name, "default": one.default, "meaning": one.meaning, "allowed": one.allowed}
            for one in declared
        ],
    }
    return described | (_of_task(member) if issubclass(member, Task) else {}) | _presets(member)


def _of_task(member: type[Task]) -> dict[str, Any]:
    family = Family(member)
    return {
        "collection": member.collection,
        "nominal": str(member.nominal),
        "questions": member.questions,
        "levels": list(family.levels),
    }


def _presets(member: type) -> dict[str, Any]:
    presets = getattr(member, "presets", {})
    return {"presets": {name: dict(chosen) for name, chosen in presets.items()}} if presets else {}
