"""Has imported torch, and forks a torchrun for every launch that asks for one. See course.forked.

Run by `torchrun` beside it:  python forkserver.py PID DESCRIPTOR

It ends with process PID, and then ends the launches that still run. DESCRIPTOR is the socket at
which launches ask. Each sends its folder, its own part of the environment, and its arguments, with
its three standard streams; then a signal's number for each signal that it gets. It gets the exit
code.

No rank of a launch begins before all are forked. As soon as a rank reaches torchrun's store, a
thread of torchrun looks up that rank's name, and holds a lock of the C library for a moment. A rank
that is forked in this moment inherits the lock, held by a thread that it does not have: its own
first look-up, in `init_process_group`, never ends.
"""

import atexit
import importlib
import json
import multiprocessing
import os
import selectors
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import NamedTuple, NoReturn

import torch.multiprocessing as mp
from torch.distributed.run import main as run

start_processes = mp.start_processes


def start_together(fn, args=(), nprocs=1, **how):
    """`start_processes` for ranks that wait until the last one is there."""
    reading, writing = os.pipe()
    try:
        ranks = start_processes(wait, (reading, writing, fn, *args), nprocs, **how)
        os.write(writing, b"." * nprocs)
        return ranks
    finally:
        os.close(writing)
        os.close(reading)


def wait(rank: int, reading: int, writing: int, fn, *args) -> None:
    """Call fn in a rank, as soon as torchrun has forked all; not at all if it failed before that.

    What a rank of its own Python would not share with torchrun, or with other launches, is undone.
    """
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mp.start_processes = start_processes
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()

    os.close(writing)
    if not os.read(reading, 1):
        sys.exit(1)
    os.close(reading)
    fn(rank, *args)


def torchrun(arguments: list[str]) -> int | None:
    """Become torchrun: `arguments` are its own, its name first."""
    del sys.path[0]  # this folder: a rank must not find what is in it
    sys.argv = arguments
    mp.start_processes = start_together
    try:
        return run()
    finally:  # Python would wait for ranks that are left; a plain torchrun does not
        for left in multiprocessing.active_children():
            left.kill()


class Asked(NamedTuple):
    """What a launch wants, and its standard streams."""

    folder: str
    environment: dict[str, str]
    arguments: list[str]
    streams: list[int]


def receive(line: socket.socket) -> Asked | None:
    """What the launch at the other end asks for; None if it is another user's, or ended."""
    about = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", about)
    if user != os.getuid():
        return None
    text, streams, _, _ = socket.recv_fds(line, 65536, 3)
    while text and not text.endswith(b"\n"):
        more = line.recv(65536)
        text = more and text + more
    return Asked(*json.loads(text), streams) if text else None


def begin(asked: Asked) -> None:
    """In a forked process: take the place of the launch that asked."""
    mp._prctl_pr_set_pdeathsig(signal.SIGTERM)  # no launch outlives the forkserver
    os.setsid()
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked.folder)
    multiprocessing.process.ORIGINAL_DIR = asked.folder
    os.environ.update(asked.environment)
    paths = asked.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = filter(None, paths)


class Forkserver:
    """Waits for launches, for the ends of those that run, and for the end of `owner`."""

    def __init__(self, listener: socket.socket, owner: int):
        self.listener = listener
        self.waiting = selectors.DefaultSelector()
        self.waiting.register(listener, selectors.EVENT_READ, self.accept)
        self.waiting.register(os.pidfd_open(owner), selectors.EVENT_READ, self.end_all)
        self.running: dict[int, socket.socket] = {}  # process id → the launch that asked for it

    def serve(self) -> Asked | None:
        """Returns in each forked process what it must do, and None when all has ended."""
        while self.waiting.get_map():
            for key, _ in self.waiting.select()[:1]:  # what one does may undo another
                asked = key.data(key.fileobj)
                if asked:
                    return asked
        return None

    def end_all(self, owner: int) -> None:
        """The owner has ended: take no more launches, and end those that run."""
        self.waiting.unregister(owner)
        self.waiting.unregister(self.listener)
        self.listener.close()
        for child, line in self.running.items():
            if line in self.waiting.get_map():  # the others got it when their launch was killed
                os.kill(child, signal.SIGTERM)

    def accept(self, _) -> Asked | None:
        """A launch asks: fork a torchrun. Returns in the fork what that must do."""
        line, _ = self.listener.accept()
        asked = receive(line)
        if asked is None:
            line.close()
            return None
        child = os.fork()
        if child == 0:
            self.forget_all(line)
            return asked
        for stream in asked.streams:
            os.close(stream)
        self.running[child] = line
        self.waiting.register(os.pidfd_open(child), selectors.EVENT_READ, self.ended(child))
        self.waiting.register(line, selectors.EVENT_READ, self.signalled(child))
        return None

    def forget_all(self, line: socket.socket) -> None:
        """In a forked process: close what belongs to the forkserver and to other launches."""
        line.close()
        for key in list(self.waiting.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
            else:
                key.fileobj.close()
        self.waiting.close()

    def signalled(self, child: int):
        """What to do when a launch passes on signals, or was killed."""

        def pass_on(line: socket.socket) -> None:
            numbers = line.recv(64).split()
            for number in numbers or [signal.SIGTERM]:
                os.kill(child, int(number))
            if not numbers:
                self.waiting.unregister(line)

        return pass_on

    def ended(self, child: int):
        """What to do when the torchrun of a launch has ended."""

        def tell(pidfd: int) -> None:
            self.waiting.unregister(pidfd)
            os.close(pidfd)
            _, status = os.waitpid(child, 0)
            line = self.running.pop(child)
            if line in self.waiting.get_map():
                self.waiting.unregister(line)
                with suppress(OSError):  # the launch may have been killed in this moment
                    line.send(b"%d\n" % os.waitstatus_to_exitcode(status))
            line.close()

        return tell


def main() -> int:
    importlib.import_module("torch._dynamo")  # else every rank imports it with its first optimizer
    owner, descriptor = map(int, sys.argv[1:])
    asked = Forkserver(socket.socket(fileno=descriptor), owner).serve()
    if asked:
        begin(asked)
        be_torchrun(asked.arguments)
    return 0


def be_torchrun(arguments: list[str]) -> NoReturn:
    """Be torchrun and end, as its forked ranks do: without tidying up all that was imported.

    That would take a second, twice as long as all else in a short launch.
    """
    code = 1
    try:
        code = torchrun(arguments)
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    sys.exit(main())
