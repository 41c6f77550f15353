#!/usr/bin/env python3
"""Trains small language models on a text, letter by letter, with one residual connection after the other.

    python3 examples/python/nanogpt_with_mhc.py tinyshakespeare.txt
    python3 examples/python/nanogpt_with_mhc.py tinyshakespeare.txt --connections additive mhc edelta --steps 1000
    python3 examples/python/nanogpt_with_mhc.py tinyshakespeare.txt --layers 12 --width 768 --heads 12 --context 1024 \\
        --device cuda --compile

The loop is plain PyTorch; only geores.Residual, inside of geores.nn.Stack, is not.
"""

import argparse
import math
import pathlib
import time

import torch

import geores

# Options that a causal language model needs.
OPTIONS = {
    "edelta": {"pool": "causal"},
    "edelta_stream": {"pool": "causal"},
    "ddl_pooled": {"pool": "causal"},
    "isometry": {"pool": "causal"},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path, help="a text file; its last tenth is for validation")
    parser.add_argument("--connections", nargs="+", default=["additive", "mhc"])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile, with torch 2")
    return parser.parse_args()


class Text:
    """Ids of letters, and windows of them."""

    def __init__(self, path, context, device):
        text = path.read_text()
        self.letters = sorted(set(text))
        number = {letter: i for i, letter in enumerate(self.letters)}
        ids = torch.tensor([number[letter] for letter in text], device=device)
        cut = len(ids) * 9 // 10
        self.train, self.validation, self.context = ids[:cut], ids[cut:], context

    def batch(self, ids, size, generator):
        start = torch.randint(len(ids) - self.context, (size,), generator=generator)
        windows = torch.stack([ids[i : i + self.context + 1] for i in start.tolist()])
        return windows[:, :-1], windows[:, 1:]


def optimizer_of(model, lr):
    """AdamW; weight decay on matrices, except where a connection says otherwise."""
    decayed, plain, done = [], [], set()
    for module in model.modules():
        if isinstance(module, geores.Residual):
            with_decay, without = module.decay_groups()
            decayed += with_decay
            plain += without
            done |= {id(parameter) for parameter in module.parameters()}
    for parameter in model.parameters():
        if id(parameter) not in done:
            (decayed if parameter.dim() >= 2 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


@torch.no_grad()
def validation_loss(model, text, batch):
    generator = torch.Generator().manual_seed(0)  # the same windows for every model
    losses = [model(*text.batch(text.validation, batch, generator)).item() for _ in range(8)]
    return sum(losses) / len(losses)


def train(connection, text, args):
    torch.manual_seed(args.seed)
    model = geores.nn.Stack(
        connection,
        vocabulary=len(text.letters),
        layers=args.layers,
        width=args.width,
        heads=args.heads,
        context=args.context,
        streams=args.streams,
        **OPTIONS.get(connection, {}),
    ).to(args.device)
    optimizer = optimizer_of(model, args.lr)
    residuals = [module for module in model.modules() if isinstance(module, geores.Residual)]
    step_model = torch.compile(model) if args.compile else model
    generator = torch.Generator().manual_seed(args.seed)
    warmup = min(50, args.steps // 10 + 1)
    begun, seen = time.time(), 0
    for step in range(args.steps):
        factor = min(1.0, (step + 1) / warmup) * (0.1 + 0.45 * (1 + math.cos(math.pi * step / args.steps)))
        for group in optimizer.param_groups:
            group["lr"] = args.lr * factor
        loss = step_model(*text.batch(text.train, args.batch, generator))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for residual in residuals:
            residual.manifold_step()
        if step + 1 == min(10, args.steps // 2):  # the first steps compile and allocate
            loss.item()
            begun, seen = time.time(), 0
        else:
            seen += args.batch * args.context
        if (step + 1) % max(1, args.steps // 5) == 0:
            print(f"  {connection} step {step + 1}/{args.steps}  loss {loss.item():.3f}", flush=True)
    seconds = time.time() - begun
    return validation_loss(model, text, args.batch), seen / seconds, sum(p.numel() for p in model.parameters())


def main():
    args = arguments()
    text = Text(args.text, args.context, args.device)
    results = {name: train(name, text, args) for name in args.connections}
    first = next(iter(results.values()))
    print(f"{'connection':<14} {'parameters':>10} {'validation':>10} {'tokens/s':>10} {'relative':>8}")
    for name, (loss, speed, parameters) in results.items():
        print(f"{name:<14} {parameters:>10} {loss:>10.4f} {speed:>10.0f} {speed / first[1]:>8.2f}")


if __name__ == "__main__":
    main()
