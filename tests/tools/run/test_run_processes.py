"""What a tool starts is gone when it ends: scripts/course/processes.py, with small processes.

With real ranks and a real tool: test_run.py.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from course.processes import end

TOOL = """import os, subprocess, sys, time
from course.processes import guarded

def sleep(**options):
    quiet = dict.fromkeys(["stdout", "stderr"], subprocess.DEVNULL)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(command, **quiet, **options)

with guarded("COURSE_TEST", "course-test-") as work:
    mine = [sleep(env=os.environ | work.environment(part)) for part in "ab"]
    # One that leaves its session, as torchrun's ranks do.
    mine.append(sleep(env=os.environ | work.environment("b"), start_new_session=True))
    stranger = sleep()
    (work.folder / "a file").touch()
    print(work.folder, stranger.pid, *[process.pid for process in mine], flush=True)
    WHAT
"""


class Tool:
    """A tool at work: its folder, a stranger, and three processes of its own."""

    def __init__(self, what: str):
        command = [sys.executable, "-c", TOOL.replace("WHAT", what)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        folder, *numbers = self.process.stdout.readline().split()
        self.folder = Path(folder)
        processes = [psutil.Process(int(number)) for number in numbers]
        self.stranger = processes[0]
        self.own = processes[1:]

    def living(self) -> list[psutil.Process]:
        alive = []
        for process in self.own:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        return alive

    def gone(self, seconds: float = 20) -> bool:
        deadline = time.monotonic() + seconds
        while self.living() or self.folder.exists():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


@pytest.fixture
def start():
    """Starts a tool that does something; ends what a failed test has left."""
    tools = []

    def begin(what: str) -> Tool:
        tools.append(Tool(what))
        return tools[-1]

    yield begin
    for tool in tools:
        tool.process.kill()
        for process in [tool.stranger, *tool.living()]:
            process.kill()
        tool.process.communicate()


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [("pass", 0, ""), ("raise SystemExit(7)", 7, ""), ("1 / 0", 1, "ZeroDivisionError")],
    ids=["the end", "an exit", "an error"],
)
def test_a_tool_that_ends_leaves_nothing(start, what, code, said):
    tool = start(what)
    assert said in tool.process.communicate(timeout=60)[1]
    assert tool.process.returncode == code
    assert tool.gone(0)  # when the tool has ended, not some time later
    assert tool.stranger.is_running()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_tool_that_is_ended_leaves_nothing(start, number, code):
    tool = start("time.sleep(600)")
    assert len(tool.living()) == 3
    tool.process.send_signal(number)
    assert "Traceback" not in tool.process.communicate(timeout=60)[1]
    assert tool.process.returncode == code
    assert tool.gone()
    assert tool.stranger.is_running()


def test_a_tool_whose_guardian_was_killed_clears_up_itself(start):
    guardian = "import psutil; own = psutil.Process().children()"
    kill = "[child.kill() for child in own if 'processes.py' in ' '.join(child.cmdline())]"
    tool = start(f"{guardian}; killed = {kill}; assert len(killed) == 1")
    tool.process.communicate(timeout=60)
    assert tool.process.returncode == 0
    assert tool.gone(0)


def test_one_part_can_be_ended_alone(start):
    tool = start("work.end('b'); print('ended', flush=True); time.sleep(600)")
    assert tool.process.stdout.readline() == "ended\n"
    assert tool.living() == tool.own[:1]


def test_one_process_can_be_spared():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    env = os.environ | {"COURSE_RUN": "a mark-1"}
    processes = [subprocess.Popen(command, env=env) for _ in range(2)]
    try:
        end("another mark", seconds=1)
        assert processes[0].poll() is processes[1].poll() is None
        end("a mark", spare=processes[1].pid, seconds=5)
        assert processes[0].wait(10) == -signal.SIGKILL
        assert processes[1].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.wait()
