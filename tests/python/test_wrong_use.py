"""Wrong use: one line that names the argument, what came and what was expected."""

import re
import subprocess
import sys
import textwrap

import pytest
import torch

import geores


def message(call, kind=Exception):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    # PyTorch appends a trace of C++ only where TORCH_SHOW_CPP_STACKTRACES asks for it.
    assert "\n" not in text.strip(), text
    return text


def mhc(**kwargs):
    return geores.Residual("mhc", 8, 4, **kwargs)


X = torch.zeros(2, 3, 4, 8)
MAPPING = (torch.zeros(24, 32), torch.zeros(3), torch.zeros(24))

CASES = {
    "unknown connection": (lambda: geores.Residual("mch", 8), "unknown connection 'mch', did you mean 'mhc'?"),
    "unknown option": (lambda: mhc(from_="v4"), "'mhc' has no option 'from_', did you mean 'form'?"),
    "value of an option": (lambda: mhc(form="v5"), "[mhc] 'form' must be one of paper, v4"),
    "form of V4.1": (lambda: mhc(form="v41"), "compose it from geores.ops.mhc_site"),
    "type of an option": (
        lambda: mhc(sinkhorn_iterations="many"),
        "[mhc] 'sinkhorn_iterations' must be a 64-bit integer, got \"many\"",
    ),
    "range of an option": (lambda: mhc(sinkhorn_iterations=0), "[mhc] 'sinkhorn_iterations' must be between 1 and 100000, got 0"),
    "width of another type": (lambda: geores.Residual("mhc", 8.0), "'width' must be an int, got 8.0"),
    "no streams": (lambda: geores.Residual("mhc", 8, 0), "[connection] 'streams' must be >= 1, got 0"),
    "width not divisible": (
        lambda: geores.Residual("edelta", 10, 4),
        "[edelta] width 10 is not divisible by 4 streams",
    ),
    "too many streams": (lambda: geores.Residual("mhc_lite", 8, 7), "[mhc_lite] streams must be at most 6: 7 streams"),
    "x without streams": (lambda: mhc()(X[:, :, 0], torch.tanh), "[mhc] x must be (B, T, 4, 8), got (2, 3, 8)"),
    "x of another width": (
        lambda: mhc()(torch.zeros(2, 3, 4, 9), torch.tanh),
        "[mhc] x must be (B, T, 4, 8), got (2, 3, 4, 9)",
    ),
    "x of integers": (lambda: mhc()(X.long(), torch.tanh), "[mhc] x must have a floating-point type, got Long"),
    "x of another type": (
        lambda: mhc()(X.double(), torch.tanh),
        "[mhc] x is Double, the parameters are Float: convert one of them",
    ),
    "x on another device": (lambda: mhc()(X.to("meta"), torch.tanh), "[mhc] x is on meta, the parameters are on cpu"),
    "x is no tensor": (lambda: mhc()([1.0], torch.tanh), "x must be a tensor, got list"),
    "sublayer is a tensor": (lambda: mhc()(X, X), "the sublayer must be callable, got Tensor"),
    "output of another width": (
        lambda: mhc()(X, lambda u: u[..., :4]),
        "[mhc] the sublayer's output must be (2, 3, 8), got (2, 3, 4)",
    ),
    "embedding of another width": (lambda: mhc().expand(X[:, :, 0, :5]), "h must be (B, T, 8), got (2, 3, 5)"),
    "fn of another size": (
        lambda: geores.ops.mhc_mapping(X, MAPPING[0][:, :8], *MAPPING[1:]),
        "[mhc] fn must be (24, 32) for x (2, 3, 4, 8), got (24, 8)",
    ),
    "scale of another size": (
        lambda: geores.ops.mhc_mapping(X, MAPPING[0], torch.zeros(24), MAPPING[2]),
        "[mhc] scale must be (3,) for x (2, 3, 4, 8), got (24,)",
    ),
    "pre of another size": (
        lambda: geores.ops.mhc_read(X, torch.zeros(2, 3, 5)),
        "[mhc] pre must be (2, 3, 4) for x (2, 3, 4, 8), got (2, 3, 5)",
    ),
    "logits not square": (
        lambda: geores.ops.sinkhorn(torch.zeros(3, 4)),
        "[sinkhorn] logits must be square matrices (..., n, n), got a last axis of 4",
    ),
    "unknown gradient": (
        lambda: geores.ops.sinkhorn(torch.zeros(4, 4), gradient="exact"),
        "[sinkhorn] gradient must be implicit, unrolled or gauss_seidel, got 'exact'",
    ),
    "file that is no safetensors": (lambda: geores.load_safetensors(__file__), "is not a safetensors file"),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_use_is_refused_in_one_line(name):
    call, expected = CASES[name]
    assert expected in message(call)


def test_there_are_at_least_twenty_cases():
    assert len(CASES) >= 20


def test_a_second_derivative_is_refused():
    conn = mhc()
    x = X.clone().requires_grad_()
    assert "has no second derivative" in message(
        lambda: torch.autograd.grad(conn(x + 1, torch.tanh).sum(), x, create_graph=True)
    )


def test_another_torch_is_refused_in_one_line():
    script = """
        import torch
        torch.__version__ = "0.4.1"
        try:
            import geores
        except ImportError as error:
            print(error)
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"geores was built for torch \S+, and this is torch 0\.4\.1: build it again\n", out.stdout)
