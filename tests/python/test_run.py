"""Runs of the program in Python, and weights of Python in the program."""

import json
import shutil
import subprocess

import pytest
import torch
import torch.nn.functional as F

import geores

TEXT = "".join(f"{i} times {i} is {i * i}, said the cat to the hat.\n" for i in range(120))

# Different norms, layouts, heads, positions and auxiliary losses.
MODELS = {
    "additive": [],
    "mhc v4": ["--form", "v4", "--head", "learned"],
    "mhc rotary": ["--positions", "rotary", "--mlp", "swiglu"],
    "edelta": ["--pool", "causal"],
    "jpmhc": [],
}


@pytest.fixture(scope="module")
def text(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "input.txt").write_text(TEXT)
    command = [program, "data", "text", "--input", folder / "input.txt", "--tokenizer", "chars", "--out", folder / "data"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return folder / "data"


def train(program, text, model, folder):
    connection = model.split()[0]
    flags = "--layers 2 --width 16 --heads 2 --context 24 --steps 3 --batch 2 --eval-batches 1 --final-eval-batches 1"
    # Weights far from their start: a wrong formula then shows.
    flags += " --warmup 0 --lr 0.05 --eval-interval 3"
    command = [program, "train", "--task", "text", "--data", text, "--model", connection, "--out", folder]
    subprocess.run([str(word) for word in command] + flags.split() + MODELS[model], check=True, capture_output=True)
    return geores.Run(folder)


def loss_of(program, folder):
    out = subprocess.run([str(program), "eval", "--run", str(folder), "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["rows"][0]["nats"]


def loss_in_python(run, text):
    """Of the whole validation text, the way the program cuts it: a line break comes before the first id."""
    ids = torch.frombuffer(bytearray((text / "val.bin").read_bytes()), dtype=torch.int16).long()
    ids = torch.cat([torch.tensor(run.tokenizer.encode("\n")), ids])
    total = 0.0
    for begin in range(0, len(ids) - 1, 24):
        y = ids[begin + 1 : begin + 25]
        logits = run.model(ids[begin : begin + len(y)][None])[0]
        total += F.cross_entropy(logits, y, reduction="sum").double().item()
    return total / (len(ids) - 1)


@pytest.mark.parametrize("model", MODELS)
@torch.no_grad()
def test_a_checkpoint_gives_the_same_loss_both_ways(program, text, model, tmp_path):
    run = train(program, text, model, tmp_path / "run")
    assert abs(loss_in_python(run, text) - loss_of(program, run.folder)) < 1e-6
    # Back: weights that Python has changed.
    for parameter in run.model.parameters():
        parameter.mul_(1.1)
    twin = tmp_path / "twin"
    shutil.copytree(run.folder, twin)
    _, metadata = geores.load_safetensors(run.folder / "best.safetensors", with_metadata=True)
    geores.save_safetensors(run.model.state_dict(), twin / "best.safetensors", {"step": metadata["step"]})
    changed = loss_of(program, twin)
    assert abs(changed - loss_of(program, run.folder)) > 1e-3
    assert abs(loss_in_python(run, text) - changed) < 1e-6


def test_a_run_has_metrics_and_writes_text(program, text, tmp_path):
    run = train(program, text, "mhc v4", tmp_path / "run")
    assert any("validation" in line for line in run.lines) and len(run.metrics) == len(run.lines)
    assert run.result["steps"] == 3 and "mhc on text" in repr(run)
    out = run.generate("12 times", 30)
    assert out.startswith("12 times") and len(out) == 38
    assert run.generate("the", 5, temperature=0) == run.generate("the", 5, temperature=0)
    first = run.generate("the", 20, generator=torch.Generator().manual_seed(1))
    assert first == run.generate("the", 20, generator=torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match="has no character 'Ω'"):
        run.generate("Ω", 1)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a run: it has no config.json"):
        geores.Run(tmp_path)
    (tmp_path / "config.json").write_text('{"task": "gyroscope", "connection": "mhc"}')
    with pytest.raises(ValueError, match="is a run on gyroscope"):
        geores.Run(tmp_path).model
    (tmp_path / "config.json").write_text('{"task": "text", "connection": "mhc", "past": "mean"}')
    with pytest.raises(ValueError, match="has past = mean, which geores.nn.Stack does not compute"):
        geores.Run(tmp_path).model


def test_safetensors_keep_every_type(tmp_path):
    tensors = {
        "half": torch.randn(3, 2).bfloat16(),
        "double": torch.randn(2, 0, dtype=torch.float64),
        "number": torch.tensor(3),
        "turned": torch.randn(3, 4).t(),
    }
    geores.save_safetensors(tensors, tmp_path / "a.safetensors", {"what": "all"})
    loaded, metadata = geores.load_safetensors(tmp_path / "a.safetensors", with_metadata=True)
    assert metadata == {"what": "all"} and list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor)


def test_a_stack_learns_and_is_causal():
    model = geores.nn.Stack("mhc", vocabulary=7, layers=1, width=16, heads=2, context=8)
    ids = torch.randint(7, (4, 9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = model(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    changed = ids.clone()
    changed[:, 5] = (changed[:, 5] + 1) % 7
    assert torch.allclose(model(ids[:, :8])[:, :5], model(changed[:, :8])[:, :5], atol=1e-6)
    with pytest.raises(ValueError, match="lets a token see later ones"):
        geores.nn.Stack("edelta", vocabulary=7, width=16)
