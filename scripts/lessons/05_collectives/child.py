"""One child process, given a few seconds: `outcome("fork", function)` says how it ended."""

import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection


def answer(function: Callable[[], object], line: Connection) -> None:
    """Runs in the child: send home what the function returned or raised."""
    try:
        line.send(f"returned {function()}")
    except Exception as error:
        line.send(f"raised {type(error).__name__}: {error}")


def outcome(method: str, function: Callable[[], object], limit: float = 3) -> str:
    """Call `function` in a child process made by `method` (spawn or fork): what it returned or raised, what its
    last words were if it died, or that it had not ended after `limit` seconds and was killed."""
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=answer, args=(function, theirs))
    stderr = os.dup(2)
    with tempfile.TemporaryFile("w+") as said, warnings.catch_warnings():
        # Python 3.12 and later warn that a process with threads forks. That danger is what we are about to show.
        warnings.simplefilter("ignore", DeprecationWarning)
        os.dup2(said.fileno(), 2)  # what a dying child prints
        try:
            child.start()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        theirs.close()
        child.join(limit)
        if hung := child.is_alive():
            child.kill()
            child.join()
        if ours.poll():
            try:
                return ours.recv()
            except EOFError:  # it closed its end without a word
                pass
        said.seek(0)
        lines = said.read().strip().splitlines() or [f"nothing (exit code {child.exitcode})"]
        return f"had not ended after {limit:g} s, and was killed" if hung else f"died and said: {lines[-1]}"
