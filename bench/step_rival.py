"""Steps of the rival model under PyTorch: alone, or with DDP (gloo) when torchrun starts it.

Prints one JSON line from rank 0: median step in ms, peak memory above the libraries in MiB, and when
the first step ended (Unix time).
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist

from rival_model import GPT

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--micro-batch", type=int, default=1)
arguments.add_argument("--steps", type=int, default=20)
arguments.add_argument("--text", required=True)
options = arguments.parse_args()


def memory(key):
    with open("/proc/self/status") as status:
        return [int(l.split()[1]) / 1024 for l in status if l.startswith(key)][0]


torch.set_num_threads(1)
rank = int(os.environ.get("RANK", 0))
distributed = "RANK" in os.environ
if distributed:
    dist.init_process_group("gloo")
open("/proc/self/clear_refs", "w").write("5")
base = memory("VmRSS")
torch.manual_seed(0)
model = GPT()
network = torch.nn.parallel.DistributedDataParallel(model) if distributed else model
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
text = torch.frombuffer(bytearray(open(options.text, "rb").read()), dtype=torch.uint8)
generator = torch.Generator().manual_seed(rank)
times = []
first = None
for _ in range(options.steps):
    begin = time.perf_counter()
    starts = torch.randint(0, len(text) - 257, (options.micro_batch,), generator=generator)
    rows = torch.stack([text[s : s + 257] for s in starts]).long()
    loss = network(rows[:, :-1], rows[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss.item()
    times.append(time.perf_counter() - begin)
    first = first or time.time()
times = sorted(times[2:]) or times
if rank == 0:
    print(json.dumps({"step_ms": times[len(times) // 2] * 1e3,
                      "peak_mib": memory("VmHWM") - base, "first_step_at": first}), flush=True)
if distributed:
    dist.destroy_process_group()
