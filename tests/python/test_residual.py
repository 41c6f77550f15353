"""geores.Residual: equal to the C++ library, and an ordinary nn.Module."""

import copy
import io
import pickle

import pytest
import torch

import geores
from conftest import Sublayer, make, name_of, state_for, variants

every_variant = pytest.mark.parametrize("variant", variants(), ids=name_of)


def test_every_connection_equals_its_cpp_form(dumps):
    assert {case["name"] for case in dumps} == {c["name"] for c in geores.connections()}
    for case in dumps:
        saved = case["tensors"]
        conn = geores.Residual(case["name"], 8, 4, index=1, dtype=torch.float64, **case["options"])
        state = {key[6:]: value for key, value in saved.items() if key.startswith("state/")}
        assert {k: v.shape for k, v in conn.state_dict().items()} == {k: v.shape for k, v in state.items()}
        conn.load_state_dict(state)
        x, weight = (saved[name].clone().requires_grad_() for name in ("x", "map"))
        out = conn(x, lambda u: torch.tanh(u @ weight))
        assert (out - saved["out"]).abs().max() < 1e-12, case["name"]
        loss = (out * saved["cotangent"]).sum()
        if conn.auxiliary_loss is not None:
            loss = loss + conn.auxiliary_loss
        assert abs(loss - saved["loss"]) < 1e-11
        loss.backward()
        gradients = {"x": x.grad, "map": weight.grad, **{k: p.grad for k, p in conn.named_parameters()}}
        for key, gradient in gradients.items():
            expected = saved["grad/" + key]
            error = (gradient - expected).abs().max() / max(1.0, expected.abs().max())
            assert error < 1e-12, (case["name"], case["options"], key, error)


@every_variant
def test_gradients_equal_central_differences(variant):
    name, options = variant
    known = [option["name"] for c in geores.connections() if c["name"] == name for option in c["options"]]
    if "sinkhorn_gradient" in known:
        # The implicit gradient is that of the limit of Sinkhorn's iterations, not of the twenty that ran.
        options = {**options, "sinkhorn_gradient": "unrolled"}
    conn = make((name, options))
    sublayer = Sublayer(conn)
    x = state_for(conn, batch=1, length=3)
    cotangent = torch.randn_like(x)
    inputs = [x.requires_grad_(), *conn.parameters(), *sublayer.parameters()]

    def loss():
        out = (conn(x, sublayer) * cotangent).sum()
        return out if conn.auxiliary_loss is None else out + conn.auxiliary_loss

    gradients = torch.autograd.grad(loss(), inputs)
    step = 1e-4
    for value, gradient in zip(inputs, gradients):
        direction = torch.randn_like(value)
        direction /= direction.norm()
        start = value.detach().clone()

        def moved(by):
            with torch.no_grad():
                value.copy_(start + by * direction)
                return loss().item()

        quotient = (8 * (moved(step) - moved(-step)) - moved(2 * step) + moved(-2 * step)) / (12 * step)
        with torch.no_grad():
            value.copy_(start)
        slope = (gradient * direction).sum().item()
        assert abs(quotient - slope) < 1e-7 * max(1.0, abs(slope)), (quotient, slope)


@every_variant
@pytest.mark.parametrize("batch, length", [(1, 1), (3, 7), (0, 4), (2, 0)])
def test_any_number_of_tokens(variant, batch, length):
    conn = make(variant, dtype=torch.float32)
    sublayer = Sublayer(conn)
    x = state_for(conn, batch, length, requires_grad=True)
    out = conn(x, sublayer)
    assert out.shape == x.shape and out.isfinite().all()
    out.sum().backward()
    assert x.grad.shape == x.shape
    for parameter in conn.parameters():
        assert parameter.grad.isfinite().all()


