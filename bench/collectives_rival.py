"""Times torch.distributed's collectives (gloo) as bench_collectives times ours; torchrun starts it.

Before every call the tensor is filled anew and the ranks meet at a barrier; after every call the result
is checked; both outside of what is timed. reduce_scatter and all_gather work in place, as ours do. Rank 0
prints one JSON object: the median of the slower rank in microseconds, by operation and bytes.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

PERIOD = 1021  # of the values in a tensor: sums of them are exact in fp32


class Buffer:
    """One rank's tensor, and what stands in it before and after a call."""

    def __init__(self, size):
        count, ranks, rank = size // 4, dist.get_world_size(), dist.get_rank()
        base = (torch.arange(count) % PERIOD).float()
        share = slice(rank * count // ranks, (rank + 1) * count // ranks)
        self.mine = base + rank
        self.sum = base * ranks + ranks * (ranks - 1) // 2
        self.tensor = torch.empty(count)
        self.share, self.sum_share = self.tensor[share], self.sum[share]

    def fill(self):
        self.tensor.copy_(self.mine)

    def fill_share(self):
        self.tensor.zero_()
        self.share.copy_(self.sum_share)

    def right(self):
        return torch.equal(self.tensor, self.sum)

    def share_right(self):
        return torch.equal(self.share, self.sum_share)

    def operations(self):
        return {
            "all_reduce": (self.fill, lambda: dist.all_reduce(self.tensor), self.right),
            "reduce_scatter": (self.fill, lambda: dist.reduce_scatter_tensor(self.share, self.tensor),
                               self.share_right),
            "all_gather": (self.fill_share, lambda: dist.all_gather_into_tensor(self.tensor, self.share),
                           self.right),
        }


def median_of_slower_rank(name, operation, repetitions):
    fill, call, right = operation
    times = []
    for i in range(-max(2, repetitions // 10), repetitions):
        fill()
        dist.barrier()
        begin = time.perf_counter()
        call()
        end = time.perf_counter()
        if not right():
            raise SystemExit(f"{name}: a wrong result")
        if i >= 0:
            times.append((end - begin) * 1e6)
    slowest = torch.tensor(statistics.median(times), dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    parser.add_argument("--repetitions", type=int, nargs="+", required=True)
    parser.add_argument("--pin", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if options.pin:  # the calling thread; gloo's own, already running, stays free to go where it likes
        os.sched_setaffinity(0, {int(os.environ["LOCAL_RANK"]) % os.cpu_count()})
    times = {}
    for size, repetitions in zip(options.sizes, options.repetitions):
        for name, operation in Buffer(size).operations().items():
            times.setdefault(name, {})[size] = median_of_slower_rank(name, operation, repetitions)
    if dist.get_rank() == 0:
        print(json.dumps({"transport": "gloo", "microseconds": times}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
