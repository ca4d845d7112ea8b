"""A whole Slurm of two nodes for a test: controller, two node daemons, munge, as Debian has them.

Nobody has to be root, no port and no name of this machine is used, and nothing is left: all of it
lives in namespaces of its own (user, network, mounts, processes, host name), whose first process
takes everything with it when it ends. Inside there is one user, called `daemon`, who is the one
who runs the test. Slurm must not be started as root there: it would drop its groups, which a user
namespace forbids ("Failed to drop supplementary groups").
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from beside import beside, ready

from course import rooms
from course.processes import Work

NODES = ["node1", "node2"]
USER = "daemon"  # who exists everywhere; inside it is who runs the test
# The user namespace comes first: the others belong to it.
UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--uts", "--pid"]
UNSHARE += ["--fork", "--kill-child", "--mount-proc"]
# What runs there as process 1. Names are looked up only where there is an address beside
# 127.0.0.1, and node1 and node2 have to be names, as on a real cluster. `wait` buries the dead.
FIRST = """
ip link set lo up && ip address add 10.80.0.1/32 dev lo && hostname cluster &&
mount --bind "$1" /etc/hosts && echo ready && { sleep infinity & wait; }
"""
HOSTS = "127.0.0.1 localhost cluster node1 node2\n"
# SlurmdTimeout: seconds until a silent node counts as dead. cred_expire: a job that is requeued
# waits as long as a credential is valid, two minutes unless said otherwise. bf_interval: seconds
# between two looks at jobs in several parts (TorchX's), 30 unless said otherwise. RealMemory: more
# than is asked for here; Slurm believes it.
CONFIGURATION = """
ClusterName=course
SlurmctldHost=cluster(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=5
SchedulerParameters=bf_interval=1
InactiveLimit=0
KillWait=5
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=node[1-2] NodeHostname=cluster NodeAddr=127.0.0.1 Port=[7911-7912] CPUs=2 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def states(answer: str) -> dict[str, str]:
    """Node → state, from sinfo's lines."""
    return dict(line.split() for line in answer.splitlines())


def facts(answer: str) -> dict[str, str]:
    """Name → value, from the `NAME=VALUE` words of scontrol's first line.

    A job in several parts has a line for each, the one that counts first.
    """
    [first, *_] = answer.splitlines()
    return dict(word.split("=", 1) for word in first.split() if "=" in word)


class Cluster(NamedTuple):
    work: Work
    folder: Path  # of configuration, logs and daemons' states
    first: int  # the namespaces' first process
    daemons: ExitStack

    def environment(self, part: str) -> dict[str, str]:
        """What a process of one part is started with."""
        ours = {"SLURM_CONF": str(self.folder / "slurm.conf"), "OMP_NUM_THREADS": "1"}
        ours["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
        ours["PYTHONPATH"] = rooms.python_path()
        return os.environ | ours | self.work.environment(part)

    def inside(self, folder: Path, *command: str | Path) -> list[str]:
        """A command line that runs a command in a folder, inside."""
        enter = ["nsenter", "--target", str(self.first), "--user", "--preserve-credentials"]
        enter += ["--net", "--mount", "--uts", "--pid"]
        # Another user namespace, in which the only user is not root.
        become = ["unshare", "--user", f"--map-user={USER}", f"--map-group={USER}"]
        there = ["env", f"--chdir={folder}"]
        return [*enter, *become, *there, *map(str, command)]

    def start(self, name: str, *command: str | Path) -> None:
        """Start a daemon; what it says beside its log goes into `name.said`."""
        command = self.inside(self.folder, *command)
        daemon = beside(command, self.environment(name), self.folder, f"{name}.said")
        self.daemons.enter_context(daemon)

    def node(self, name: str) -> None:
        """Start the daemon of a node."""
        self.start(name, "slurmd", "-D", "-N", name)

    def kill(self, name: str) -> None:
        """Let a node die: its daemon, its job steps and all that they have started, by SIGKILL."""
        for process in self.on_node(name):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def on_node(self, name: str) -> list[psutil.Process]:
        """What runs on a node, of all that runs here."""
        daemon = self.work.environment(name)[self.work.name]
        found = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environment = process.environ()
                mark = environment.get(self.work.name, "")
                task = environment.get("SLURMD_NODENAME") == name
                if mark == daemon or (mark.startswith(self.work.mark) and task):
                    found[process.pid] = process
                    # Above a task is the daemon of its step, which has no environment to see.
                    steps = [each for each in process.parents() if "slurmstepd" in each.name()]
                    found |= {step.pid: step for step in steps}
        return list(found.values())

    def ask(self, *command: str | Path, folder: Path | None = None) -> str:
        """What a command of Slurm answers; RuntimeError says what it said when it fails."""
        done = subprocess.run(
            self.inside(folder or self.folder, *command),
            env=self.environment("asks"),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def nodes(self) -> dict[str, str]:
        """The state of every node: "idle", "down*" and so on; nothing while nobody answers."""
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            return states(self.ask("sinfo", "--noheader", "--Node", "--format=%N %T"))
        return {}

    def job(self, number: str) -> dict[str, str]:
        """What `scontrol show job` says of a job: its state, its reason, how often it restarted."""
        return facts(self.ask("scontrol", "--oneliner", "show", "job", number))

    def log(self, name: str) -> str:
        """What a daemon has said so far."""
        return (self.folder / f"{name}.log").read_text()


def until(condition: Callable[[], object], what: str, seconds: float) -> object:
    """The first true answer of a condition; TimeoutError says what did not come."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s: {what}")
        time.sleep(0.1)


@contextmanager
def namespaces(work: Work, hosts: Path) -> Iterator[int]:
    """Make the namespaces; the id of their first process, as it is called out here."""
    command = [*UNSHARE, "bash", "-c", FIRST, "first", hosts]
    with ready(command, os.environ | work.environment("first")) as unshare:
        [first] = psutil.Process(unshare).children()
        try:
            yield first.pid
        finally:
            first.kill()  # and with it all that is inside


@contextmanager
def slurm(work: Work) -> Iterator[Cluster]:
    """Two idle nodes, while the block runs."""
    folder = work.folder / "slurm"
    for name in ["state", *(f"spool-{node}" for node in NODES)]:
        (folder / name).mkdir(parents=True)
    (folder / "hosts").write_text(HOSTS)
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, user=USER))
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(os.urandom(1024))
    # munged refuses a socket that not everyone can reach.
    for each in (work.folder, folder):
        each.chmod(0o755)

    with namespaces(work, folder / "hosts") as first, ExitStack() as daemons:
        cluster = Cluster(work, folder, first, daemons)
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
        files |= {"log-file": "munged.messages", "seed-file": "munged.seed"}
        options = [f"--{name}={folder / file}" for name, file in files.items()]
        # --force: a folder above ours may be anyone's.
        cluster.start("munged", "munged", "--foreground", "--force", *options)
        until((folder / "munge.socket").exists, "munged has no socket", 10)
        cluster.start("slurmctld", "slurmctld", "-D", "-c")
        for node in NODES:
            cluster.node(node)
        idle = dict.fromkeys(NODES, "idle")
        until(lambda: cluster.nodes() == idle, "two idle nodes", 30)
        yield cluster