@every_variant
def test_two_steps_equal_the_call(variant):
    conn = make(variant)
    sublayer, x = Sublayer(conn), state_for(conn)
    u, context = conn.read(x)
    assert u.shape == (2, 5, conn.traits["sublayer_width"])
    assert torch.equal(conn.write(context, sublayer(u)), conn(x, sublayer))


@every_variant
def test_copies_and_files_compute_the_same(variant):
    conn = make(variant)
    sublayer, x = Sublayer(conn), state_for(conn)
    expected = conn(x, sublayer)
    file = io.BytesIO()
    torch.save(conn.state_dict(), file)
    file.seek(0)
    loaded = geores.Residual(conn.name, 8, 4, dtype=torch.float64, **conn.options)
    loaded.load_state_dict(torch.load(file))
    for other in (copy.deepcopy(conn), pickle.loads(pickle.dumps(conn)), loaded):
        assert torch.equal(other(x, sublayer), expected)
    shared = copy.deepcopy(conn)
    with torch.no_grad():
        for parameter in shared.parameters():
            parameter.zero_()
    assert torch.equal(conn(x, sublayer), expected)


@every_variant
def test_a_seed_draws_the_same_start(variant):
    conn = make(variant)
    conn.reset_parameters(torch.Generator().manual_seed(3))
    first = copy.deepcopy(conn.state_dict())
    make(variant)
    conn.reset_parameters(torch.Generator().manual_seed(3))
    assert all(torch.equal(value, conn.state_dict()[key]) for key, value in first.items())
    torch.manual_seed(5)
    drawn = geores.Residual(conn.name, 8, 4, **conn.options).state_dict()
    after = torch.rand(())
    torch.manual_seed(5)
    again = geores.Residual(conn.name, 8, 4, **conn.options).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in drawn.items())
    assert torch.equal(torch.rand(()), after)


@every_variant
def test_half_precision_keeps_the_type_of_the_state(variant):
    exact = make(variant, dtype=torch.float32, spread=0.05)
    sublayer = Sublayer(exact)
    x = state_for(exact)
    expected = exact(x, sublayer)
    for kind in (torch.bfloat16, torch.float16):
        half = x.to(kind).requires_grad_()
        out = exact(half, lambda u: sublayer(u.float()).to(kind))  # parameters in float32
        assert out.dtype == kind
        assert (out.float() - expected).norm() < 0.1 * expected.norm()
        out.float().sum().backward()
        assert half.grad.dtype == kind
    converted = copy.deepcopy(exact).to(torch.bfloat16)
    out = converted(x.bfloat16(), lambda u: sublayer(u.float()).bfloat16())
    assert out.dtype == torch.bfloat16
    assert (out.float() - expected).norm() < 0.1 * expected.norm()


@every_variant
def test_meta_device_has_shapes_and_no_values(variant):
    conn = make(variant, device="meta", dtype=torch.float32)
    x = state_for(conn, device="meta")
    u, context = conn.read(x)
    assert u.is_meta and u.shape == (2, 5, conn.traits["sublayer_width"])
    assert conn.write(context, torch.empty_like(u)).shape == x.shape


@every_variant
def test_non_contiguous_input(variant):
    conn = make(variant)
    sublayer, x = Sublayer(conn), state_for(conn)
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert not turned.is_contiguous()
    assert torch.equal(conn(turned, sublayer), conn(x, sublayer))


@pytest.mark.parametrize("name", ["additive", "mhc", "edelta", "ddl"])
def test_checkpointing_gives_the_same_gradients(name):
    from torch.utils.checkpoint import checkpoint

    conn = make((name, {}))
    sublayer, x = Sublayer(conn), state_for(conn)
    results = []
    for recompute in (False, True):
        leaf = x.clone().requires_grad_()
        out = checkpoint(conn, leaf, sublayer, use_reentrant=False) if recompute else conn(leaf, sublayer)
        results.append(torch.autograd.grad(out.square().sum(), [leaf, *conn.parameters()]))
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_autocast_keeps_the_streams_and_the_mapping():
    conn = make(("mhc", {}), dtype=torch.float32)
    x = state_for(conn)
    linear = torch.nn.Linear(8, 8)
    plain = conn(x, torch.tanh)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(conn(x, torch.tanh), plain)
        out = conn(x.requires_grad_(), linear)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert linear.weight.grad.isfinite().all()


