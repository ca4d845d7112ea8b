"""Ranks export where their time goes, until a file called `enough` appears; one of them is slow.

Run:  python straggler.py --steps 50
      torchrun --standalone --nproc-per-node=3 straggler.py --steps 50 --slow 1
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from prometheus_client import REGISTRY, Counter, start_http_server
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start

SPENT = Counter("train_seconds", "Seconds of this rank, by what it spent them on", ["part"])
STEPS = Counter("train_steps", "Training steps of this rank")


def serve(place: Place) -> None:
    """Export this process's counters on a free port of 127.0.0.1, and write down where that is.

    The file has the form in which Prometheus looks for targets.
    """
    for part in ("compute", "wait"):
        SPENT.labels(part)  # exported from the start on, as 0
    server, _ = start_http_server(0, addr="127.0.0.1")
    address = f"127.0.0.1:{server.server_port}"
    labels = {"rank": str(place.rank), "process": str(os.getpid())}
    target = {"targets": [address], "labels": labels}
    aside = Path(f"target-{place.rank}.part")
    aside.write_text(json.dumps([target]))
    aside.replace(f"target-{place.rank}.json")


def exported() -> dict[str, float]:
    """What this process's page says now."""
    numbers = {"steps": REGISTRY.get_sample_value("train_steps_total")}
    for part in ("compute", "wait"):
        labels = {"part": part}
        numbers[part] = REGISTRY.get_sample_value("train_seconds_total", labels)
    return numbers


@record
def main() -> None:
    place = here()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5000, help="at most")
    parser.add_argument("--slow", type=int, default=0, help="the rank whose pictures come late")
    parser.add_argument("--late-ms", type=float, default=20, help="how late they come")
    args = parser.parse_args()
    start(place)
    synchronize = torch.get_device_module(place.device).synchronize

    torch.manual_seed(0)
    layers = [nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)]
    model = nn.Sequential(*layers)
    model.to(place.device, torch.float64)
    parameters = list(model.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    torch.manual_seed(1 + place.rank)
    x = torch.randn(64, 256, dtype=torch.float64).to(place.device)
    serve(place)

    steps = 0
    begin = time.perf_counter()
    spent = {"compute": 0.0, "wait": 0.0}
    for _ in range(args.steps):
        began = time.perf_counter()
        if place.rank == args.slow:
            time.sleep(args.late_ms / 1000)  # its disk is slow
        model.zero_grad()
        output = model(x)
        loss = output.square().mean()
        loss.backward()
        to_stop = Path("enough").exists()
        enough = torch.tensor([to_stop], dtype=x.dtype, device=place.device)
        synchronize()
        computed = time.perf_counter()

        # One message for all gradients, and for the question whether somebody wants to stop.
        gradients = [parameter.grad.flatten() for parameter in parameters]
        flat = torch.cat([*gradients, enough])
        dist.all_reduce(flat)
        synchronize()
        ended = time.perf_counter()
        parts = flat[:-1].split(sizes)
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter -= 0.01 * part.view_as(parameter) / place.world_size

        step_seconds = {"compute": computed - began, "wait": ended - computed}
        for name, seconds in step_seconds.items():
            SPENT.labels(name).inc(seconds)
            spent[name] += seconds
        steps += 1
        STEPS.inc()
        if flat[-1] > 0:
            break

    seconds = time.perf_counter() - begin
    weights = nn.utils.parameters_to_vector(parameters)
    numbers = {
        "steps": steps,
        "seconds": seconds,
        "spent": spent,
        "exported": exported(),
        "weights": weights.sum().item(),
    }
    report("straggler", place, slow=args.slow, **numbers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
