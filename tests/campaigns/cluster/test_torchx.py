"""TorchX: what its dry runs write is what the lesson says, and a job of its own really runs."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from slurm import Cluster, until

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
TORCHX = ROOT / ".venv-cluster" / "bin" / "torchx"
WORDS = ROOT / "notebooks" / "src" / "14_clusters.md"
PROGRAM = ROOT / "tests" / "programs" / "slowest.py"
TWO_NODES = ["dist.ddp", "-j", "2x1", "--cpu", "1", "--memMB", "1000", "--script", PROGRAM.name]


def joined(printed: str) -> str:
    """What was printed as 'pieces ' "of a text", in one piece."""
    return re.sub(r"""['"]\\n\s*['"]|['"]\s+['"]""", "", printed)


def torchrun_of(printed: str) -> str:
    """The first torchrun command of a dry run, without the job's id and its role."""
    command = re.search(r"torchrun .*?\w+\.py", joined(printed))[0]
    return re.sub(r"--rdzv_id '\S*' |--role '\S*' ", "", command)


def dry_run(folder: Path, *arguments: str) -> str:
    """What TorchX would do, in an empty folder."""
    command = [TORCHX, "run", "--workspace", "", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lesson_quotes_a_dry_run(tmp_path: Path) -> None:
    words = WORDS.read_text()
    commands = re.findall(r"`torchx run (.+? --script train\.py)`", words)
    quoted = re.findall(r"`(torchrun --rdzv_backend .+?)`", words)
    assert len(set(commands)) == len(set(quoted)) == 1
    assert torchrun_of(dry_run(tmp_path, *commands[0].split())) == quoted[0]


def test_for_slurm_it_writes_one_component_for_each_node(tmp_path: Path) -> None:
    script = dry_run(tmp_path, "-s", "slurm", "--dryrun", *TWO_NODES)
    assert len(re.findall(r"^#SBATCH --job-name=slowest-\d", script, re.MULTILINE)) == 2
    assert script.count("#SBATCH hetjob") == 1
    assert "--rdzv_endpoint ${SLURM_JOB_NODELIST_HET_GROUP_0:=localhost}:29500" in script


def test_for_kubernetes_it_writes_a_job_for_volcano(tmp_path: Path) -> None:
    settings = ["-cfg", "queue=default,namespace=default"]
    manifest = dry_run(tmp_path, "-s", "kubernetes", *settings, "--dryrun", *TWO_NODES)
    assert "apiVersion: batch.volcano.sh/" in manifest
    parts = set(re.findall(r"name: (slowest-\d)$", manifest, re.MULTILINE))
    assert parts == {"slowest-0", "slowest-1"}


def test_a_job_of_torchx_trains_on_two_nodes(cluster: Cluster) -> None:
    folder = cluster.work.folder / "torchx"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    command = cluster.inside(folder, TORCHX, "run", "--workspace", "", "-s", "slurm", *TWO_NODES)
    # It ends with an error after it has handed in the job: it asks `sacct`, and this Slurm keeps no
    # accounts. The job does not mind.
    environment = cluster.environment("asks")
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    number = re.search(r"Launched app: slurm://torchx/(\d+)", said.stderr)[1]
    until(lambda: cluster.job(number)["JobState"] == "COMPLETED", f"job {number} is done", 120)

    job = cluster.job(number)
    assert (job["ExitCode"], job["HetJobOffset"], job["JobName"]) == ("0:0", "0", "slowest-0")
    # Rank 0's number and rank 1's have met: the larger one is on both.
    for name in ("slowest.json", "slowest.rank1.json"):
        report = json.loads((folder / name).read_text())
        assert report["world_size"] == 2
        assert report["falling"] == pytest.approx(0.3)
