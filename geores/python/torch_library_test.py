#!/usr/bin/env python3
"""The fused operations from Python: torch.ops.geores.* equal PyTorch's own, gradients included."""
import math
import sys

try:
    import torch
except ImportError:
    print("python3-torch is not installed: skipped")
    sys.exit(77)

torch.ops.load_library(sys.argv[1])
torch.manual_seed(1)


def check(name, fused, composed, *inputs):
    results = []
    for f in (fused, composed):
        leaves = [x.clone().requires_grad_(True) for x in inputs]
        out = f(*leaves)
        torch.manual_seed(2)
        (out * torch.randn_like(out)).sum().backward()
        results.append([out] + [x.grad for x in leaves])
    for ours, theirs in zip(*results):
        assert torch.allclose(ours, theirs, atol=1e-10), name


def attention(qkv):
    q, k, v = qkv.view(2, 9, 3, 2, 4).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(4)
    mask = torch.ones(9, 9, dtype=torch.bool).triu(1)
    return (scores.masked_fill(mask, -math.inf).softmax(-1) @ v).transpose(1, 2).flatten(2)


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


ops = torch.ops.geores
F = torch.nn.functional
check("causal_attention", lambda x: ops.causal_attention(x, 2), attention, random(2, 9, 24))
check("perceptron", ops.perceptron, lambda x, a, b: F.linear(F.gelu(F.linear(x, a)), b),
      random(7, 5), random(9, 5), random(5, 9))
check("layer_norm", ops.layer_norm, lambda x, w: F.layer_norm(x, (7,), w), random(3, 7), random(7))
print("torch.ops.geores agrees with PyTorch")
