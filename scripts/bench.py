"""Measure the ratios that the course speaks of: both sides interleaved in one run, median and spread over the rounds.

Run:  python scripts/bench.py                    # all rows but the last: two minutes on 2 cores
      python scripts/bench.py --data FOLDER      # and accuracy on FOLDER/cifar-10-batches-py, ten minutes more

Times on a shared machine are noisy; ratios of neighbours in time much less so. Nothing here is a test.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
LESSONS = ROOT / "scripts" / "lessons"
sys.path.insert(0, str(LESSONS))

TUTORIAL = '''"""The network that beginner tutorials train on CIFAR-10: two convolutions, three linear layers."""
from torch import nn

class ResNet(nn.Sequential):
    def __init__(self):
        convolutions = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
        linear = [nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()]
        super().__init__(*convolutions, *linear)
        self.head = nn.Linear(84, 10)
'''


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: int, layout: torch.memory_format) -> None:
    """One training step as the lessons' programs do it, on random pictures."""
    from loader import augment, normalise

    x, y = torch.randint(256, (batch, 3, 32, 32), dtype=torch.uint8), torch.randint(10, (batch,))
    x = normalise(augment(x)).contiguous(memory_format=layout)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def ranks(rounds: int, steps: int = 12, batch: int = 64) -> None:
    """Pictures a second of DDP, of two ranks that never talk, and of one process with one thread and with two."""
    from torch.nn.parallel import DistributedDataParallel

    from model import ResNet

    dist.init_process_group("gloo")
    names = ["ddp", "silent", "alone", "two threads"]
    models = {name: ResNet().to(memory_format=torch.channels_last) for name in names}
    models["ddp"] = DistributedDataParallel(models["ddp"], gradient_as_bucket_view=True, static_graph=True)
    optimizers = {name: torch.optim.SGD(models[name].parameters(), 0.01, momentum=0.9) for name in names}
    paces: dict[str, list[float]] = {name: [] for name in names}
    for n in range(rounds + 1):
        for name in names:
            pair = name in ("ddp", "silent")
            torch.set_num_threads(2 if name == "two threads" else 1)
            dist.barrier()
            start = time.perf_counter()
            for _ in range(steps if pair or dist.get_rank() == 0 else 0):
                step(models[name], optimizers[name], batch if pair else 2 * batch, torch.channels_last)
            took = torch.tensor(time.perf_counter() - start)
            dist.all_reduce(took, dist.ReduceOp.MAX)  # the slower rank counts
            if n:  # the first round warms up
                paces[name].append(2 * batch * steps / took.item())
    if dist.get_rank() == 0:
        Path("ranks.json").write_text(json.dumps(paces))
    dist.destroy_process_group()


def layouts(rounds: int, batch: int = 128) -> tuple[dict[str, list[float]], bool]:
    """Pictures a second on one core: plain fp32; channels last, and in bf16 where the CPU computes in it."""
    from model import ResNet

    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    bf16 = "avx512_bf16" in flags or "amx_bf16" in flags
    torch.set_num_threads(1)
    paces: dict[str, list[float]] = {"plain": [], "tuned": []}
    kinds = {"plain": torch.contiguous_format, "tuned": torch.channels_last}
    models = {name: ResNet().to(memory_format=layout) for name, layout in kinds.items()}
    optimizers = {name: torch.optim.SGD(model.parameters(), 0.01, momentum=0.9) for name, model in models.items()}
    for n in range(rounds + 1):
        for name, layout in kinds.items():
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16 and name == "tuned"):
                for _ in range(4):
                    step(models[name], optimizers[name], batch, layout)
            if n:
                paces[name].append(4 * batch / (time.perf_counter() - start))
    return paces, bf16


