"""A posterior as one netCDF file: every quantity with its chains, draws and names, for ArviZ and xarray.

netCDF-3, which scipy writes and scipy comes with JAX. It has no groups, so a file is the *posterior group*
of what ArviZ calls inference data, and one line puts it there (`pip install 'ullage[bayes]'` has both):

    data = arviz.InferenceData(posterior=xarray.open_dataset("posterior.nc", engine="scipy"))

>>> dimensions_of("pair", 4)
('chain', 'draw', 'model', 'family')
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ullage.errors import BadInput
from ullage.posterior import Posterior
from ullage.sampler import CHAINS

SUFFIX = ".nc"
# What the axes behind chains and draws are, by the name of the quantity; all others are of families.
AXES: Mapping[str, tuple[str, ...]] = {
    "model": ("model",),
    "pair": ("model", "family"),
    "technique": ("technique",),
    "technique_family": ("technique", "family"),
}


def dimensions_of(name: str, axes: int) -> tuple[str, ...]:
    """The names of a quantity's axes."""
    return ("chain", "draw", *(AXES.get(name, ("family",)) if axes > 2 else ()))


def write_posterior(posterior: Posterior, path: Path) -> int:
    """Write a posterior; the number of quantities."""
    from scipy.io import netcdf_file

    conditions = posterior.conditions
    names = {
        "family": conditions.families,
        "model": tuple(model.model_id for model in conditions.models),
        "technique": conditions.techniques,
    }
    with _told(path), netcdf_file(path, "w") as file:
        for dimension, size in (("chain", CHAINS), ("draw", posterior.count // CHAINS)):
            file.createDimension(dimension, size)
            _variable(file, dimension, np.arange(size, dtype=np.int32), (dimension,))
        for dimension, labels in names.items():
            file.createDimension(dimension, len(labels))
            _labels(file, dimension, labels)
        for name, draws in posterior.draws.items():
            values = draws.reshape(CHAINS, -1, *draws.shape[1:])
            # A quantity may have the name of an axis: "model" is what each model has of its own.
            own = f"{name}_effect" if name in names else name
            _variable(file, own, values, dimensions_of(name, values.ndim))
        file.demand_notion = conditions.notion.encode()
        file.scatter = posterior.scatter.encode()
    return len(posterior.draws)


def _variable(file: Any, name: str, values: np.ndarray, dimensions: Sequence[str]) -> None:
    file.createVariable(name, values.dtype.char, tuple(dimensions))[:] = values


def _labels(file: Any, dimension: str, labels: Sequence[str]) -> None:
    """Names as rows of bytes, which is how netCDF-3 has text."""
    encoded = [label.encode() for label in labels]
    width = max(map(len, encoded))
    file.createDimension(f"{dimension}_bytes", width)
    variable = file.createVariable(dimension, "c", (dimension, f"{dimension}_bytes"))
    variable._Encoding = b"utf-8"  # noqa: SLF001 - the attribute by which readers know the encoding
    for place, label in enumerate(encoded):
        variable[place] = np.frombuffer(label.ljust(width, b"\0"), dtype="S1")


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses becomes a sentence."""
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror or error}); choose another place"
        ) from None
