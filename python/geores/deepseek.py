"""DeepSeek-V4 of transformers with its streams in geores' operations; weights under their public names."""

import re
import types
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor, nn

from . import ops
from .residual import Residual

_LAYER = ("attn_hc", "ffn_hc", "self_attn", "mlp", "input_layernorm", "post_attention_layernorm")


def _site(hc: nn.Module, streams: Tensor) -> Tuple[Tensor, ops.Mapping]:
    mapping = ops.mhc_mapping(
        streams, hc.fn, hc.scale, hc.base, hc.hc_sinkhorn_iters, hc.input_norm.eps, hc.hc_eps
    )
    return ops.mhc_read(streams, mapping.pre), mapping


def _layer_forward(
    self: nn.Module, hidden_states: Tensor, input_ids: Optional[Tensor] = None, **kwargs: Any
) -> Tensor:
    u, routes = _site(self.attn_hc, hidden_states)
    f = self.self_attn(self.input_layernorm(u), **kwargs)[0]
    hidden_states = ops.mhc_write(hidden_states, f, routes.post, routes.comb)
    u, routes = _site(self.ffn_hc, hidden_states)
    f = self.mlp(self.post_attention_layernorm(u), input_ids=input_ids)
    return ops.mhc_write(hidden_states, f, routes.post, routes.comb)


def _head_forward(self: nn.Module, x: Tensor) -> Tensor:
    return ops.mhc_head(x, self.hc_fn, self.hc_scale, self.hc_base, self.input_norm.eps, self.eps)


class Handle:
    """The modules that apply_to_deepseek_v4() changed. `with` undoes the change at its end."""

    def __init__(self, modules: List[nn.Module]):
        self._modules = modules

    def undo(self) -> None:
        """The model computes as before; a second call does nothing."""
        for module in self._modules:
            module.__dict__.pop("forward", None)
        self._modules = []

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: Any) -> None:
        self.undo()


def apply_to_deepseek_v4(model: nn.Module) -> Handle:
    """Computes the streams of transformers' DeepSeek-V4 in geores: mapping, reading, writing and the head.

    The change is one of each module's forward(); parameters stay what they are. Mapping, read and write work in
    float32, where transformers rounds post and comb to the type of the streams.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a module, got {type(model).__name__}")
    layers = [m for m in model.modules() if all(hasattr(m, name) for name in _LAYER)]
    heads = [m for m in model.modules() if all(hasattr(m, name) for name in ("hc_fn", "hc_scale", "hc_base"))]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no decoder layers with attn_hc and ffn_hc, as DeepSeek-V4 has")
    if len(heads) != 1:
        raise ValueError(f"{type(model).__name__} must have one head with hc_fn, hc_scale and hc_base, got {len(heads)}")
    for i, layer in enumerate(layers):
        if "forward" in layer.__dict__:
            raise ValueError(f"layer {i} has another forward() already: undo() it first")
        for name in ("attn_hc", "ffn_hc"):
            hc = getattr(layer, name)
            n, fn = hc.hc_mult, hc.fn
            if not fn.is_floating_point():
                raise ValueError(f"layer {i}: {name}.fn must have a floating-point type, got {fn.dtype}")
            if fn.dim() != 2 or fn.shape[0] != n * (n + 2):
                raise ValueError(f"layer {i}: {name}.fn must have {n * (n + 2)} rows for {n} streams, got {tuple(fn.shape)}")
    for layer in layers:
        layer.forward = types.MethodType(_layer_forward, layer)
    heads[0].forward = types.MethodType(_head_forward, heads[0])
    return Handle(layers + heads)


# The published checkpoints, and transformers.
_SITES = {
    "attn": ("hc_attn_{}", "attn_hc.{}", ("attn_norm.weight", "input_layernorm.weight")),
    "ffn": ("hc_ffn_{}", "ffn_hc.{}", ("ffn_norm.weight", "post_attention_layernorm.weight")),
}


def load_mhc(
    state_dict: Mapping[str, Tensor],
    layer: int,
    *,
    iterations: int = 20,
    eps: float = 1e-6,
    norm_eps: float = 1e-6,
) -> Dict[str, Residual]:
    """The two connections of a layer from published weights: {"attn": …, "ffn": …}, form v4.

    Names: `layers.i.hc_attn_fn`, `…_base`, `…_scale` and `layers.i.attn_norm.weight` as published, or those of
    transformers, both with any prefix. A layer without norms gets norms of one.
    For V4.1, whose sites read with the weights of the site before, pass the same tensors to ops.mhc_site.
    """
    name_in_layer = re.compile(rf"(?:^|\.)layers\.{layer}\.(.+)$")
    matches = ((name_in_layer.search(name), tensor) for name, tensor in state_dict.items())
    found = {match[1]: tensor for match, tensor in matches if match}
    connections = {}
    for site, (published, transformers, norms) in _SITES.items():
        pattern = published if published.format("fn") in found else transformers
        missing = [pattern.format(part) for part in ("fn", "base", "scale") if pattern.format(part) not in found]
        if missing:
            raise KeyError(f"layer {layer} has no {missing[0]}; its names begin with {sorted(found)[:3]}")
        fn, base, scale = (found[pattern.format(part)].float() for part in ("fn", "base", "scale"))
        n = int((1 + base.numel()) ** 0.5) - 1
        if fn.dim() != 2 or n * (n + 2) != base.numel() or fn.shape[0] != base.numel() or fn.shape[1] % n:
            raise ValueError(f"layer {layer}: fn {tuple(fn.shape)} and base {tuple(base.shape)} do not fit together")
        conn = Residual(
            "mhc", fn.shape[1] // n, n, form="v4", sinkhorn_iterations=iterations, guard=eps, norm_epsilon=norm_eps
        )
        with torch.no_grad():
            for part, begin, end in (("pre", 0, n), ("post", n, 2 * n)):
                group = getattr(conn, part)
                group.weight.copy_(fn[begin:end])
                group.bias.copy_(base[begin:end])
                group.scale.copy_(scale[0 if part == "pre" else 1])
            # comb[j, k] says how stream j goes to stream k, H_res[k, j] the same.
            conn.res.weight.copy_(fn[2 * n :].reshape(n, n, -1).transpose(0, 1).reshape(n * n, -1))
            conn.res.bias.copy_(base[2 * n :].reshape(n, n).T)
            conn.res.scale.copy_(scale[2])
            for norm in norms:
                if norm in found:
                    conn.norm.weight.copy_(found[norm])
        connections[site] = conn
    return connections
