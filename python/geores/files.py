"""Safetensors files, read and written without another package."""

import json
import pathlib
from typing import Any, Dict, Optional, Tuple, Union

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


def save_safetensors(
    tensors: Dict[str, Tensor], path: Union[str, pathlib.Path], metadata: Optional[Dict[str, str]] = None
) -> None:
    """Writes tensors by name, and texts by name as metadata; the program reads such files."""
    names = {kind: name for name, kind in _TYPES.items()}
    header: Dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = []
    end = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in names:
            raise ValueError(f"{name} has type {tensor.dtype}, which safetensors does not have")
        values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + values.numel()],
        }
        data.append(values.numpy().tobytes())
        end += values.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))
