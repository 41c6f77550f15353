"""What this build has."""

import pathlib

import torch

from . import _build, _library  # noqa: F401


def status() -> str:
    """Prints version, torch and kernels, and returns the same text."""
    folder = pathlib.Path(__file__).parent
    kernels = torch.ops.geores.has_cuda_kernels()
    if not kernels:
        cuda = "no kernels: built for a torch without CUDA"
    elif not torch.cuda.is_available():
        cuda = "kernels built, but torch sees no GPU"
    else:
        major, minor = torch.cuda.get_device_capability()
        cuda = f"kernels built; {torch.cuda.get_device_name()} (sm_{major}{minor})"
    lines = [
        f"geores       {_build.VERSION} in {folder}",
        f"torch        {torch.__version__} (built for {_build.TORCH})",
        f"CPU          kernels for float32 and float64, {torch.get_num_threads()} threads",
        f"CUDA         {cuda}",
        f"compile      {'torch.compile' if hasattr(torch, 'compile') else 'none: torch.compile needs torch 2'}",
        f"connections  {len(__import__('json').loads(torch.ops.geores.connections()))}",
    ]
    text = "\n".join(lines)
    print(text)
    return text
