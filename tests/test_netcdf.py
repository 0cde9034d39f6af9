"""A posterior as netCDF: other tools find every draw, its chain and its names."""

import dataclasses
import json

import numpy as np
import pytest
from hand_made import posterior_of, simulated
from scipy.io import netcdf_file
from test_cli import run

from ullage import kept
from ullage.capacity import DEFAULT_SETTINGS, prepared
from ullage.errors import BadInput
from ullage.netcdf import write_posterior
from ullage.observations import observe
from ullage.sampler import CHAINS
from ullage.shipped import shipped_records
from ullage.store import KEPT, open_store


def variables(path):
    """Each variable with its axes and its values; names are joined to words."""
    with netcdf_file(path, "r", mmap=False) as file:
        return {name: (one.dimensions, np.array(one[:])) for name, one in file.variables.items()}


def words(values):
    return [b"".join(row).rstrip(b"\0").decode() for row in values]


def test_every_quantity_is_there_by_chain_and_draw(tmp_path):
    posterior = posterior_of(simulated())
    count = write_posterior(posterior, tmp_path / "posterior.nc")
    found = variables(tmp_path / "posterior.nc")
    axes, pair = found["pair"]

    assert count == len(posterior.draws)
    assert axes == ("chain", "draw", "model", "family")
    assert pair.shape[0] == CHAINS
    assert (pair.reshape(posterior.draws["pair"].shape) == posterior.draws["pair"]).all()
    assert (found["typical"][1].ravel() == posterior.draws["typical"]).all()
    assert found["model_effect"][0] == ("chain", "draw", "model")


def test_families_models_and_techniques_have_their_names(tmp_path):
    posterior = posterior_of(simulated())
    named = dataclasses.replace(posterior.conditions, families=("copy", "modulo", "parität:basis=7"))
    write_posterior(dataclasses.replace(posterior, conditions=named), tmp_path / "posterior.nc")
    found = variables(tmp_path / "posterior.nc")

    assert words(found["family"][1]) == list(named.families)
    assert words(found["model"][1]) == ["nano", "small"]
    assert words(found["technique"][1]) == ["none"]


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(BadInput, match="cannot be written"):
        write_posterior(posterior_of(simulated()), tmp_path / "nowhere" / "posterior.nc")


def test_export_writes_the_posterior_of_a_store(tmp_path, capsys):
    store, file = tmp_path / "store", tmp_path / "posterior.nc"
    with open_store(store) as opened:
        for record in shipped_records():
            opened.append(record, ())
    conditions, effort, _ = prepared(observe(shipped_records()), "nominal")
    posterior = dataclasses.replace(posterior_of(conditions), effort=effort)
    kept.save(posterior, store / KEPT, kept.identity(conditions, effort, DEFAULT_SETTINGS))
    code, out, _ = run(capsys, "export", file, "--store", store, "--json")

    assert code == 0
    assert json.loads(out)["rows"] == posterior.count
    assert words(variables(file)["family"][1]) == list(conditions.families)


def test_an_empty_store_has_no_posterior(tmp_path, capsys):
    code, _, err = run(capsys, "export", tmp_path / "posterior.nc", "--store", tmp_path / "store")

    assert code == 2
    assert "no run is left to fit" in err
