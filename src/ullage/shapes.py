"""Shapes of models, as a page can handle them: knobs, and the sum that their parameters are.

The parameters of a shape are a sum of products of its knobs, whose weights are read off the architecture: no
formula stands here, so none can differ from what is trained.

    layers · (w₀·d·span + w₁·span + w₂·d·f + w₃·f + w₄·d)  +  width·d + fixed      span = heads · d_head

>>> weigh(BARE)["fixed"]
2
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ullage import architecture as architectures
from ullage import task as tasks
from ullage.conditions import STORED
from ullage.errors import BadInput
from ullage.inquiry import BARE
from ullage.record import RunRecord
from ullage.task import Family, Interface

BASE = "nano"  # the preset whose other knobs a shape has
KNOBS = ("layers", "heads", "d_head", "d_model", "d_ff")
PRECISIONS = ("f32", "bf16", "f16", "f64")
# Shapes that tell all weights apart: (heads, d_head, d_model, d_ff).
PROBES = ((1, 2, 4, 3), (2, 3, 6, 5), (3, 2, 10, 7), (2, 5, 4, 11), (1, 7, 8, 2), (4, 2, 14, 9))


def plain_shapes(records: Iterable[RunRecord]) -> dict[str, dict[str, Any]]:
    """The knobs of each model that a preset and these knobs can tell, by its name."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        knobs = {name: getattr(record, name) for name in KNOBS}
        if record.model_id in found or None in knobs.values():
            continue
        # A head as wide as the width allows is written as 0, by those who leave it to the model.
        candidates = (
            {**knobs, "d_head": d_head, "precision": precision}
            for precision in PRECISIONS
            for d_head in (0, knobs["d_head"])
            if d_head or knobs["heads"] * knobs["d_head"] == knobs["d_model"]
        )
        same = (shape for shape in candidates if _model(shape).model_id == record.model_id)
        shape = next(same, None)
        if shape is not None:
            found[record.model_id] = shape
    return found


def sizes_of(families: Mapping[str, str]) -> dict[str, Any]:
    """How many parameters a shape has, by family; "" is a task of which nothing but its bits is known.

    Only what a family stores is held against parameters, so only those that store have sizes of their own.
    """
    sizes = {"": _size(None, "")}
    for name, notion in families.items():
        if notion == STORED:
            sizes[name] = _size(_family(name), notion)
    return sizes


def weigh(interface: Interface) -> dict[str, Any]:
    """The weights of the sum, for an interface."""
    first, last = ((1, 1, 2, 0), (1, 1, 4, 0))
    one, other = (_count(1, shape, interface) - _layer(shape, interface) for shape in (first, last))
    width = (other - one) // 2
    return {"width": width, "fixed": one - 2 * width}


def _size(family: Family | None, notion: str) -> dict[str, Any]:
    terms = np.array([[d * h * s, h * s, d * f, f, d] for h, s, d, f in PROBES], dtype=float)
    layers = np.array([_layer(shape, BARE) for shape in PROBES], dtype=float)
    weights, *_ = np.linalg.lstsq(terms, layers, rcond=None)
    layer = [round(float(weight)) for weight in weights]
    heads, d_head, d_model, _ = PROBES[0]
    span = heads * d_head
    alone = _layer((heads, d_head, d_model, 0), BARE)
    levels = [{"log2": 0.0, **weigh(BARE)}]
    if family is not None:
        demands = {level: family.at(level).demand(notion) for level in family.levels}
        levels = [
            {"log2": math.log2(bits), **weigh(family.at(level).interface)}
            for level, bits in demands.items()
            if bits
        ]
    bare = (alone - layer[0] * d_model * span - layer[1] * span) // d_model
    return {"layer": layer, "bare": bare, "levels": levels}


def _family(name: str) -> Family | None:
    try:
        return tasks.find(name)
    except BadInput:
        return None  # a name that only a table knows


def _layer(shape: tuple[int, int, int, int], interface: Interface) -> int:
    return _count(2, shape, interface) - _count(1, shape, interface)


def _count(layers: int, shape: tuple[int, int, int, int], interface: Interface) -> int:
    return _model(dict(zip(KNOBS, (layers, *shape), strict=True))).parameters(interface)


def _model(shape: Mapping[str, Any]) -> Any:
    return architectures.find(BASE, shape)
