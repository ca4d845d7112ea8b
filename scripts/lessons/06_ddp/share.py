"""Exercise: two ranks have graded unequal shares of one exam. What is the accuracy of the whole?

Run:  torchrun --standalone --nproc-per-node=2 share.py
"""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report


@record
def main() -> None:
    place = here()
    limit = timedelta(seconds=60)
    dist.init_process_group(place.backend, timeout=limit, device_id=place.bound)
    dist.barrier()  # or a rank with nothing to send could leave while another is still connecting

    # An exam of 1001 answers, harder towards its end: True is a right answer.
    generator = torch.Generator().manual_seed(0)
    easiness = torch.linspace(0.9, 0.4, 1001)
    draws = torch.rand(1001, generator=generator)
    right = draws < easiness

    # Of two ranks, rank 0 grades 700 answers and rank 1 the other 301.
    share = right
    if place.world_size == 2:
        share = right.tensor_split([700])[place.rank]
    correct = share.sum().item()
    count = len(share)
    own = correct / count
    graded = f"{correct} of {count} right"

    # BEGIN SOLUTION
    totals = torch.tensor([correct, count], dtype=torch.float64, device=place.device)
    dist.all_reduce(totals)
    accuracy = (totals[0] / totals[1]).item()
    # STUB accuracy = correct / count  # of this rank's own share
    # END SOLUTION

    accuracy = float(accuracy)  # a tensor will do as well
    whole = right.float().mean().item()
    print(f"rank {place.rank}: {graded}, accuracy of the whole: {accuracy:.4f}\n", end="")
    report("share", place, accuracy=accuracy, own=own, whole=whole)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
