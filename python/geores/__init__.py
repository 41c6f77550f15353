"""Residual connections for transformers: hyper-connections, mHC and others, in PyTorch."""

from . import _build
from . import ops
from .files import load_safetensors
from .residual import Residual, connections
from .status import status

__version__ = _build.VERSION
__all__ = ["Residual", "connections", "load_safetensors", "ops", "status"]
