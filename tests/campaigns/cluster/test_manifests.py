"""Lesson 14's manifests against the schemas of those who read them, and their command for real.

No Kubernetes runs here. Whether `$(JOB_COMPLETION_INDEX)` is filled in, and whether the name of a
pod leads to it, is what these tests cannot see.
"""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from machines import Machine, run_all, two_machines

from course import rooms
from course.processes import Work

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
BIN = ROOT / ".venv-cluster" / "bin"
LESSON = rooms.program("lives").parent
INDEXED = (LESSON / "indexed.yaml").read_text()
TRAINJOB = (LESSON / "trainjob.yaml").read_text()


def kubernetes(manifest: str, folder: Path) -> subprocess.CompletedProcess:
    """Hold a manifest against Kubernetes' own schema, in which unknown keys are errors, too."""
    path = folder / "manifest.yaml"
    path.write_text(manifest)
    command = [BIN / "kubernetes-validate", "--strict", path]
    return subprocess.run(command, capture_output=True, text=True)


def kubeflow(manifest: str) -> subprocess.CompletedProcess:
    """Hold a manifest against the types of Kubeflow Trainer."""
    command = [BIN / "python", ROOT / "tests" / "programs" / "trainjob.py"]
    return subprocess.run(command, input=manifest, capture_output=True, text=True)


def changed(manifest: str, old: str, new: str) -> str:
    assert manifest.count(old) == 1, f"{manifest.count(old)} times: {old}"
    return manifest.replace(old, new)


def test_kubernetes_takes_the_job_and_its_service(tmp_path: Path) -> None:
    said = kubernetes(INDEXED, tmp_path)
    assert said.returncode == 0, said.stderr
    for resource in ("service/train", "job/train"):
        assert f"passed for resource {resource}" in said.stdout + said.stderr


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("parallelism: 2", "paralelism: 2", "paralelism"),
        ("publishNotReadyAddresses:", "publishNotReadyAdresses:", "publishNotReadyAdresses"),
        ("subdomain: train", "subDomain: train", "subDomain"),
        ("topologyKey:", "topologykey:", "topologyKey"),
        ("completions: 2", "completions: two", "spec.completions"),
        ("completionMode: Indexed", "completionMode: 3", "spec.completionMode"),
        ('value: "4"', "value: 4", "env"),
        ("sizeLimit: 2Gi", "sizeLimit: [2Gi]", "sizeLimit"),
    ],
)
def test_kubernetes_refuses_a_slip(old: str, new: str, place: str, tmp_path: Path) -> None:
    said = kubernetes(changed(INDEXED, old, new), tmp_path)
    assert said.returncode == 1
    assert place in said.stdout + said.stderr


def test_kubeflow_takes_the_train_job() -> None:
    said = kubeflow(TRAINJOB)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("numNodes: 2", "numNode: 2", "it understands"),
        ("runtimeRef:", "runtimeref:", "runtimeRef"),
        ("numNodes: 2", "numNodes: two", "a wrong type"),
        ("      - torchrun\n", "      - [torchrun]\n", "a wrong type"),
    ],
)
def test_kubeflow_refuses_a_slip(old: str, new: str, reason: str) -> None:
    said = kubeflow(changed(TRAINJOB, old, new))
    assert said.returncode == 1
    assert reason in said.stderr


def command_of(container: dict, pod: int, head: Machine) -> list[str]:
    """What a pod of the Job runs, with its number and with the first pod's address filled in."""
    words = []
    for word in container["command"]:
        numbered = word.replace("$(JOB_COMPLETION_INDEX)", str(pod))
        words.append(numbered.replace("train-0.train", head.address))
    return words


def test_the_jobs_command_trains(work: Work) -> None:
    service, job = yaml.safe_load_all(INDEXED)
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    folder = work.folder / "pods"
    folder.mkdir()
    (folder / "lives.py").write_text((LESSON / "lives.py").read_text())
    # The name that the command asks for: first pod of the job, in the domain of the service.
    name = f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert f"--master-addr={name}" in container["command"]
    assert pod["subdomain"] == service["metadata"]["name"]
    # Each pod has a network of its own, as in Kubernetes.
    with two_machines(work) as machines:
        commands = [command_of(container, number, machines[0]) for number in (0, 1)]
        ended = run_all(machines, work, folder, commands)
    for each in ended:
        assert each.code == 0, each.text
    reports = [json.loads((folder / f"lives{rank}.json").read_text()) for rank in ("", ".rank1")]
    assert [report["world_size"] for report in reports] == [2, 2]
    assert reports[0]["weights"] == reports[1]["weights"]
