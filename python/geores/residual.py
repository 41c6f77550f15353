"""Residual connections as modules."""

import copy
import difflib
import functools
import json
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from . import _library  # noqa: F401  torch.ops.geores

_HALF = (torch.bfloat16, torch.float16)


@functools.lru_cache(maxsize=None)
def _known() -> Tuple[Dict[str, Any], ...]:
    return tuple(json.loads(torch.ops.geores.connections()))


def connections() -> List[Dict[str, Any]]:
    """Every connection with its summary, paper and options, as `geores list` prints them."""
    return copy.deepcopy(list(_known()))


def _options(name: str) -> List[str]:
    known = [connection["name"] for connection in _known()]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f", did you mean '{near[0]}'?" if near else f"; known: {', '.join(known)}"
        raise ValueError(f"unknown connection '{name}'{hint}")
    return [option["name"] for option in _known()[known.index(name)]["options"]]


class Residual(nn.Module):
    """A residual connection: what replaces ``x + mlp(norm(x))``.

    >>> conn = geores.Residual("mhc", width=64, streams=4, form="v4")
    >>> x = conn.expand(embedding)       # (B, T, C) -> the state (B, T, n, C)
    >>> x = conn(x, mlp)                 # the connection has the norm
    >>> h = conn.collapse(x)             # (B, T, C)

    name: any connection of ``geores.connections()``, which has their options too.
    width: of a stream for layout expand, of the whole state otherwise.
    index: position in the stack; some connections start differently at each one.

    Parameters have the names, shapes and starts of the C++ library. Autograd keeps x, the sublayer's
    output and the parameters; everything else is computed again in the backward pass.
    """

    auxiliary_loss: Optional[Tensor]

    def __init__(
        self,
        name: str,
        width: int,
        streams: int = 4,
        index: int = 0,
        *,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        **options: Any,
    ):
        super().__init__()
        known = _options(name)
        for key in options:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f", did you mean '{near[0]}'?" if near else f"; it has {', '.join(known) or 'none'}"
                raise TypeError(f"'{name}' has no option '{key}'{hint}")
        if name == "mhc" and options.get("form") == "v41":
            raise ValueError(
                "mhc with form='v41' reads with weights of the connection before it, so it is not a module of its own: "
                "compose it from geores.ops.mhc_site"
            )
        for key, value in (("width", width), ("streams", streams), ("index", index)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"'{key}' must be an int, got {value!r}")
        self.name, self.width, self.streams, self.index, self.options = name, width, streams, index, options
        self._connection = json.dumps(
            {"name": name, "width": width, "streams": streams, "index": index, "options": options}
        )
        try:
            self.traits = json.loads(torch.ops.geores.describe(self._connection))
        except RuntimeError as error:
            raise ValueError(str(error).splitlines()[0]) from None
        parameters, buffers = self.traits["parameters"], self.traits["buffers"]
        self._names = tuple(parameters + buffers)
        self._constants = tuple(name for name in buffers if not self.traits["manifold_parameters"])
        for key, value in zip(self._names, self._draw()):
            value = value.to(device=device, dtype=dtype)
            self._register(key, nn.Parameter(value) if key in parameters else value)
        self.auxiliary_loss = None

    # The library's modules have parameters in groups: pre.weight is the weight of the group pre.
    def _register(self, key: str, value: Tensor) -> None:
        *groups, last = key.split(".")
        module: nn.Module = self
        for group in groups:
            if not hasattr(module, group):
                module.add_module(group, _Group())
            module = getattr(module, group)
        if not isinstance(value, nn.Parameter):
            module.register_buffer(last, value)
        elif hasattr(module, last):  # ddl has a parameter named as the method read()
            module._parameters[last] = value
        else:
            module.register_parameter(last, value)

    def _get(self, key: str) -> Tensor:
        if key in self._parameters:
            return self._parameters[key]
        value: Any = self
        for part in key.split("."):
            value = getattr(value, part)
        return value

    def _state(self) -> List[Tensor]:
        return [self._get(name) for name in self._names]

    def _draw(self, generator: Optional[torch.Generator] = None) -> List[Tensor]:
        seed = torch.randint(2**62, (), generator=generator).item()
        return torch.ops.geores.draw_state(self._connection, seed)

    @torch.no_grad()
    def reset_parameters(self, generator: Optional[torch.Generator] = None) -> None:
        """Draws all parameters again, from the generator or from torch's own."""
        for key, value in zip(self._names, self._draw(generator)):
            self._get(key).copy_(value)

    def _apply(self, fn, *args, **kwargs):
        super()._apply(fn, *args, **kwargs)
        # Constants of the connection: a model in bfloat16 keeps them exactly.
        if any(self._get(key).dtype in _HALF for key in self._constants):
            state = dict(zip(self._names, torch.ops.geores.draw_state(self._connection, 0)))
            for key in self._constants:
                if self._get(key).dtype in _HALF:
                    *groups, last = key.split(".")
                    owner = self.get_submodule(".".join(groups))
                    setattr(owner, last, state[key].to(self._get(key).device))
        return self

    def __getstate__(self) -> Dict[str, Any]:
        # The loss of the last pass belongs to its graph, not to the module.
        return {**self.__dict__, "auxiliary_loss": None}

    @property
    def layout(self) -> str:
        """whole, split (the width is cut into streams) or expand (streams of the full width)."""
        return self.traits["layout"]

    def expand(self, h: Tensor) -> Tensor:
        """An embedding (B, T, C) as a state: n copies for layout expand, unchanged otherwise."""
        _expect_tensor("h", h)
        if h.dim() != 3 or h.shape[-1] != self.width:
            raise ValueError(f"h must be (B, T, {self.width}), got {tuple(h.shape)}")
        if self.layout != "expand":
            return h
        return h.unsqueeze(-2).repeat(1, 1, self.streams, 1)

    def collapse(self, x: Tensor) -> Tensor:
        """The state after the last connection as (B, T, C): the sum of the streams for layout expand."""
        _expect_tensor("x", x)
        if self.layout != "expand":
            return x
        if x.dim() != 4 or tuple(x.shape[-2:]) != (self.streams, self.width):
            raise ValueError(f"x must be (B, T, {self.streams}, {self.width}), got {tuple(x.shape)}")
        kind = torch.float32 if x.dtype in _HALF else x.dtype
        return x.sum(-2, dtype=kind).to(x.dtype)

    def read(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        """The sublayer's input and the context for write(). Keeps the auxiliary loss of this pass."""
        _expect_tensor("x", x)
        out = torch.ops.geores.residual_read(x, self._state(), self._connection)
        self.auxiliary_loss = out[1] if len(out) > 1 else None
        return out[0], x

    def write(self, context: Tensor, f: Tensor) -> Tensor:
        """The state after a sublayer with output f."""
        _expect_tensor("context", context)
        _expect_tensor("f", f)
        return torch.ops.geores.residual_write(context, f, self._state(), self._connection)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if not callable(sublayer):
            raise TypeError(f"the sublayer must be callable, got {type(sublayer).__name__}")
        u, context = self.read(x)
        return self.write(context, sublayer(u))

    @torch.no_grad()
    def probes(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Dict[str, Tensor]:
        """Values inside of a pass, by name: operator, pre, post, gamma, beta, angle where they exist."""
        u, context = self.read(x)
        return torch.ops.geores.residual_probes(context, sublayer(u), self._state(), self._connection)

    def manifold_parameters(self) -> List[nn.Parameter]:
        """Parameters that manifold_step() updates; leave them out of the optimizer."""
        return [self._get(key) for key in self.traits["manifold_parameters"]]

    @torch.no_grad()
    def manifold_step(self) -> None:
        """One Riemannian step of manifold_parameters(), by their gradients."""
        if not self.traits["manifold_parameters"]:
            return
        state = self._state()
        none = torch.empty(0)
        gradients = [none if value.grad is None else value.grad for value in state]
        stepped = torch.ops.geores.manifold_step(state, gradients, self._connection)
        for key, old, new in zip(self._names, state, stepped):
            if key in self.traits["manifold_parameters"] or key in self.traits["buffers"]:
                old.copy_(new)

    def decay_groups(self) -> Tuple[List[nn.Parameter], List[nn.Parameter]]:
        """Parameters with weight decay and those without, as the program has them."""
        groups: Tuple[List[nn.Parameter], List[nn.Parameter]] = ([], [])
        for key in self.traits["parameters"]:
            if key in self.traits["manifold_parameters"]:
                continue
            value = self._get(key)
            decays = (value.dim() >= 2) != (key in self.traits["decay_exceptions"])
            groups[0 if decays else 1].append(value)
        return groups

    def extra_repr(self) -> str:
        shown = [f"'{self.name}'", f"width={self.width}"]
        if self.layout != "whole":
            shown.append(f"streams={self.streams}")
        if self.index:
            shown.append(f"index={self.index}")
        return ", ".join(shown + [f"{key}={value!r}" for key, value in self.options.items()])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


class _Group(nn.Module):
    """Parameters under a common name."""


def _expect_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")
