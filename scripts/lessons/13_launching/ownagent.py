"""torchrun as a function: ranks that run a function of this file, and what their agent measures.

Run:  python ownagent.py
"""

import io
import json
import multiprocessing
import os

import torch
import torch.distributed as dist
from torch.distributed.elastic import metrics
from torch.distributed.elastic.events import get_logging_handler
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from devices import here, report, start

NAMES = ["RANK", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_RESTART_COUNT"]


class Keep(metrics.MetricHandler):
    """Keeps the newest value of each number that the agent measures."""

    def __init__(self) -> None:
        self.newest: dict[str, float] = {}

    def emit(self, metric_data: metrics.MetricData) -> None:
        """Called by the agent for each number."""
        self.newest[metric_data.name] = metric_data.value


def work(number: float) -> dict:
    """What each rank does; in its first life, the last rank fails. The sum, and what it is told."""
    # gloo on the CPU everywhere: this is about the agent.
    place = here(gpus=0)
    start(place)
    total = torch.tensor(number)
    dist.all_reduce(total)
    dist.barrier()
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if first_life and place.rank == place.world_size - 1:
        os._exit(3)
    dist.destroy_process_group()
    told = {name: os.environ[name] for name in NAMES}
    return {"total": total.item()} | told


@record
def main() -> None:
    place = here(gpus=0)
    # A new store for each life: in the old one, new ranks may find the addresses of dead ones.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    # Ranks are forked from a process that has imported torch, so that no life imports it again.
    multiprocessing.set_forkserver_preload(["torch"])
    keep = Keep()
    metrics.configure(keep)
    lines = io.StringIO()
    get_logging_handler("console").setStream(lines)  # into a text that we read, not to the screen
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        run_id="own",
        start_method="forkserver",
        max_restarts=1,
        event_log_handler="console",
        virtual_local_rank=True,
    )
    # What torchrun does after it has read its options. It returns what the ranks return.
    answers = elastic_launch(config, work)(3.0)
    for rank, answer in answers.items():
        print(f"rank {rank} returned {answer}")
    states = []
    for line in lines.getvalue().splitlines():
        event = json.loads(line)["metadata"]
        states.append([event["state"], event["global_rank"], event["agent_restarts"]])
    report("ownagent", place, answers=answers, metrics=keep.newest, states=states)


if __name__ == "__main__":
    main()
