"""A real Prometheus reads lesson 14's ranks, and its answer to the lesson's question is right.

And NVIDIA's own package for NVML has what the lesson asks of it.
"""

import ast
import importlib.util
import json
import os
import re
import shutil
import socket
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from beside import beside
from slurm import until

import watch
from course import rooms
from course.measure.start import torchrun
from course.processes import Work

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ROOT / ".venv-cluster" / "lib"
WORDS = ROOT / "notebooks" / "src" / "14_clusters.md"
LATE = 20  # milliseconds in each step, on the slow rank
# Straight to this machine, even where others are reached by way of a proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Prometheus:
    """A Prometheus that runs beside the ranks; ask() it."""

    def __init__(self, port: int):
        self.port = port

    def ask(self, question: str) -> dict[str, float]:
        """Rank → value of a PromQL question; nothing while there is no answer."""
        query = urllib.parse.urlencode({"query": question})
        address = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        with suppress(OSError), opener.open(address, timeout=10) as answer:
            rows = json.load(answer)["data"]["result"]
            return {row["metric"]["rank"]: float(row["value"][1]) for row in rows}
        return {}


@pytest.fixture(params=[0, 1], ids=["rank 0 is slow", "rank 1 is slow"])
def watched(request: pytest.FixtureRequest, work: Work) -> Iterator[tuple[int, Prometheus]]:
    """Two ranks that train, one of them slow, and a Prometheus that reads them each second."""
    slow = request.param
    folder = work.folder / f"metrics{slow}"
    folder.mkdir()
    shutil.copy(rooms.program("straggler").parent / "prometheus.yaml", folder)
    environment = os.environ | work.environment() | {"PYTHONPATH": rooms.python_path()}
    environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ranks = [*torchrun(2), rooms.program("straggler"), "--steps", "100000", "--slow", str(slow)]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = ["prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=data"]
    server.append(f"--web.listen-address=127.0.0.1:{port}")
    with (
        beside(ranks, environment, folder, "ranks.log") as training,
        beside(server, environment, folder, "prometheus.log"),
    ):
        yield slow, Prometheus(port)
        (folder / "enough").touch()
        assert training.wait(60) == 0, (folder / "ranks.log").read_text()


def test_prometheus_names_the_straggler(watched: tuple[int, Prometheus], keep) -> None:
    slow, prometheus = watched
    # The question that the lesson asks.
    [question] = set(re.findall(r"`(rate\(train_seconds_total.+?)`", WORDS.read_text()))
    until(lambda: len(prometheus.ask(question)) == 2, "Prometheus knows both ranks", 60)
    assert prometheus.ask("up") == {"0": 1, "1": 1}
    # Ten seconds of rest, until its window holds steps alone.
    full = "count_over_time(train_steps_total[10s]) >= 10"
    until(lambda: len(prometheus.ask(full)) == 2, "ten looks at both ranks", 60)

    waits = prometheus.ask(question)
    computes = prometheus.ask(question.replace('"wait"', '"compute"'))
    assert min(waits, key=waits.get) == str(slow)
    assert prometheus.ask(f"bottomk(1, {question})").keys() == {str(slow)}
    innocent = str(1 - slow)
    # Seconds a step: the slow rank computes longer, and just as long does the other one wait.
    assert computes[str(slow)] > LATE / 1000
    assert waits[innocent] > waits[str(slow)] + LATE / 2000
    keep(f"straggler{slow}.json", {"question": question, "wait": waits, "compute": computes})


@pytest.fixture
def pynvml(monkeypatch) -> ModuleType:
    """NVIDIA's own package, as `import pynvml` finds it where it is installed."""
    [path] = PACKAGES.glob("python*/site-packages/pynvml.py")
    described = importlib.util.spec_from_file_location("pynvml", path)
    package = importlib.util.module_from_spec(described)
    monkeypatch.setitem(sys.modules, "pynvml", package)  # first: it looks itself up there
    described.loader.exec_module(package)
    return package


def asked_of_nvml() -> set[str]:
    """The names that watch.py takes from the package."""
    tree = ast.parse(rooms.program("watch").read_text())
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in taken if ast.unparse(node.value) in ("pynvml", "self.nvml")}


def test_nvidias_package_has_what_the_lesson_asks_of_it(pynvml: ModuleType) -> None:
    asked = asked_of_nvml()
    assert {"nvmlInit", "nvmlDeviceGetPowerUsage", "NVMLError"} <= asked
    assert [name for name in asked if not hasattr(pynvml, name)] == []
    assert {"used", "total"} <= {name for name, _ in pynvml.c_nvmlMemory_t._fields_}
    assert "gpu" in {name for name, _ in pynvml.c_nvmlUtilization_t._fields_}


def test_nvidias_package_tells_of_gpus_or_of_none(pynvml: ModuleType) -> None:
    own = {"labels": {"rank": "0", "process": str(psutil.Process().pid)}}
    seen = watch.Watch([own]).look()
    try:
        pynvml.nvmlInit()
        gpus = [f"GPU {number}" for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:  # no driver here
        gpus = []
    assert [each.who for each in seen] == (gpus or ["rank 0"])
    for each in seen:
        assert 0 <= each.memory <= each.room and each.busy >= 0
        assert each.celsius is None or 0 < each.celsius < 150
        assert each.watts is None or 0 <= each.watts < 5000
