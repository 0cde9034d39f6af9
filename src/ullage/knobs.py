"""Knobs: dataclass fields that know their meaning and their range.

Tasks, architectures and recipes are frozen dataclasses whose fields are declared with `knob`. The
declaration is the only place that names the default, the meaning and the allowed values; checking,
parsing `name=value` text, `ullage list` and the flags of the command line all read it from there.

>>> import dataclasses
>>> @dataclasses.dataclass(frozen=True)
... class Oven:
...     heat: int = knob(180, "temperature, in degrees", low=50, high=250)
>>> check(Oven(heat=300), "oven")
Traceback (most recent call last):
    ...
ullage.errors.BadInput: oven: heat=300 is out of range; choose 50 to 250 (temperature, in degrees)
"""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any

from ullage.errors import BadInput, listed


@dataclasses.dataclass(frozen=True)
class Knob:
    """What is known of one field: its name, type, default, meaning and range."""

    name: str
    type: type
    default: Any
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is bool:
            return "true or false"
        if self.low is not None and self.high is not None:
            return f"{self.low} to {self.high}"
        if self.low is not None:
            return f"{self.low} or more"
        return {int: "a whole number", float: "a number"}.get(self.type, "text")


def knob(
    default: Any,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a field with its default, its meaning (with the unit) and its range."""
    metadata = {"meaning": meaning, "low": low, "high": high, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


def knobs_of(owner: type) -> dict[str, Knob]:
    """The knobs that a dataclass declares, by name, in order."""
    types = typing.get_type_hints(owner)
    return {
        field.name: Knob(field.name, types[field.name], field.default, **field.metadata)
        for field in dataclasses.fields(owner)
        if "meaning" in field.metadata
    }


def values_of(instance: Any) -> dict[str, Any]:
    """The knobs of an instance by name; a whole number given for a real one becomes real.

    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Oven:
    ...     heat: float = knob(1.5, "temperature, in hundred degrees")
    >>> values_of(Oven(heat=2))
    {'heat': 2.0}
    """
    declared = knobs_of(type(instance)).values()
    values = {one.name: getattr(instance, one.name) for one in declared}
    return {one.name: float(values[one.name]) if one.type is float else values[one.name] for one in declared}


def check(instance: Any, owner: str) -> None:
    """Raise `BadInput` for the first knob of `instance` that is of the wrong type or out of range."""
    for name, declared in knobs_of(type(instance)).items():
        check_value(declared, getattr(instance, name), owner)


def check_value(declared: Knob, value: Any, owner: str) -> None:
    """Raise `BadInput` unless `value` is one that the knob allows."""
    kinds = (int, float) if declared.type is float else declared.type
    wrong_type = not isinstance(value, kinds) or (isinstance(value, bool) and declared.type is not bool)
    text = f"{owner}: {declared.name}={value}"
    hint = f"choose {declared.allowed} ({declared.meaning})"
    if wrong_type or (declared.choices and value not in declared.choices):
        raise BadInput(f"{text} is not allowed; {hint}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{text} is not finite; {hint}")
    too_low = declared.low is not None and value < declared.low
    too_high = declared.high is not None and value > declared.high
    if too_low or too_high:
        raise BadInput(f"{text} is out of range; {hint}")


def parse_value(declared: Knob, text: str, owner: str) -> Any:
    """Turn the text of one knob into a value of its type.

    >>> parse_value(Knob("base", int, 10, "base of the digits"), "7", "modulo")
    7
    """
    wrong = BadInput(
        f"{owner}: {declared.name}={text} is not allowed; choose {declared.allowed} ({declared.meaning})"
    )
    if declared.type is bool:
        if text.lower() not in ("true", "false"):
            raise wrong
        return text.lower() == "true"
    try:
        return declared.type(text)
    except ValueError:
        raise wrong from None


def parse(owner: type, texts: Mapping[str, str], name: str) -> dict[str, Any]:
    """Turn `{"base": "7"}` into `{"base": 7}`; an unknown name is an error that lists the known ones."""
    declared = knobs_of(owner)
    for unknown in sorted(texts.keys() - declared.keys()):
        raise BadInput(f"{name} has no knob {unknown!r}; its knobs are {listed(declared)}")
    return {key: parse_value(declared[key], text, name) for key, text in texts.items()}
