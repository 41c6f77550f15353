"""Operations on streams, with gradients: the functions of torch.ops.geores with their documentation.

Each one works under torch.compile and in CUDA graphs. None has a second derivative.
"""

from typing import NamedTuple, Tuple

import torch
from torch import Tensor

from . import _library  # noqa: F401  torch.ops.geores

_ops = torch.ops.geores


class Mapping(NamedTuple):
    """The routes of DeepSeek-V4's hyper-connection: pre and post (..., n), comb (..., n, n)."""

    pre: Tensor
    post: Tensor
    comb: Tensor


class Site(NamedTuple):
    """The streams after a site of V4.1, the input of its sublayer, and its mapping."""

    x: Tensor
    u: Tensor
    pre: Tensor
    post: Tensor
    comb: Tensor


def mhc_mapping(
    x: Tensor, fn: Tensor, scale: Tensor, base: Tensor, iterations: int = 20, norm_eps: float = 1e-6, eps: float = 1e-6
) -> Mapping:
    """The mapping of DeepSeek-V4's mHC under its public names, in float32 (float64 for a float64 x).

    x (..., n, C), fn (2n + n², n·C), scale (3,), base (2n + n²,); pre, post, comb in that order.
    comb[j, k] says how stream j goes to stream k.
    """
    return Mapping(*_ops.mhc_mapping(x, fn, scale, base, iterations, norm_eps, eps))


def mhc_read(x: Tensor, pre: Tensor) -> Tensor:
    """The sublayer's input Σ_k pre_k x_k: x (..., n, C), pre (..., n) -> (..., C)."""
    return _ops.mhc_read(x, pre)


def mhc_write(x: Tensor, f: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """The streams after a sublayer: x'_k = post_k f + Σ_j comb[j, k] x_j, rounded once to x's type."""
    return _ops.mhc_write(x, f, post, comb)


def mhc_head(
    x: Tensor, fn: Tensor, scale: Tensor, base: Tensor, norm_eps: float = 1e-6, eps: float = 1e-6
) -> Tensor:
    """The end of V4's stack, a weighted sum of the streams: fn (n, n·C), scale (1,), base (n,) -> (..., C)."""
    return _ops.mhc_head(x, fn, scale, base, norm_eps, eps)


def mhc_site(
    x: Tensor,
    f: Tensor,
    pre: Tensor,
    post: Tensor,
    comb: Tensor,
    fn: Tensor,
    scale: Tensor,
    base: Tensor,
    iterations: int = 20,
    norm_eps: float = 1e-6,
    eps: float = 1e-6,
) -> Site:
    """A site of DeepSeek-V4.1 in one pass.

    x' = mhc_write(x, f, post, comb) finishes the sublayer before it; u = mhc_read(x', pre) is the input of its
    own sublayer, with `pre` of the site before it; the new mapping is that of x'.
    """
    return Site(*_ops.mhc_site(x, f, pre, post, comb, fn, scale, base, iterations, norm_eps, eps))


def sinkhorn(
    logits: Tensor,
    iterations: int = 20,
    gradient: str = "implicit",
    order: str = "columns_last",
    logit_bound: float = 10.0,
) -> Tensor:
    """Doubly stochastic matrices from logits (..., n, n) by Sinkhorn-Knopp in log space.

    gradient: "implicit" (of the fixed point), "unrolled" (of the iterations) or "gauss_seidel".
    order: the sums that are exact, "rows_last" or "columns_last". logit_bound 0: no clamp.
    """
    return _ops.sinkhorn(logits, iterations, gradient, order, logit_bound)


def cayley(m: Tensor) -> Tensor:
    """(I + m)⁻¹(I − m) of skew matrices (..., n, n): rotations."""
    return _ops.cayley(m)


def cayley_rotation(u: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """The rotation of EΔ in the plane of u and v (..., n), beta (..., 1) -> (..., n, n), in closed form."""
    return _ops.cayley_rotation(u, v, beta)


def householder(k: Tensor) -> Tensor:
    """I − 2 k kᵀ of unit vectors (..., n) -> (..., n, n)."""
    return _ops.householder(k)


def mix_and_write(res: Tensor, x: Tensor, write: Tensor, y: Tensor) -> Tensor:
    """Σ_j res_ij x_j + write_i y: res (B, T, n, n), x (B, T, n, C), write (B, T, n), y (B, T, C)."""
    return _ops.mix_and_write(res, x, write, y)


def collect_and_norm(read: Tensor, x: Tensor, weight: Tensor, tiles: int = 1) -> Tensor:
    """LayerNorm of Σ_j read_j x_j: read (B, T, n), x (B, T, n, C), weight (tiles·C,) -> (B, T, tiles·C)."""
    return _ops.collect_and_norm(read, x, weight, tiles)


def mix_and_norm(m: Tensor, x: Tensor, weight: Tensor) -> Tuple[Tensor, Tensor]:
    """The mixed streams M x and their LayerNorm: m (B, T, n, n), x (B, T, n·d)."""
    return _ops.mix_and_norm(m, x, weight)


def causal_attention(qkv: Tensor, heads: int) -> Tensor:
    """Causal self-attention from queries, keys and values side by side: (B, T, 3w) -> (B, T, w)."""
    return _ops.causal_attention(qkv, heads)


def layer_norm(x: Tensor, weight: Tensor, bias: "Tensor | None" = None) -> Tensor:
    """LayerNorm over the last axis, with epsilon 1e-5."""
    return _ops.layer_norm(x, weight, bias)


def rms_normalize(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x²) + eps) over the last axis."""
    return _ops.rms_normalize(x, eps)
