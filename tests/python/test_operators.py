"""The operators: equal to PyTorch's own operations, eager and traced, gradients included."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import geores
from conftest import Sublayer, make, name_of, state_for, variants

ops = torch.ops.geores


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def attention(qkv):
    q, k, v = qkv.view(2, 9, 3, 2, 4).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(4)
    mask = torch.ones(9, 9, dtype=torch.bool).triu(1)
    return (scores.masked_fill(mask, -math.inf).softmax(-1) @ v).transpose(1, 2).flatten(2)


def unrolled_sinkhorn(logits):
    for _ in range(20):
        logits = logits - logits.logsumexp(-1, keepdim=True)
        logits = logits - logits.logsumexp(-2, keepdim=True)
    return logits.exp()


def mapping(x, fn, scale, base, eps=1e-6):
    """DeepSeek-V4's mapping, written from its definition."""
    n = x.shape[-2]
    flat = x.flatten(-2)
    m = F.linear(flat, fn) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + eps)
    pre, post, comb = m.split([n, n, n * n], -1)
    b = base.split([n, n, n * n])
    comb = (comb * scale[2] + b[2]).unflatten(-1, (n, n)).softmax(-1) + eps
    comb = comb / (comb.sum(-2, keepdim=True) + eps)
    for _ in range(19):
        comb = comb / (comb.sum(-1, keepdim=True) + eps)
        comb = comb / (comb.sum(-2, keepdim=True) + eps)
    return (
        torch.sigmoid(pre * scale[0] + b[0]) + eps,
        2 * torch.sigmoid(post * scale[1] + b[1]),
        comb,
    )


def written(x, f, post, comb):
    return post.unsqueeze(-1) * f.unsqueeze(-2) + comb.transpose(-1, -2) @ x


def head(x, fn, scale, base, eps=1e-6):
    flat = x.flatten(-2)
    m = F.linear(flat, fn) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + eps)
    return ((torch.sigmoid(m * scale + base) + eps).unsqueeze(-1) * x).sum(-2)


def site(x, f, pre, post, comb, fn, scale, base):
    x = written(x, f, post, comb)
    return (x, (pre.unsqueeze(-1) * x).sum(-2), *mapping(x, fn, scale, base))


X, F_, PRE, COMB = (2, 5, 3, 8), (2, 5, 8), (2, 5, 3), (2, 5, 3, 3)
WEIGHTS = ((15, 24), (3,), (15,))

# name: (the operator, its definition, sizes of the inputs)
CASES = {
    "linear_map": (ops.linear_map, F.linear, [(4, 7), (5, 7), (5,)]),
    "perceptron": (
        ops.perceptron,
        lambda x, a, b: F.linear(F.gelu(F.linear(x, a)), b),
        [(7, 5), (9, 5), (5, 9)],
    ),
    "gelu": (ops.gelu, F.gelu, [(3, 7)]),
    "causal_attention": (lambda x: ops.causal_attention(x, 2), attention, [(2, 9, 24)]),
    "layer_norm": (ops.layer_norm, lambda x, w: F.layer_norm(x, (7,), w), [(3, 7), (7,)]),
    "rms_normalize": (
        ops.rms_normalize,
        lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
        [(2, 3, 7)],
    ),
    "running_mean": (
        ops.running_mean,
        lambda x: x.cumsum(1) / torch.arange(1, 6, dtype=x.dtype)[:, None],
        [(2, 5, 3)],
    ),
    "sinkhorn": (
        lambda x: ops.sinkhorn(x, 20, "unrolled", "columns_last", 0.0),
        unrolled_sinkhorn,
        [(2, 3, 4, 4)],
    ),
    "cayley": (
        lambda a: ops.cayley(a - a.transpose(-1, -2)),
        lambda a: torch.linalg.solve(
            torch.eye(4, dtype=a.dtype) + a - a.transpose(-1, -2),
            torch.eye(4, dtype=a.dtype) - a + a.transpose(-1, -2),
        ),
        [(2, 3, 4, 4)],
    ),
    "householder": (
        ops.householder,
        lambda k: torch.eye(4, dtype=k.dtype) - 2 * k.unsqueeze(-1) * k.unsqueeze(-2),
        [(2, 3, 4)],
    ),
    "mix_and_write": (
        ops.mix_and_write,
        lambda m, x, w, y: m @ x + w.unsqueeze(-1) * y.unsqueeze(-2),
        [COMB, X, PRE, F_],
    ),
    "collect_and_norm": (
        ops.collect_and_norm,
        lambda r, x, w: F.layer_norm((r.unsqueeze(-1) * x).sum(-2), (8,), w),
        [PRE, X, (8,)],
    ),
    "mhc_mapping": (geores.ops.mhc_mapping, mapping, [X, *WEIGHTS]),
    "mhc_read": (geores.ops.mhc_read, lambda x, pre: (pre.unsqueeze(-1) * x).sum(-2), [X, PRE]),
    "mhc_write": (geores.ops.mhc_write, written, [X, F_, PRE, COMB]),
    "mhc_head": (geores.ops.mhc_head, head, [X, (3, 24), (1,), (3,)]),
    "mhc_site": (geores.ops.mhc_site, site, [X, F_, PRE, PRE, COMB, *WEIGHTS]),
}


