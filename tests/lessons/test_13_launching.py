"""Lesson 13 where its notebook does not look.

Its training on other numbers of ranks, how a machine fails, what a stranger gets, and, in `make
test-all`, the two things about torchrun that the lesson says without a launch: what happens to a
machine that joins without the variable, and to all when the first machine dies.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from ranks import launch, launch_all
from torch import nn

import members
import ownagent
import stranger
import unready
from course import rooms
from devices import Place

SECONDS = 150  # for two agents, on a busy machine
VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def test_three_ranks_on_one_node_add_their_numbers(tmp_path: Path) -> None:
    reports = launch(tmp_path, 3, str(rooms.program("badge"))).reports("badge", 3)
    assert [each["total"] for each in reports] == [6, 6, 6]
    assert [each["told"]["LOCAL_RANK"] for each in reports] == ["0", "1", "2"]
    assert {each["told"]["GROUP_RANK"] for each in reports} == {"0"}


def by_hand(steps: int) -> list[float]:
    """The weights after so many steps: SGD with momentum, written out."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    speeds = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(12, 4, dtype=torch.float64, generator=generator)
        model.zero_grad()
        (model(x) - x.prod(1, keepdim=True)).square().mean().backward()
        with torch.no_grad():
            for parameter, speed in zip(model.parameters(), speeds, strict=True):
                speed.mul_(0.9).add_(parameter.grad)
                parameter -= 0.1 * speed
    return nn.utils.parameters_to_vector(model.parameters()).tolist()


def test_a_training_that_is_cut_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    alone = members.Training()
    for step in range(8):
        alone.step(alone.model, *members.batch(step))
    alone.save(8)
    command = [str(rooms.program("members")), "--pause", "0", "--steps", "14"]
    for report in launch(tmp_path, 3, *command).reports("members", 3):
        assert report["weights"] == pytest.approx(by_hand(14), rel=1e-9, abs=1e-12)
        assert report["gap"] <= 1e-12
    rows = [json.loads(line) for line in members.LOG.read_text().splitlines()]
    made = sorted((row["step"], row["world_size"], row["rank"]) for row in rows)
    assert made == list(itertools.product(range(8, 14), [3], range(3)))
    saved = members.Training()
    assert saved.load() == 12
    assert saved.weights().tolist() == pytest.approx(by_hand(12), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("local_rank", "killed"), [(0, ["agent", "itself"]), (1, ["itself"])])
def test_the_agent_dies_first_and_nobody_else_is_killed(
    monkeypatch, local_rank: int, killed: list[str]
) -> None:
    agent = 4_000_001  # no process has this number
    parents = iter([agent, agent, 1])
    dead = []
    monkeypatch.setattr(members, "AGENT", agent)
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(os, "kill", lambda pid, number: dead.append((pid, number)))
    members.leave(Place(5, local_rank, 6, torch.device("cpu"), "gloo"))
    names = {agent: "agent", os.getpid(): "itself"}
    assert [(names[pid], number) for pid, number in dead] == [
        (name, signal.SIGKILL) for name in killed
    ]
    assert next(parents, None) is None, "it waits until the agent is gone"


