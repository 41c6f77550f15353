#!/usr/bin/env python3
"""DeepSeek-V4 of transformers with its streams in geores: patches a small model, compares, times, undoes.

    python3 examples/python/deepseek_v4.py                 random weights, on the GPU if there is one
    python3 examples/python/deepseek_v4.py --width 512 --tokens 2048
"""

import argparse
import time

import torch

import geores

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--tokens", type=int, default=64)
args = parser.parse_args()

try:
    from transformers import DeepseekV4Config, DeepseekV4ForCausalLM
except ImportError:
    raise SystemExit("this example needs transformers with DeepSeek-V4 (5.17 or later)")

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = DeepseekV4Config(
    vocab_size=256,
    hidden_size=args.width,
    num_hidden_layers=args.layers,
    num_attention_heads=4,
    head_dim=16,
    q_lora_rank=32,
    qk_rope_head_dim=8,
    moe_intermediate_size=64,
    n_routed_experts=4,
    num_experts_per_tok=2,
    o_groups=2,
    o_lora_rank=16,
    sliding_window=32,
    index_n_heads=2,
    index_head_dim=16,
    index_topk=8,
)
model = DeepseekV4ForCausalLM(config).to(device)
ids = torch.randint(256, (2, args.tokens), device=device)


def step():
    model.zero_grad()
    out = model(input_ids=ids, labels=ids)
    out.loss.backward()
    if device == "cuda":
        torch.cuda.synchronize()
    return out.logits.detach()


def milliseconds(repeats=5):
    step()
    begun = time.perf_counter()
    for _ in range(repeats):
        step()
    return 1e3 * (time.perf_counter() - begun) / repeats


before, before_ms = step(), milliseconds()
with geores.apply_to_deepseek_v4(model):
    difference = (step() - before).abs().max().item()
    after_ms = milliseconds()
print(f"largest difference of a logit {difference:.1e}")
print(f"forward and backward: transformers {before_ms:.1f} ms, geores {after_ms:.1f} ms on {device}")
print("undone:", torch.equal(step(), before))
