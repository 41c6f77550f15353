"""Shared by the tests: dumps of the C++ library, and the marks that skip."""

import json
import os
import pathlib
import subprocess

import pytest
import torch

import geores

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
TORCH2 = pytest.mark.skipif(not hasattr(torch, "compile"), reason="needs torch 2.4 or later")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def dumps(tmp_path_factory):
    """The cases of dump_connections: (case, tensors) of every variant of every connection."""
    program = os.environ.get("GEORES_DUMP_CONNECTIONS")
    if not program:
        pytest.skip("GEORES_DUMP_CONNECTIONS does not name the program of the build")
    path = tmp_path_factory.mktemp("dumps") / "connections.safetensors"
    subprocess.run([program, str(path)], check=True)
    tensors, metadata = geores.load_safetensors(path, with_metadata=True)
    cases = json.loads(metadata["cases"])
    for i, case in enumerate(cases):
        prefix = f"{i}/"
        case["tensors"] = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
    return [case for case in cases if is_module(case["options"])]


@pytest.fixture(scope="session")
def program():
    path = os.environ.get("GEORES_PROGRAM")
    if not path:
        pytest.skip("GEORES_PROGRAM does not name the program of the build")
    return pathlib.Path(path)


def is_module(options):
    """Sites of V4.1 hand weights on, so they are operations and not modules."""
    return options.get("form") != "v41"


def variants():
    """(name, options) of every structure of every connection."""
    return [(c["name"], options) for c in geores.connections() for options in c["variants"] if is_module(options)]


def name_of(variant):
    name, options = variant
    return "-".join([name] + [f"{key}_{value}" for key, value in options.items()])


def make(variant, width=8, streams=4, dtype=torch.float64, spread=0.2, **kwargs):
    """A connection with every parameter moved away from its start, where many have no gradient."""
    name, options = variant
    conn = geores.Residual(name, width, streams, dtype=dtype, **options, **kwargs)
    with torch.no_grad():
        for parameter in conn.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return conn


def state_for(conn, batch=2, length=5, **kwargs):
    shape = (batch, length, conn.streams, conn.width) if conn.layout == "expand" else (batch, length, conn.width)
    return torch.randn(*shape, dtype=next(conn.parameters()).dtype, **kwargs)


class Sublayer(torch.nn.Module):
    def __init__(self, conn):
        super().__init__()
        width = conn.traits["sublayer_width"]
        self.map = torch.nn.Parameter(torch.randn(width, width, dtype=next(conn.parameters()).dtype))

    def forward(self, u):
        return torch.tanh(u @ self.map)