@pytest.fixture
def agent_of_one(monkeypatch) -> None:
    """What torchrun would tell the only rank of a second life."""
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    for name, value in {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")


def test_the_function_of_a_rank_returns_the_sum(agent_of_one: None) -> None:
    assert ownagent.work(3.0)["total"] == 3.0


def test_the_handler_keeps_the_newest_value_of_each_number() -> None:
    keep = ownagent.Keep()
    for name, value in [("a", 1), ("b", 2), ("a", 3)]:
        keep.emit(ownagent.metrics.MetricData(0.0, "torchelastic", name, value))
    assert keep.newest == {"a": 3, "b": 2}


def test_a_machine_without_a_network_has_loopback_alone(monkeypatch) -> None:
    def unreachable(self, address) -> None:
        raise OSError(101, "Network is unreachable")

    class Socket(socket.socket):
        connect = unreachable

    monkeypatch.setattr(stranger.socket, "socket", Socket)
    assert stranger.own_address() == "127.0.0.1"


def test_a_stranger_reads_and_writes_an_open_store_and_hears_of_a_closed_port() -> None:
    store, port = stranger.closed_store()
    store.set("secret", "x")
    found = stranger.visit("127.0.0.1", port)
    assert found["note"] == store.get("note").decode() == "a stranger was here"
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert stranger.visit("127.0.0.1", free) == {"refused": "ConnectionRefusedError"}


def test_the_closed_store_listens_on_loopback_alone() -> None:
    store, port = stranger.closed_store()
    own = psutil.Process().net_connections(kind="tcp")
    listening = [each.laddr for each in own if each.status == psutil.CONN_LISTEN]
    assert ("127.0.0.1", port) in listening
    assert {address for address, number in listening if number == port} == {"127.0.0.1"}
    assert store.num_keys() >= 0


def test_a_rank_without_a_group_leaves_without_another_error() -> None:
    assert not torch.distributed.is_initialized()
    unready.leave()


@pytest.mark.parametrize(("options", "closed"), [([], [1]), (["--together"], [0, 1])])
def test_a_start_that_failed_names_its_cause(
    tmp_path: Path, options: list[str], closed: list[int]
) -> None:
    command = [str(rooms.program("unready")), *options]
    [ended] = launch_all({tmp_path: (2, command)}, SECONDS)
    assert ended.code == 1
    root_cause = ended.text.partition("Root Cause")[2]
    assert "rank      : 1" in root_cause
    assert "FileNotFoundError" in root_cause
    notes = [tmp_path / f"unready-{rank}.txt" for rank in range(2)]
    whole = [rank for rank, path in enumerate(notes) if path.exists() and path.read_text()]
    assert whole == closed


@pytest.fixture
def machine(tmp_path: Path) -> Iterator:
    """Starts an agent of an elastic launch of members.py; all of them end with the test."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path = {"PYTHONPATH": rooms.python_path(), "OMP_NUM_THREADS": "1"}
    begun = []

    def start(name: str, hosts: bool, *arguments: str, **settings: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2"]
        command += ["--nproc-per-node=1", "--max-restarts=2", "--rdzv-backend=c10d"]
        command += [f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=test"]
        conf = f"is_host={int(hosts)},last_call_timeout=1,keep_alive_interval=1"
        command += [f"--rdzv-conf={conf}", str(rooms.program("members")), "--name", name]
        env = {key: value for key, value in os.environ.items() if key != VARIABLE}
        with (tmp_path / f"{name}.txt").open("w") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=tmp_path,
                env=env | path | settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.terminate()
    for process in begun:
        process.wait(60)


def wait_for(log: Path, lines: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not log.exists() or len(log.read_text().splitlines()) < lines:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.thorough
def test_a_machine_that_joins_still_needs_the_variable(machine, tmp_path: Path) -> None:
    """Red because all went well? Then this lesson and lesson 11's grow.py need it no more."""
    first = machine("first", True, "--hold-at", "4")
    wait_for(tmp_path / "members.log", 4, first)
    second = machine("second", False)
    codes = [first.wait(SECONDS), second.wait(SECONDS)]
    texts = [(tmp_path / f"{name}.txt").read_text() for name in ("first", "second")]
    assert codes == [1, 1], f"torch {torch.__version__} no longer needs {VARIABLE}: {codes}"
    assert all("DistStoreError: wait timeout after 60000ms" in text for text in texts), texts


@pytest.mark.thorough
def test_when_the_machine_that_hosts_the_store_dies_all_is_over(machine, tmp_path: Path) -> None:
    first = machine("first", True, "--hold-at", "4", "--leave-at", "8", **{VARIABLE: "1"})
    wait_for(tmp_path / "members.log", 4, first)
    second = machine("second", False, **{VARIABLE: "1"})
    assert first.wait(SECONDS) == -signal.SIGKILL
    assert second.wait(SECONDS) == 1
    assert "machine second: rank" in (tmp_path / "second.txt").read_text()
