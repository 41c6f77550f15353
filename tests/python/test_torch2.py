"""What needs torch 2.4 or later: compilers, opcheck, FSDP2, DDP; on the GPU where there is one."""

import contextlib
import os

import pytest
import torch

import geores
from conftest import GPU, TORCH2, Sublayer, make, name_of, state_for, variants
from test_operators import CASES, random

pytestmark = TORCH2
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
every_device = pytest.mark.parametrize("device", DEVICES)
ONE_EACH = [(name, options) for i, (name, options) in enumerate(variants()) if i == 0 or variants()[i - 1][0] != name]
SOME = ONE_EACH + [("mhc", {"form": "v4"})]
some_variants = pytest.mark.parametrize("variant", SOME, ids=name_of)


def close(a, b, tolerance=1e-4):
    for x, y in zip(a, b):
        assert x.shape == y.shape and x.dtype == y.dtype
        assert (x - y).abs().max() <= tolerance * max(1.0, y.abs().max().item()), (x - y).abs().max()


def setup(variant, device):
    conn = make(variant, dtype=torch.float32).to(device)
    sublayer = Sublayer(conn).to(device)
    return conn, sublayer, state_for(conn, device=device)


def pass_through(function, conn, x):
    x = x.clone().requires_grad_()
    out = function(x)
    return [out, *torch.autograd.grad(out.square().sum(), [x, *conn.parameters()])]


@every_device
@pytest.mark.parametrize("name", CASES)
def test_opcheck_of_an_operator(name, device):
    operator, _, sizes = CASES[name]
    packet = getattr(torch.ops.geores, name)
    inputs = [random(*size).to(device).requires_grad_() for size in sizes]
    arguments = {"causal_attention": (2,), "sinkhorn": (20, "unrolled", "columns_last", 0.0)}.get(name, ())
    if name == "cayley":
        inputs = [random(2, 3, 4, 4).to(device).requires_grad_()]
    torch.library.opcheck(packet.default, (*inputs, *arguments))
    assert operator is not None


@every_device
@some_variants
def test_opcheck_of_a_connection(variant, device):
    conn, sublayer, x = setup(variant, device)
    state, connection = conn._state(), conn._connection
    torch.library.opcheck(torch.ops.geores.residual_read.default, (x.requires_grad_(), state, connection))
    f = sublayer(conn.read(x)[0]).detach().requires_grad_()
    torch.library.opcheck(torch.ops.geores.residual_write.default, (x, f, state, connection))
    needed = [True, True] + [i < len(conn.traits["parameters"]) for i in range(len(state))]
    arguments = ([x.detach()], needed, x.detach(), f.detach(), [s.detach() for s in state], connection)
    torch.library.opcheck(torch.ops.geores.residual_write_backward.default, arguments)


@every_device
@some_variants
def test_a_compiled_connection_equals_the_eager_one(variant, device):
    conn, sublayer, x = setup(variant, device)
    compiled = torch.compile(lambda x: conn(x, sublayer), fullgraph=True, backend="aot_eager")
    close(pass_through(compiled, conn, x), pass_through(lambda x: conn(x, sublayer), conn, x), 1e-5)


@every_device
def test_a_compiled_block_equals_the_eager_one(device):
    block = geores.nn.Block("mhc", 16, 2, form="v4").to(device)
    x = torch.randn(2, 8, 4, 16, device=device)
    compiled = torch.compile(block, fullgraph=True)
    close(pass_through(compiled, block, x), pass_through(block, block, x))


@every_device
def test_a_compiled_function_takes_any_number_of_tokens(device):
    conn, sublayer, _ = setup(("mhc", {}), device)
    compiled = torch.compile(lambda x: conn(x, sublayer), fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 9, 13):
        x = state_for(conn, length=length, device=device)
        close(pass_through(compiled, conn, x), pass_through(lambda x: conn(x, sublayer), conn, x), 1e-5)


@every_device
@pytest.mark.parametrize("compile", [False, True])
def test_checkpointing(compile, device):
    from torch.utils.checkpoint import checkpoint

    conn, sublayer, x = setup(("edelta", {"pool": "causal"}), device)

    def recomputed(x):
        return checkpoint(conn, x, sublayer, use_reentrant=False)

    function = torch.compile(recomputed, fullgraph=True, backend="aot_eager") if compile else recomputed
    close(pass_through(function, conn, x), pass_through(lambda x: conn(x, sublayer), conn, x), 1e-5)


@every_device
def test_autocast(device):
    conn, _, x = setup(("mhc", {"form": "v4"}), device)
    linear = torch.nn.Linear(8, 8).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = conn(x.requires_grad_(), linear)
        assert torch.equal(conn(x, torch.tanh), conn(x, torch.tanh)) and out.dtype == torch.float32
    out.sum().backward()
    assert linear.weight.grad.isfinite().all()


