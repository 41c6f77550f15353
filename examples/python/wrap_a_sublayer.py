#!/usr/bin/env python3
"""A residual connection around your own sublayer: what replaces x + mlp(norm(x))."""

import torch

import geores

width, streams = 64, 4
mlp = torch.nn.Sequential(torch.nn.Linear(width, 256), torch.nn.GELU(), torch.nn.Linear(256, width))
layers = torch.nn.ModuleList(geores.Residual("mhc", width, streams, index=i, form="v4") for i in range(2))

x = layers[0].expand(torch.randn(2, 16, width))  # (B, T, C) -> the state (B, T, n, C)
for layer in layers:
    x = layer(x, mlp)  # the connection has the norm
h = layers[-1].collapse(x)  # (B, T, C)
h.square().mean().backward()

print(layers[0])
print("h", tuple(h.shape), "mixer", tuple(layers[0].probes(x, mlp)["operator"].shape))
