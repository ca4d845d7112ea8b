"""Lesson 14 where its notebook does not look.

That a training started again learns what one process would, what ranks export and who may read it,
what the job script gives each node, and that the manifest's numbers and names agree.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
import torch.distributed as dist
import yaml
from ranks import launch
from torch import Tensor, nn

import link
import lives
import straggler
import watch
from course import rooms
from devices import Place

ALONE = Place(0, 0, 1, torch.device("cpu"), "gloo")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def by_hand(steps: int) -> Tensor:
    """All weights of lives.py after so many steps on two ranks, from one process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    velocities = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for step in range(steps):
        model.zero_grad()
        for rank in range(2):
            generator = torch.Generator().manual_seed(1000 * step + rank)
            x = torch.randn(64, 8, generator=generator, dtype=torch.float64)
            error = model(x) - x.sin().sum(1, keepdim=True)
            (error.square().mean() / 2).backward()
        with torch.no_grad():
            for parameter, velocity in zip(model.parameters(), velocities, strict=True):
                velocity.mul_(0.9).add_(parameter.grad)
                parameter -= 0.05 * velocity
    return nn.utils.parameters_to_vector(model.parameters())


def test_a_training_started_three_times_learns_what_one_process_does(tmp_path: Path) -> None:
    program = str(rooms.program("lives"))
    begun = []
    for steps in ("7", "12"):
        command = [program, "--steps", steps, "--pause", "0"]
        reports = launch(tmp_path, 2, *command).reports("lives", 2)
        begun.append(reports[0]["begun"])
    assert begun == [0, 5]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    for report in reports:
        weights = torch.tensor(report["weights"], dtype=torch.float64)
        torch.testing.assert_close(weights, by_hand(12), rtol=1e-12, atol=1e-14)


