"""Exercise: two ranks have graded unequal shares of one exam. What is the exact accuracy of the whole?

Run:  torchrun --standalone --nproc-per-node=2 share.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = rank, _, world_size, device, backend = here()
    dist.init_process_group(backend, timeout=timedelta(seconds=60))

    right = torch.rand(1001, generator=torch.Generator().manual_seed(0)) < torch.linspace(0.9, 0.4, 1001)
    share = right.tensor_split([700])[rank] if world_size == 2 else right  # 700 answers here, 301 there
    correct, count = share.sum().item(), len(share)

    # BEGIN SOLUTION
    totals = torch.tensor([correct, count], dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    accuracy = (totals[0] / totals[1]).item()
    # STUB accuracy = correct / count  # of this rank's own share
    # END SOLUTION

    print(f"rank {rank}: {correct} of {count} right, accuracy of the whole: {accuracy:.4f}\n", end="")
    report("share", place, accuracy=float(accuracy), own=correct / count, whole=right.float().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
