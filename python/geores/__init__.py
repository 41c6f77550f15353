"""Residual connections for transformers: hyper-connections, mHC and others, in PyTorch."""

from . import _build, nn, ops
from .deepseek import apply_to_deepseek_v4, load_mhc
from .files import load_safetensors, save_safetensors
from .residual import Residual, connections
from .run import Run
from .status import status

__version__ = _build.VERSION
__all__ = [
    "Residual",
    "Run",
    "apply_to_deepseek_v4",
    "connections",
    "load_mhc",
    "load_safetensors",
    "nn",
    "ops",
    "save_safetensors",
    "status",
]