def test_without_a_checkpoint_of_its_own_a_training_says_which_file_it_refuses(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    torn = tmp_path / "step-000005.rank-0-of-1.pt"
    torn.write_bytes(b"torn")
    monkeypatch.setattr(dist, "broadcast_object_list", lambda objects: None)
    assert lives.take_up(nn.Linear(1, 1), None, tmp_path, ALONE) == 0
    assert f"rank 0 refuses {torn}" in capsys.readouterr().out


def test_a_wire_has_the_speed_and_the_latency_that_are_asked_for() -> None:
    wires = link.links("1,0.25", 2, ALONE)
    assert list(wires) == ["this machine", "1 Gbit/s", "0.25 Gbit/s"]
    assert wires["this machine"] is None
    dials = [(wire.gbit, wire.latency) for wire in wires.values() if wire]
    assert dials == [(1, 0.002), (0.25, 0.002)]


def mean_steps(steps: int, ranks: int) -> float:
    """The sum of all weights of straggler.py after so many steps, from one process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).double()
    rows = []
    for rank in range(ranks):
        torch.manual_seed(1 + rank)
        rows.append(torch.randn(64, 256, dtype=torch.float64))
    for _ in range(steps):
        model.zero_grad()
        for x in rows:
            (model(x).square().mean() / ranks).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
    return nn.utils.parameters_to_vector(model.parameters()).sum().item()


def test_ranks_export_what_they_spent_and_take_the_mean_step(tmp_path: Path) -> None:
    command = [str(rooms.program("straggler")), "--steps", "8", "--slow", "1"]
    reports = launch(tmp_path, 3, *command).reports("straggler", 3)
    for report in reports:
        assert report["weights"] == pytest.approx(mean_steps(8, 3), rel=1e-12)
        assert report["exported"] == report["spent"] | {"steps": 8}
        assert sum(report["spent"].values()) <= report["seconds"]
    assert reports[1]["spent"]["compute"] >= 8 * 0.02  # late as the text says; no sleep is short


def test_counters_are_read_as_they_are_and_on_this_machine_only(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    straggler.serve(ALONE)
    [target] = watch.targets(1)
    first = watch.scrape(target)
    straggler.SPENT.labels("wait").inc(2.5)
    straggler.STEPS.inc(3)
    last = watch.scrape(target)
    grown = {name: last[name] - first[name] for name in last}
    assert grown == {"compute": 0, "wait": 2.5, "steps": 3}
    port = int(target["targets"][0].rpartition(":")[2])
    listening = [each for each in psutil.Process().net_connections() if each.laddr.port == port]
    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}
    with pytest.raises(TimeoutError, match="no ranks here"):
        watch.targets(2, patience=0.1)


class Nvml:
    """A machine with two GPUs, as pynvml tells of it."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = type("NVMLError", (Exception,), {})
    nvmlInit = staticmethod(lambda: None)
    nvmlDeviceGetCount = staticmethod(lambda: 2)
    nvmlDeviceGetHandleByIndex = staticmethod(lambda number: number)
    nvmlDeviceGetMemoryInfo = staticmethod(lambda gpu: SimpleNamespace(used=2e9, total=16e9))
    nvmlDeviceGetUtilizationRates = staticmethod(lambda gpu: SimpleNamespace(gpu=100 - gpu))
    nvmlDeviceGetTemperature = staticmethod(lambda gpu, sensor: 60 + gpu)
    nvmlDeviceGetPowerUsage = staticmethod(lambda gpu: 70_000)  # milliwatts


def test_gpus_and_processes_fill_the_same_columns(monkeypatch) -> None:
    own = {"labels": {"rank": "0", "process": str(os.getpid())}}
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    [process] = watch.Watch([own]).look()
    assert process.who == "rank 0" and process.celsius is process.watts is None
    assert 0 < process.memory < process.room
    monkeypatch.setitem(sys.modules, "pynvml", Nvml)
    gpus = watch.Watch([own]).look()
    assert gpus == [("GPU 0", 100, 2, 16, 60, 70), ("GPU 1", 99, 2, 16, 61, 70)]


def no_answer(*about: object) -> None:
    raise Nvml.NVMLError("Not Supported")


def seen_without(monkeypatch, *questions: str) -> list[watch.Usage]:
    """What is seen of a GPU that does not answer these questions, or of this process instead."""
    for question in questions:
        monkeypatch.setattr(Nvml, question, staticmethod(no_answer))
    monkeypatch.setitem(sys.modules, "pynvml", Nvml)
    own = {"labels": {"rank": "0", "process": str(os.getpid())}}
    return watch.Watch([own]).look()


def test_a_gpu_that_does_not_say_its_heat_leaves_a_gap(monkeypatch) -> None:
    seen = seen_without(monkeypatch, "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage")
    assert seen == [("GPU 0", 100, 2, 16, None, None), ("GPU 1", 99, 2, 16, None, None)]


@pytest.mark.parametrize(
    "question", ["nvmlInit", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates"]
)
def test_where_gpus_do_not_say_how_busy_they_are_processes_do(monkeypatch, question: str) -> None:
    assert [each.who for each in seen_without(monkeypatch, question)] == ["rank 0"]


def test_a_driver_without_a_gpu_leaves_the_processes(monkeypatch) -> None:
    monkeypatch.setattr(Nvml, "nvmlDeviceGetCount", staticmethod(lambda: 0))
    assert [each.who for each in seen_without(monkeypatch)] == ["rank 0"]


SRUN = """#!/bin/bash
shift  # --cpus-per-task
for node in 1 0; do SLURM_NODEID=$node "$@"; done
"""
TORCHRUN = '#!/bin/bash\necho "$@ with $OMP_NUM_THREADS threads"\n'


def test_the_job_script_gives_every_node_a_number_of_its_own(tmp_path: Path) -> None:
    tools = {"srun": SRUN, "torchrun": TORCHRUN, "scontrol": "#!/bin/bash\nprintf 'a7\\na8\\n'\n"}
    for name, text in tools.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "1230042", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "a[7-8]"}
    settings = {"SLURM_CPUS_PER_TASK": "6", "PATH": f"{tmp_path}{os.pathsep}/usr/bin:/bin"}
    job = str(rooms.program("lives").with_name("job.sh"))
    done = subprocess.run(["bash", job], env=slurm | settings, capture_output=True, text=True)
    same = "--nproc-per-node=1 --master-addr=a7 --master-port=20042 lives.py --folder run-1230042"
    lines = [f"--nnodes=2 --node-rank={node} {same} with 6 threads" for node in (1, 0)]
    assert done.stdout.splitlines() == lines, done.stderr


def test_the_manifests_numbers_and_names_agree() -> None:
    folder = rooms.program("lives").parent
    service, job = yaml.safe_load_all((folder / "indexed.yaml").read_text())
    template = job["spec"]["template"]["spec"]
    [container] = template["containers"]
    options = dict(word.split("=", 1) for word in container["command"] if "=" in word)
    spec = job["spec"]
    assert spec["completions"] == spec["parallelism"] == int(options["--nnodes"])
    gpus = container["resources"]["limits"]["nvidia.com/gpu"]
    assert int(options["--nproc-per-node"]) == gpus
    name = job["metadata"]["name"]
    assert options["--master-addr"] == f"{name}-0.{service['metadata']['name']}"
    assert template["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}
    [apart] = template["affinity"]["podAntiAffinity"][REQUIRED]
    assert apart["labelSelector"]["matchLabels"] == service["spec"]["selector"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in template["volumes"]}
    trainer = yaml.safe_load((folder / "trainjob.yaml").read_text())["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (spec["completions"], gpus)
