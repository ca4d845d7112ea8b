"""Lesson 14's job on a real Slurm of two nodes: it trains, and it outlives a node."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from slurm import NODES, Cluster, until

from course import rooms

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
LESSON = rooms.program("lives").parent
SOLVED = ROOT / "notebooks" / "solutions" / "14_clusters.ipynb"
BY_SLURM = ROOT / "tests" / "programs" / "by_slurm.py"
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
# slurmctld sends a message again after so many seconds to a node that did not answer. A signal
# to the first life reaches the second one then: job and step have the same numbers.
AGAIN = 60


class Job(NamedTuple):
    cluster: Cluster
    folder: Path
    number: str

    def state(self) -> str:
        return self.cluster.job(self.number)["JobState"]

    def log(self) -> str:
        """What it has printed so far, in all its lives."""
        path = self.folder / f"train-{self.number}.log"
        return path.read_text() if path.exists() else ""

    def wait(self, seconds: float) -> dict[str, str]:
        """What Slurm says of the job when it is over."""
        until(lambda: self.state() in OVER, f"job {self.number} is over", seconds)
        return self.cluster.job(self.number)

    def report(self, rank: int) -> dict:
        name = "lives.json" if rank == 0 else f"lives.rank{rank}.json"
        return json.loads((self.folder / name).read_text())


def submit(cluster: Cluster, name: str, pause: float) -> Job:
    """Hand in the lesson's job.sh, with other pauses in the training."""
    folder = cluster.work.folder / name
    folder.mkdir()
    shutil.copy(LESSON / "lives.py", folder)
    script = (LESSON / "job.sh").read_text()
    assert script.count("lives.py ") == 1
    slower = script.replace("lives.py ", f"lives.py --pause {pause} ")
    (folder / "job.sh").write_text(slower)
    return Job(cluster, folder, cluster.ask("sbatch", "--parsable", "job.sh", folder=folder))


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster) -> Job:
    job = submit(cluster, "undisturbed", pause=0)
    job.wait(120)
    return job


@pytest.fixture(scope="module")
def bereft(cluster: Cluster, undisturbed: Job) -> tuple[Job, float]:
    """A job whose second node dies after step 10, and comes back; and when the node died."""
    job = submit(cluster, "bereft", pause=0.6)
    until(lambda: "step 10 is saved" in job.log(), f"step 10\n{job.log()}", 120)
    cluster.kill("node2")
    died = time.time()
    until(lambda: job.state() == "PENDING", "the job is queued again", 90)
    cluster.node("node2")
    job.wait(240)
    return job, died


def test_two_nodes_train(undisturbed: Job) -> None:
    job = undisturbed.cluster.job(undisturbed.number)
    assert (job["JobState"], job["ExitCode"], job["NodeList"]) == ("COMPLETED", "0:0", "node[1-2]")
    assert "start number 1, 2 ranks, at step 0\n" in undisturbed.log()
    for rank in (0, 1):
        report = undisturbed.report(rank)
        assert (report["rank"], report["world_size"], report["begun"]) == (rank, 2, 0)
    assert undisturbed.report(0)["weights"] == undisturbed.report(1)["weights"]


def test_a_job_outlives_a_node(bereft: tuple[Job, float], undisturbed: Job) -> None:
    job, _ = bereft
    said = job.cluster.job(job.number)
    assert (said["JobState"], said["ExitCode"], said["Restarts"]) == ("COMPLETED", "0:0", "1")
    lives = re.findall(r"start number (\d), 2 ranks, at step (\d+)", job.log())
    assert [number for number, _ in lives] == ["1", "2"]
    before = job.log().partition("start number 2")[0]
    saved = re.findall(r"step (\d+) is saved", before)
    assert (lives[0][1], lives[1][1]) == ("0", saved[-1])
    # Bit for bit what it would have learnt without the death.
    for rank in (0, 1):
        whole = undisturbed.report(rank)
        resumed = job.report(rank)
        assert resumed["weights"] == whole["weights"]
        assert resumed["losses"] == whole["losses"][resumed["begun"] :]
        assert resumed["begun"] == int(saved[-1])


def test_slurm_requeued_it_because_of_the_node(bereft: tuple[Job, float]) -> None:
    job, _ = bereft
    log = job.cluster.log("slurmctld")
    assert f"requeue job JobId={job.number} due to failure of node node2" in log
    assert log.index("Nodes node2 not responding, setting DOWN") < log.index("node2 now responding")


def test_no_late_signal_ends_the_second_life(bereft: tuple[Job, float]) -> None:
    job, died = bereft
    # `srun --kill-on-bad-exit=1` ends like this, with exit code 143, 137 or 1: it signals all tasks
    # when one fails, the dead node does not answer, and its second life gets the signal.
    ended = (job.folder / "lives.json").stat().st_mtime
    assert ended > died + AGAIN + 2, "the second life was too short to meet a late signal"
    assert "Received 15 death signal" not in job.log()


def test_what_happened_is_kept(bereft: tuple[Job, float], keep) -> None:
    job, died = bereft
    matters = re.compile(
        r"submit_batch|Allocate|requeu|respond|service|Started|_job_complete", re.I
    )
    lines = [line for line in job.cluster.log("slurmctld").splitlines() if matters.search(line)]
    moment = time.strftime("%T", time.localtime(died))
    told = [f"node2 was killed at {moment}", "", *lines, "", job.log()]
    keep("requeue.log", "\n".join(told))


def test_slurms_variables_become_ranks(cluster: Cluster) -> None:
    # The lesson's function, as its solution has it.
    cells = [cell.source for cell in nbformat.read(SOLVED, as_version=4).cells]
    [mapping] = [source for source in cells if "def from_slurm(" in source]
    folder = cluster.work.folder / "by_slurm"
    folder.mkdir()
    (folder / "mapping.py").write_text(mapping)
    shutil.copy(BY_SLURM, folder)
    tasks = ["srun", "--nodes=2", "--ntasks=3", "--distribution=block", "python", "by_slurm.py"]
    cluster.ask("env", f"MASTER_ADDR={NODES[0]}", *tasks, folder=folder)

    names = ["by_slurm.json", "by_slurm.rank1.json", "by_slurm.rank2.json"]
    reports = [json.loads((folder / name).read_text()) for name in names]
    assert [report["rank"] for report in reports] == [0, 1, 2]
    assert [report["node"] for report in reports] == ["node1", "node1", "node2"]
    assert [report["local_rank"] for report in reports] == [0, 1, 0]
    assert [report["total"] for report in reports] == [1 + 2 + 3] * 3
