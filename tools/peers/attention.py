"""Times a decode step of PyTorch's and of vLLM's CPU attention, in the shapes of
`headcount bench` at TP 1. Caches take turns on more memory than the last-level cache holds;
each time is the median.

    attention.py sdpa
    attention.py vllm PATH/TO/vllm/_C.abi3.so
"""

import statistics
import sys
import time

import torch

THREADS, BUFFER, ROUNDS = 2, 960 << 20, 12
SHAPES = {  # query heads, KV heads, key width, value width, tokens, sequences
    "MHA": (64, 64, 128, 128, 2048, 1),
    "GQA-16": (64, 16, 128, 128, 2048, 4),
    "GQA-8": (64, 8, 128, 128, 2048, 8),
    "MQA": (64, 1, 128, 128, 2048, 64),
    "MLA": (128, 1, 576, 512, 2048, 29),
}


def noise(*shape):
    return torch.empty(*shape, dtype=torch.bfloat16).uniform_(-1, 1)


def show(name, read, step):
    times = []
    for turn in range(ROUNDS):
        start = time.perf_counter()
        step(turn)
        times.append(time.perf_counter() - start)
    median = statistics.median(times[1:])
    print(f"{name:16} {median * 1e3:8.2f} ms {read / median / 1e9:7.2f} GB/s", flush=True)


def sdpa():
    """The query heads of a KV head are the queries of one head: one pass over its keys."""
    for name, (heads, kv, key, value, tokens, batch) in SHAPES.items():
        latent = value < key
        read = kv * (key + (0 if latent else value)) * 2 * tokens * batch
        copies = max(1, BUFFER // read)
        k = noise(copies, batch, kv, tokens, key)
        v = k[..., :value] if latent else noise(copies, batch, kv, tokens, value)
        q = noise(batch, kv, heads // kv, key)
        show(name, read, lambda turn: torch.nn.functional.scaled_dot_product_attention(q, k[turn % copies], v[turn % copies]))


def vllm(library):
    """Blocks at random, as vLLM's CPU backend calls its kernels. It has no MLA of its own
    there. Blocks of 16 tokens allow vec16 alone; amx is what it takes with its default, 128."""
    torch.cpu._init_amx()
    torch.ops.load_library(library)
    ops = torch.ops._C
    for name, (heads, kv, width, _, tokens, batch) in SHAPES.items():
        if name == "MLA":
            continue
        read = 2 * kv * width * 2 * tokens * batch
        copies = max(1, BUFFER // read)
        for block, isa in ((16, "vec16"), (128, "amx")):
            blocks = batch * tokens // block
            cache = noise(blocks * copies, kv, 2 * block, width)
            k, v = cache.chunk(2, dim=2)
            q = noise(batch, heads, width)
            out = torch.empty_like(q)
            starts = torch.arange(batch + 1, dtype=torch.int32)
            lengths = torch.full((batch,), tokens, dtype=torch.int32)
            plan = ops.get_scheduler_metadata(batch, heads, kv, width, lengths, torch.bfloat16, starts, True, -1, isa, True, None, "auto")
            tables = [(torch.randperm(blocks) + copy * blocks).to(torch.int32).view(batch, -1) for copy in range(copies)]
            show(f"{name} {isa}/{block}", read, lambda turn: ops.cpu_attention_with_kv_cache(
                q, k, v, out, starts, lengths, width**-0.5, True, None, -1, tables[turn % copies], 0.0, plan, None, None, 1.0, 1.0, "auto"))


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    with torch.no_grad():
        sdpa() if sys.argv[1] == "sdpa" else vllm(sys.argv[2])