def test_backward_gives_the_same_bits_twice():
    conn = make(("mhc", {"form": "v4"}), dtype=torch.float32)
    sublayer, x = Sublayer(conn), state_for(conn, requires_grad=True)
    twice = [torch.autograd.grad(conn(x, sublayer).square().sum(), [x, *conn.parameters()]) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*twice))


def test_frozen_parameters_have_no_gradient():
    conn = make(("mhc", {}))
    conn.res.weight.requires_grad_(False)
    conn(state_for(conn), Sublayer(conn)).sum().backward()
    assert conn.res.weight.grad is None and conn.pre.weight.grad is not None


def test_threads_share_a_connection():
    from concurrent.futures import ThreadPoolExecutor

    conns = [make(("mhc", {})) for _ in range(4)]  # one structure, different parameters
    inputs = [state_for(conn) for conn in conns]
    expected = [conn(x, torch.tanh) for conn, x in zip(conns, inputs)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            results = list(pool.map(lambda pair: pair[0](pair[1], torch.tanh), zip(conns, inputs)))
            assert all(torch.equal(a, b) for a, b in zip(results, expected))


def test_a_call_holds_no_memory_of_its_parameters():
    import weakref

    conn = make(("additive", {}), width=64)
    conn(torch.randn(1, 1, 64, dtype=torch.float64), torch.tanh)
    weight = weakref.ref(conn.norm.weight)
    del conn
    assert weight() is None


@pytest.mark.parametrize("layout", ["split", "expand"])
def test_a_manifold_step_stays_on_the_manifold(layout):
    conn = geores.Residual("jpmhc", 8, 4, dtype=torch.float64, mixer="grassmann", layout=layout)
    (basis,) = conn.manifold_parameters()
    before = basis.detach().clone()
    conn(state_for(conn), Sublayer(conn)).square().sum().backward()
    conn.manifold_step()
    assert (basis - before).abs().max() > 1e-5
    assert (basis.T @ basis - torch.eye(2)).abs().max() < 1e-6
    steps = [value for key, value in conn.named_buffers() if key.endswith("steps")]
    assert [value.item() for value in steps] == [1]


def test_decay_groups_hold_every_parameter_once():
    for variant in variants():
        conn = make(variant)
        decayed, plain = conn.decay_groups()
        parts = decayed + plain + conn.manifold_parameters()
        assert len(parts) == len(list(conn.parameters()))
        assert {id(p) for p in parts} == {id(p) for p in conn.parameters()}


def test_expand_and_collapse():
    conn = geores.Residual("mhc", 8, 4)
    h = torch.randn(2, 3, 8)
    assert torch.equal(conn.expand(h), h[:, :, None].expand(2, 3, 4, 8))
    assert torch.allclose(conn.collapse(conn.expand(h)), 4 * h)
    split = geores.Residual("edelta", 8, 4)
    assert split.expand(h) is h and split.collapse(h) is h


def test_repr_names_the_connection():
    conn = geores.Residual("mhc", 8, 4, index=1, form="v4")
    assert repr(conn) == "Residual('mhc', width=8, streams=4, index=1, form='v4')"
    assert repr(geores.Residual("additive", 8)) == "Residual('additive', width=8)"


def test_probes_are_those_of_the_connection():
    conn = make(("mhc", {}))
    probes = conn.probes(state_for(conn), torch.tanh)
    assert set(probes) == {"operator", "pre", "post"}
    assert (probes["operator"].sum(-1) - 1).abs().max() < 1e-12  # rows of a doubly stochastic matrix
