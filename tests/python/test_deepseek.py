"""apply_to_deepseek_v4() and load_mhc(), on a model with the structure of transformers' DeepSeek-V4."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import geores
from test_operators import head, mapping, written


class InputNorm(nn.Module):
    eps = 1e-6


class Hyper(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.hc_mult, self.hc_sinkhorn_iters, self.hc_eps, self.input_norm = n, 20, 1e-6, InputNorm()
        self.fn = nn.Parameter(torch.randn(n * (n + 2), n * width) / width)
        self.base = nn.Parameter(torch.randn(n * (n + 2)))
        self.scale = nn.Parameter(torch.rand(3) + 0.5)

    def forward(self, x):
        pre, post, comb = mapping(x.float(), self.fn.float(), self.scale.float(), self.base.float())
        return post, comb, (pre.unsqueeze(-1) * x).sum(2).to(x.dtype)


class Attention(nn.Linear):
    def forward(self, x, **kwargs):
        return torch.tanh(super().forward(x.cumsum(1) / 4)), None


class Mlp(nn.Linear):
    def forward(self, x, input_ids=None):
        assert input_ids is not None
        return torch.tanh(super().forward(x))


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Layer(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.self_attn, self.mlp = Attention(width, width), Mlp(width, width)
        self.input_layernorm, self.post_attention_layernorm = Norm(width), Norm(width)
        self.attn_hc, self.ffn_hc = Hyper(n, width), Hyper(n, width)

    def forward(self, hidden_states, input_ids=None, **kwargs):
        post, comb, u = self.attn_hc(hidden_states)
        f, _ = self.self_attn(self.input_layernorm(u), **kwargs)
        hidden_states = written(hidden_states, f, post, comb).to(hidden_states.dtype)
        post, comb, u = self.ffn_hc(hidden_states)
        f = self.mlp(self.post_attention_layernorm(u), input_ids=input_ids)
        return written(hidden_states, f, post, comb).to(hidden_states.dtype)


class Head(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.eps, self.input_norm = 1e-6, InputNorm()
        self.hc_fn = nn.Parameter(torch.randn(n, n * width) / width)
        self.hc_base, self.hc_scale = nn.Parameter(torch.randn(n)), nn.Parameter(torch.ones(1))

    def forward(self, x):
        return head(x, self.hc_fn, self.hc_scale, self.hc_base)


class Model(nn.Module):
    def __init__(self, n=4, width=8, layers=2, vocabulary=11):
        super().__init__()
        self.n, self.embed = n, nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(n, width) for _ in range(layers))
        self.hc_head = Head(n, width)

    def forward(self, ids):
        x = self.embed(ids).unsqueeze(2).repeat(1, 1, self.n, 1)
        for layer in self.layers:
            x = layer(x, input_ids=ids, position_ids=None)
        return self.hc_head(x) @ self.embed.weight.T


def logits_and_gradients(model, ids):
    model.zero_grad()
    logits = model(ids)
    F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    return [logits.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("n", [2, 4, 5])
def test_a_patched_model_computes_the_same_until_undone(n):
    model = Model(n)
    ids = torch.randint(11, (2, 7))
    before = logits_and_gradients(model, ids)
    calls = []
    hook = model.layers[0].attn_hc.register_forward_hook(lambda *_: calls.append(1))
    handle = geores.apply_to_deepseek_v4(model)
    after = logits_and_gradients(model, ids)
    assert not calls  # nothing of the streams runs in the model's own code
    for a, b in zip(before, after):
        assert (a - b).abs().max() < 2e-5 * max(1.0, a.abs().max())
    handle.undo()
    handle.undo()
    for a, b in zip(before, logits_and_gradients(model, ids)):
        assert torch.equal(a, b)
    assert calls
    hook.remove()


def test_a_patch_ends_with_its_block():
    model = Model()
    with geores.apply_to_deepseek_v4(model):
        assert "forward" in model.layers[0].__dict__
    assert "forward" not in model.layers[0].__dict__ and "forward" not in model.hc_head.__dict__


def test_streams_in_bfloat16_keep_their_type():
    model = Model().bfloat16()
    ids = torch.randint(11, (2, 7))
    with geores.apply_to_deepseek_v4(model):
        assert model(ids).dtype == torch.bfloat16


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="Linear has no decoder layers with attn_hc and ffn_hc"):
        geores.apply_to_deepseek_v4(nn.Linear(2, 2))
    model = Model()
    geores.apply_to_deepseek_v4(model)
    with pytest.raises(ValueError, match=r"layer 0 has another forward\(\) already"):
        geores.apply_to_deepseek_v4(model)
    model = Model()
    model.layers[1].ffn_hc.fn = nn.Parameter(torch.zeros(23, 32))
    with pytest.raises(ValueError, match=r"layer 1: ffn_hc.fn must have 24 rows for 4 streams, got \(23, 32\)"):
        geores.apply_to_deepseek_v4(model)
    del model.hc_head
    model = Model()
    del model.hc_head
    with pytest.raises(ValueError, match="must have one head"):
        geores.apply_to_deepseek_v4(model)
    with pytest.raises(TypeError, match="model must be a module, got str"):
        geores.apply_to_deepseek_v4("model")


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("n", [3, 4])
def test_a_loaded_layer_equals_the_model(published, n):
    layer = Layer(n, 8)
    state = {f"model.layers.12.{k}": v for k, v in layer.state_dict().items()}
    if published:
        for ours, theirs in (("attn_hc.", "hc_attn_"), ("ffn_hc.", "hc_ffn_")):
            state = {k.replace(ours, theirs): v for k, v in state.items()}
        state = {k.replace("input_layernorm", "attn_norm").replace("post_attention_layernorm", "ffn_norm"): v for k, v in state.items()}
    state["model.layers.1.attn_norm.weight"] = torch.zeros(3)
    conns = geores.load_mhc(state, layer=12)
    ids, x = torch.zeros(2, 5), torch.randn(2, 5, n, 8)
    expected = layer(x, input_ids=ids)
    got = conns["ffn"](conns["attn"](x, lambda u: layer.self_attn(u)[0]), lambda u: layer.mlp(u, ids))
    assert (got - expected).abs().max() < 1e-5
    with pytest.raises(KeyError, match="layer 7 has no"):
        geores.load_mhc(state, layer=7)


def test_copies_of_a_patched_model_are_patched():
    model = Model()
    ids = torch.randint(11, (2, 7))
    geores.apply_to_deepseek_v4(model)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(ids), model(ids))
    with torch.no_grad():
        model.layers[0].attn_hc.fn.zero_()
    assert not torch.equal(twin(ids), model(ids))