def launch(folder: Path, n: int, *arguments: object) -> None:
    command = [Path(sys.executable).parent / "torchrun", "--standalone", f"--nproc-per-node={n}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"bench: {arguments[0]} failed:\n{done.stdout}{done.stderr}")


def lessons(folder: Path, data: Path | None = None, network: str | None = None) -> Path:
    """The lessons' programs in a folder of their own, with data, and with another network if one is given."""
    shutil.copytree(LESSONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    if network:
        (folder / "model.py").write_text(network)
    if data:
        (folder / "data").symlink_to(data.resolve())
    launch(folder, 1, "cifar10.py")
    return folder


def train(folder: Path, budget: float) -> dict:
    """Two ranks of ddp.py for about `budget` seconds of training: its results."""
    launch(folder, 2, "ddp.py", "--epochs", 1, "--train-size", 6400, "--test-size", 100)
    pictures = budget * json.loads((folder / "ddp.json").read_text())["pace"]
    epochs = max(1, round(pictures / 50_000 + 0.5))
    size = min(50_000, int(pictures / epochs))
    launch(folder, 2, "ddp.py", "--epochs", epochs, "--train-size", size)
    results = json.loads((folder / "ddp.json").read_text())
    return results | {"epochs": epochs, "train_size": size, "seconds": epochs * size / results["pace"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data", type=Path, help="a folder that holds cifar-10-batches-py")
    parser.add_argument("--budget", type=float, default=120, help="seconds of training for the accuracy row")
    parser.add_argument("--ranks", type=int, help=argparse.SUPPRESS)  # how this file starts itself under torchrun
    args = parser.parse_args()
    if args.ranks:
        ranks(args.ranks)
        return

    rows, stages = [], tqdm(total=4 if args.data else 3, bar_format="{desc} {n_fmt}/{total_fmt} {elapsed}")

    def row(name: str, ours: list[float], theirs: list[float]) -> None:
        ratios = [one / two for one, two in zip(ours, theirs, strict=True)]
        rows.append({"row": name, "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)})

    with tempfile.TemporaryDirectory(prefix="course-bench-") as work:
        stages.set_description("two ranks")
        launch(Path(work), 2, __file__, "--ranks", args.rounds)
        paces = json.loads((Path(work) / "ranks.json").read_text())
        row("DDP, two ranks / two that never talk", paces["ddp"], paces["silent"])
        row("DDP, two ranks / one rank, one thread", paces["ddp"], paces["alone"])
        row("DDP, two ranks / one process, two threads", paces["ddp"], paces["two threads"])
        row("two that never talk / one rank, one thread", paces["silent"], paces["alone"])
        stages.update()
        stages.set_description("loader")
        folder, speeds = lessons(Path(work) / "loader"), []
        for _ in range(args.rounds):
            launch(folder, 1, "loader.py")
            speeds.append(json.loads((folder / "loader.json").read_text()))
        row("our loader / torchvision, one by one", [s["batched"] for s in speeds], [s["single"] for s in speeds])
        stages.update()
        stages.set_description("layout")
        paces, bf16 = layouts(args.rounds)
        name = "channels last, bf16" if bf16 else "channels last (this CPU has no bf16 instructions)"
        row(f"{name} / plain fp32", paces["tuned"], paces["plain"])
        stages.update()
        if args.data:
            stages.set_description("accuracy")
            ours = train(lessons(Path(work) / "ours", args.data), args.budget)
            theirs = train(lessons(Path(work) / "tutorial", args.data, TUTORIAL), args.budget)
            row("test error of our network / of the tutorials'", [1 - ours["accuracy"]], [1 - theirs["accuracy"]])
            for result in (ours, theirs):
                work = f"{result['epochs']} epochs of {result['train_size']:,} pictures in {result['seconds']:.0f} s"
                tqdm.write(f"{result['accuracy']:.1%} of {result['count']:,} right after {work}")
            stages.update()
    stages.close()

    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
    }
    print(f"\n{machine['cores']} cores, torch {machine['torch']}, {args.rounds} rounds: median (lowest – highest)")
    for entry in rows:
        print(f"{entry['row']:72} {entry['ratio']:6.2f}  ({entry['low']:.2f} – {entry['high']:.2f})")
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "bench.json").write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