def cotangent(value):
    return torch.arange(value.numel(), dtype=value.dtype).cos().view(value.shape)


def outputs_and_gradients(function, inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = function(*leaves)
    out = [out] if isinstance(out, torch.Tensor) else list(out)
    loss = sum((value * cotangent(value)).sum() for value in out)
    return out + list(torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("name", CASES)
def test_an_operator_equals_its_definition(name):
    operator, definition, sizes = CASES[name]
    inputs = [random(*size) for size in sizes]
    for ours, theirs in zip(*(outputs_and_gradients(f, inputs) for f in (operator, definition))):
        assert ours.shape == theirs.shape
        assert (ours - theirs).abs().max() < 1e-10


@pytest.mark.parametrize("name", CASES)
def test_a_traced_operator_is_one_node_each_way_and_equals_the_eager_one(name):
    operator, _, sizes = CASES[name]
    inputs = [random(*size) for size in sizes]

    def run(*inputs):
        return outputs_and_gradients(operator, inputs)

    graph = make_fx(run)(*inputs)
    names = [str(node.target) for node in graph.graph.nodes if "geores" in str(node.target)]
    assert len(names) == 2 and "backward" in names[1], names
    for traced, eager in zip(graph(*inputs), run(*inputs)):
        assert (traced - eager).abs().max() < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_meta_tensors_have_the_sizes_of_the_results(name):
    operator, _, sizes = CASES[name]
    real = operator(*(random(*size) for size in sizes))
    meta = operator(*(random(*size).to("meta") for size in sizes))
    real, meta = (([x] if isinstance(x, torch.Tensor) else list(x)) for x in (real, meta))
    for a, b in zip(real, meta):
        assert b.is_meta and (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


@pytest.mark.parametrize("variant", variants(), ids=name_of)
def test_a_traced_connection_equals_the_eager_one(variant):
    conn = make(variant)
    sublayer = Sublayer(conn)
    parameters = list(conn.parameters())

    def run(x):
        out = conn(x, sublayer)
        return [out, *torch.autograd.grad(out.square().sum(), parameters)]

    x = state_for(conn)
    graph = make_fx(run)(x)
    assert any("residual_write_backward" in str(node.target) for node in graph.graph.nodes)
    for traced, eager in zip(graph(x), run(x)):
        assert (traced - eager).abs().max() < 1e-12


def test_the_mapping_is_computed_in_float32():
    x, fn = random(2, 5, 4, 16), random(24, 64) / 8
    scale, base = torch.ones(3, dtype=torch.float64), random(24)
    exact = geores.ops.mhc_mapping(x.bfloat16().double(), fn, scale, base)
    half = geores.ops.mhc_mapping(x.bfloat16(), fn.float(), scale.float(), base.float())
    for a, b in zip(exact, half):
        assert b.dtype == torch.float32
        assert (a - b).abs().max() < 1e-5
    assert (half.comb.sum(-2) - 1).abs().max() < 1e-4


def test_half_precision_streams_are_rounded_once():
    x, f = random(2, 5, 4, 16), random(2, 5, 16)
    post, comb = random(2, 5, 4), random(2, 5, 4, 4)
    half = geores.ops.mhc_write(x.bfloat16(), f.bfloat16(), post.float(), comb.float())
    exact = geores.ops.mhc_write(x.bfloat16().double(), f.bfloat16().double(), post.float().double(), comb.float().double())
    assert half.dtype == torch.bfloat16
    assert (half.double() - exact).norm() < 2**-8 * exact.norm()


@pytest.mark.parametrize("leading", [(5,), (2, 5), (2, 3, 2), (0,), (2, 0)])
def test_mhc_takes_any_leading_sizes(leading):
    x, f = random(*leading, 4, 8).requires_grad_(), random(*leading, 8)
    fn, scale, base = random(24, 32), random(3), random(24)
    pre, post, comb = geores.ops.mhc_mapping(x, fn, scale, base)
    u = geores.ops.mhc_read(x, pre)
    out = geores.ops.mhc_write(x, f, post, comb)
    assert (u.shape, out.shape, comb.shape) == ((*leading, 8), (*leading, 4, 8), (*leading, 4, 4))
    (out.sum() + u.sum()).backward()
    assert x.grad.shape == x.shape
