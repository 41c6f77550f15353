"""Loads libgeores_python.so, after comparing the torch that runs with the one of the build."""

import pathlib

import torch

from . import _build


def _version(text):
    return ".".join(text.split("+")[0].split(".")[:2])


def load():
    """Makes torch.ops.geores available; an ImportError in one line where this build does not fit."""
    if _version(torch.__version__) != _build.TORCH:
        raise ImportError(
            f"geores was built for torch {_build.TORCH}, and this is torch {torch.__version__}: build it again"
        )
    if _build.CUDA and torch.version.cuda is None:
        raise ImportError("geores was built for a torch with CUDA, and this torch has none: build it again")
    path = pathlib.Path(__file__).parent / "libgeores_python.so"
    if not path.is_file():
        raise ImportError(f"geores is not built: {path} is missing; scripts/python builds it")
    torch.ops.load_library(str(path))


load()
