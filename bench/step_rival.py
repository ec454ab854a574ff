"""Steps of the rival model under PyTorch: alone, or with DDP (gloo) when torchrun starts it.

Prints one JSON line from rank 0: when each step ended (Unix time), and the peak memory of the largest rank
in MiB, above that of the libraries and the process group, and with it.
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
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
libraries = memory("VmRSS")
torch.manual_seed(0)
model = GPT()
network = torch.nn.parallel.DistributedDataParallel(model) if distributed else model
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
with open(options.text, "rb") as file:
    text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
generator = torch.Generator().manual_seed(rank)
step_ends = []
for _ in range(options.steps):
    starts = torch.randint(0, len(text) - 257, (options.micro_batch,), generator=generator)
    rows = torch.stack([text[s : s + 257] for s in starts]).long()
    loss = network(rows[:, :-1], rows[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss.item()
    step_ends.append(time.time())
whole = memory("VmHWM")
peaks = torch.tensor([whole - libraries, whole])
if distributed:
    dist.all_reduce(peaks, dist.ReduceOp.MAX)
if rank == 0:
    print(json.dumps({"step_ends": step_ends, "peak_mib": peaks[0].item(),
                      "whole_peak_mib": peaks[1].item()}), flush=True)
if distributed:
    dist.barrier()
    dist.destroy_process_group()
