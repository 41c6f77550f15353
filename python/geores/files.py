"""Safetensors, without a package for it."""

import json
import pathlib
from typing import Dict, Tuple, Union

import torch
from torch import Tensor

_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def load_safetensors(
    path: Union[str, pathlib.Path], with_metadata: bool = False
) -> Union[Dict[str, Tensor], Tuple[Dict[str, Tensor], Dict[str, str]]]:
    """The tensors of a file by name, on the CPU; with_metadata: and its metadata."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError(f"{path} is not a safetensors file")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    values = torch.frombuffer(bytearray(data[8 + length :]) or bytearray(1), dtype=torch.uint8)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = _TYPES[entry["dtype"]]
        # A copy of its own: offsets in a file need not be aligned.
        tensors[name] = values[begin:end].clone().view(kind).reshape(entry["shape"])
    return (tensors, metadata) if with_metadata else tensors