def test_functional_call():
    conn, sublayer, x = setup(("ddl", {}), "cpu")
    other = make(("ddl", {}), dtype=torch.float32)
    called = torch.func.functional_call(conn, dict(other.named_parameters()), (x, sublayer))
    assert torch.equal(called, other(x, sublayer)) and not torch.equal(called, conn(x, sublayer))


def test_a_model_on_the_meta_device_becomes_real():
    with torch.device("meta"):
        conn = geores.Residual("mhc", 8, 4, device="meta")
    conn = conn.to_empty(device="cpu")
    conn.reset_parameters(torch.Generator().manual_seed(1))
    assert conn(torch.randn(1, 2, 4, 8), torch.tanh).isfinite().all()


@GPU
@pytest.mark.parametrize("variant", variants(), ids=name_of)
def test_a_recorded_pass_replays(variant):
    if variant[0] == "shc" or variant[1].get("mixer") in ("cayley_exact", "grassmann"):
        pytest.skip("a linear solve of LibTorch reads the device")  # without kernels of their own
    conn, sublayer, x = setup(variant, "cuda")
    static = x.clone().requires_grad_()
    parameters = [static, *conn.parameters()]

    def run():
        return torch.autograd.grad(conn(static, sublayer).square().sum(), parameters)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = run()
    other = state_for(conn, device="cuda")
    with torch.no_grad():
        static.copy_(other)
    graph.replay()
    close(recorded, run(), 1e-5)


@GPU
@some_variants
def test_the_gpu_equals_the_cpu(variant):
    conn, sublayer, x = setup(variant, "cuda")
    on_gpu = pass_through(lambda x: conn(x, sublayer), conn, x)
    conn, sublayer = conn.cpu(), sublayer.cpu()
    close([t.cpu() for t in on_gpu], pass_through(lambda x: conn(x, sublayer), conn, x.cpu()))


@GPU
@some_variants
def test_a_state_in_bfloat16_on_the_gpu(variant):
    conn, sublayer, x = setup(variant, "cuda")
    exact = conn(x, sublayer)
    out = conn(x.bfloat16(), lambda u: sublayer(u.float()).bfloat16())
    assert out.dtype == torch.bfloat16 and (out.float() - exact).norm() < 0.1 * exact.norm()


@contextlib.contextmanager
def one_process(device):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


@every_device
def test_fsdp2(device):
    from torch.distributed.fsdp import fully_shard

    block = geores.nn.Block("mhc", 16, 2, form="v4").to(device)
    x = torch.randn(2, 8, 4, 16, device=device)
    block(x).square().sum().backward()
    expected = {name: p.grad for name, p in block.named_parameters()}
    block.zero_grad()
    with one_process(device):
        fully_shard(block.attention_residual)
        fully_shard(block)
        block(x).square().sum().backward()
        for name, parameter in block.named_parameters():
            close([parameter.grad.full_tensor()], [expected[name]])


@every_device
def test_ddp(device):
    from torch.nn.parallel import DistributedDataParallel

    block = geores.nn.Block("mhc", 16, 2).to(device)
    x = torch.randn(2, 8, 4, 16, device=device)
    block(x).square().sum().backward()
    expected = {name: p.grad for name, p in block.named_parameters()}
    block.zero_grad()
    with one_process(device):
        DistributedDataParallel(block)(x).square().sum().backward()
        for name, parameter in block.named_parameters():
            close([parameter.grad], [expected[name]])


def test_deepseek_v4_of_transformers():
    pytest.importorskip("transformers.models.deepseek_v4")
    from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

    device = DEVICES[-1]
    config = DeepseekV4Config(
        vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, head_dim=16, q_lora_rank=16,
        qk_rope_head_dim=8, moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2, o_groups=2,
        o_lora_rank=16, sliding_window=8, index_n_heads=2, index_head_dim=16, index_topk=4,
    )  # fmt: skip
    torch.manual_seed(3)
    model = DeepseekV4ForCausalLM(config).to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "hc" in name:
                parameter.normal_(0, 0.5)
    ids = torch.randint(64, (2, 16), device=device)

    def run():
        model.zero_grad()
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        return [out.logits.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    before = run()
    text = model.generate(ids[:, :4], max_new_tokens=4, do_sample=False)
    handle = geores.apply_to_deepseek_v4(model)
    close(run(), before, 1e-4)
    assert torch.equal(model.generate(ids[:, :4], max_new_tokens=4, do_sample=False), text)
    handle.undo()
    close(run(), before, 1e-7)
