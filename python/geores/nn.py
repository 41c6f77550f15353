"""A small causal transformer with any residual connection, short enough to copy.

Parameters have the names of the program's transformer, so its checkpoints load here and the other way round.
"""

import math
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import ops
from .residual import Residual


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values, without biases."""

    def __init__(self, width: int, heads: int, rotary: bool = False):
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} is not divisible by {heads} heads")
        self.heads, self.rotary = heads, rotary
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(x)
        if self.rotary:
            q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).unbind(2)
            qkv = torch.stack([_rotated(q), _rotated(k), v], 2).flatten(2)
        return self.out(_attention(qkv, self.heads))


class Mlp(nn.Module):
    """GELU with a hidden width of 4w, or SwiGLU with about as many weights; without biases."""

    def __init__(self, width: int, kind: str = "gelu"):
        super().__init__()
        if kind not in ("gelu", "swiglu"):
            raise ValueError(f"mlp must be gelu or swiglu, got '{kind}'")
        self.kind = kind
        hidden = 4 * width if kind == "gelu" else -(-8 * width // 24) * 8
        if kind == "gelu":
            self.up = nn.Linear(width, hidden, bias=False)
        else:
            self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "gelu":
            return self.down(F.gelu(self.up(x)))
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    """Attention and an MLP, each inside a connection that replaces x + f(norm(x))."""

    def __init__(
        self,
        connection: str,
        width: int,
        heads: int,
        streams: int = 4,
        index: int = 0,
        rotary: bool = False,
        mlp: str = "gelu",
        **options: Any,
    ):
        super().__init__()
        self.attention_residual = Residual(connection, width, streams, 2 * index, **options)
        self.mlp_residual = Residual(connection, width, streams, 2 * index + 1, **options)
        inner = self.attention_residual.traits["sublayer_width"]
        # A connection may give its sublayers one stream: then as many heads as fit.
        fitting = next(h for h in range(min(heads, inner), 0, -1) if inner % h == 0)
        self.attention = Attention(inner, fitting, rotary)
        self.mlp = Mlp(inner, mlp)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp_residual(self.attention_residual(x, self.attention), self.mlp)


class Stack(nn.Module):
    """Token ids (B, T) -> logits (B, T, vocabulary): embedding, blocks, a norm and the tied head."""

    def __init__(
        self,
        connection: str,
        vocabulary: int,
        layers: int = 6,
        width: int = 128,
        heads: int = 4,
        context: int = 256,
        streams: int = 4,
        rotary: bool = False,
        mlp: str = "gelu",
        **options: Any,
    ):
        super().__init__()
        blocks = [Block(connection, width, heads, streams, i, rotary, mlp, **options) for i in range(layers)]
        self.context, self.blocks = context, nn.ModuleList(blocks)
        conn = blocks[0].attention_residual
        if not conn.traits["causal"]:
            raise ValueError(f"'{connection}' with these options lets a token see later ones; take pool='causal'")
        if options.get("head") == "learned":
            eps = max(options.get("norm_epsilon", 0) or (1e-6 if options.get("form") == "v4" else 0), 1e-20)
            self.head = StreamHead(streams, width, eps, options.get("guard", 1e-6))
        self.final_norm = LayerNorm(width)
        self.embedding = nn.Parameter(torch.randn(vocabulary, width) * 0.02)
        if not rotary:
            self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        for name, weight in self.named_parameters():
            if ".attention." in name or ".mlp." in name:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * layers) if last else 0.02)

    def forward(self, ids: Tensor, targets: Optional[Tensor] = None) -> Tensor:
        """Logits; with targets, the mean cross-entropy and the connections' auxiliary losses."""
        if ids.dim() != 2 or ids.is_floating_point() or ids.shape[1] > self.context:
            raise ValueError(f"ids must be int64 (B, T) with T <= {self.context}, got {ids.dtype} {tuple(ids.shape)}")
        h = self.embedding[ids]
        if hasattr(self, "positions"):
            h = h + self.positions[: ids.shape[1]]
        ends = self.blocks[0].attention_residual
        x = ends.expand(h)
        losses = []
        for block in self.blocks:
            x = block(x)
            for conn in (block.attention_residual, block.mlp_residual):
                if conn.auxiliary_loss is not None:
                    losses.append(conn.auxiliary_loss)
        h = self.head(x) if hasattr(self, "head") else ends.collapse(x)
        logits = self.final_norm(h) @ self.embedding.T
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) + sum(losses)


class LayerNorm(nn.Module):
    """LayerNorm with a weight and no bias."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight)


class StreamHead(nn.Module):
    """The end of DeepSeek-V4's stack: a learned weighted sum of the streams instead of their sum."""

    def __init__(self, streams: int, width: int, norm_eps: float = 1e-6, eps: float = 1e-6):
        super().__init__()
        self.norm_eps, self.eps = norm_eps, eps
        self.weights = nn.Module()
        self.weights.weight = nn.Parameter(torch.zeros(streams, streams * width))
        self.weights.bias = nn.Parameter(torch.zeros(streams))
        self.weights.scale = nn.Parameter(torch.full((1,), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        w = self.weights
        return ops.mhc_head(x, w.weight, w.scale, w.bias, self.norm_eps, self.eps)


def _attention(qkv: Tensor, heads: int) -> Tensor:
    if not hasattr(F, "scaled_dot_product_attention"):  # torch 1.13
        return ops.causal_attention(qkv, heads)
    q, k, v = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def _rotated(x: Tensor) -> Tensor:
    """Rotary positions of heads (B, T, h, d): the pair (i, i + d/2) at position m turns by m·10000^(−2i/d)."""
    half = x.shape[-1] // 2
    frequency = 10000 ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angle = torch.arange(x.shape[1], device=x.device, dtype=torch.float64)[:, None] * frequency
    cosine, sine = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)
