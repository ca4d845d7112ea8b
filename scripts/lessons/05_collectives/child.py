"""One child process, given a few seconds: `outcome("fork", function)` says how it ended."""

import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TextIO


def answer(function: Callable[[], object], line: Connection) -> None:
    """Runs in the child: send home what the function returned or raised."""
    try:
        line.send(f"returned {function()}")
    except Exception as error:
        line.send(f"raised {type(error).__name__}: {error}")


def begin(child: BaseProcess, errors: TextIO) -> None:
    """Start the child, with what it prints about errors going into a file."""
    stderr = os.dup(2)
    os.dup2(errors.fileno(), 2)
    try:
        child.start()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def outcome(method: str, function: Callable[[], object], limit: float = 3) -> str:
    """Call `function` in a child process made by `method` (spawn or fork), and say how that ended.

    That is what the function returned or raised, or the last words of a child that died, or that
    it had not ended after `limit` seconds and was killed.
    """
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=answer, args=(function, theirs))
    with tempfile.TemporaryFile("w+") as errors, warnings.catch_warnings():
        # Python 3.12 and later warn that a process with threads forks. We are about to show why.
        warnings.simplefilter("ignore", DeprecationWarning)
        begin(child, errors)
        theirs.close()
        child.join(limit)
        hung = child.is_alive()
        if hung:
            child.kill()
            child.join()
        if ours.poll():
            try:
                return ours.recv()
            except EOFError:  # it closed its end without a word
                pass
        if hung:
            return f"had not ended after {limit:g} s, and was killed"
        errors.seek(0)
        lines = errors.read().strip().splitlines()
        last = lines[-1] if lines else f"nothing (exit code {child.exitcode})"
        return f"died and said: {last}"
