"""Launches: the cells that start a program, told from cells that only look at one.

Which commands start a program is said in one place: launch.py, which watches the launches.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache, lru_cache

from course import rooms

# What starts ranks as torchrun does, so that `@record` must tell which of them failed first.
TORCHRUNS = ("torchrun", "python -m torch.distributed", "accelerate", "deepspeed")
# Commands that name a program and do not start it.
LOOKING = {"cat", "diff", "grep", "head", "ls", "sed", "tail", "wc", "which"}
SETTING = re.compile(r"[A-Za-z_]\w*=\S*")
PROGRAM = re.compile(r"\w+\.(?:py|sh|cpp)")
CLEVER = re.compile(r"[|&;<>$`\\\n]")
# How a cell reads what a launch came to: `result("ddp")`.
READERS = {"result", "printed", "failure"}
# What IPython makes of `!`, `x = !`, `%` and `%%`.
SHELL = {"system", "getoutput", "run_line_magic", "run_cell_magic"}


@dataclass(frozen=True)
class Launch:
    """What starts a program, the program's file, and all words of the command."""

    starter: str
    program: str
    words: tuple[str, ...]
    settings: tuple[str, ...] = ()  # of the environment, ahead of the starter

    @property
    def name(self) -> str:
        """The program as `result`, `printed` and `failure` know it."""
        return self.program.partition(".")[0]

    @property
    def ranks(self) -> str:
        """How many processes on this machine, as it is written; "" if it is not said."""
        return next((word.partition("=")[2] for word in self.words if "per-node=" in word), "")

    @property
    def as_torchrun(self) -> bool:
        return self.starter.startswith(TORCHRUNS)


@cache
def starters() -> list[str]:
    """The commands that start a program, the longest first: `STARTERS` of launch.py.

    They are read from its text, since launch.py can be imported in a notebook only.
    """
    for node in ast.parse(rooms.program("launch").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STARTERS":
            return sorted(ast.literal_eval(node.value), key=len, reverse=True)
    raise LookupError("launch.py has no list STARTERS of the commands that start a program")


def started(command: str) -> Launch | None:
    """The launch that a command is, after settings of the environment; None for any other."""
    words = re.sub(r"{.*?}", "{}", command).split()  # an expression in braces is one word
    settings = []
    while words and SETTING.fullmatch(words[0]):
        settings.append(words.pop(0))
    line = " ".join(words)
    for starter in starters():
        if f"{line} ".startswith(f"{starter} "):
            program = next(filter(PROGRAM.fullmatch, words), None)
            return Launch(starter, program, tuple(words), tuple(settings)) if program else None
    return None


@cache
def launch_of(cell: str) -> Launch | None:
    """The launch that a cell consists of: one line, alone, nothing shell-clever."""
    plain = cell.startswith("!") and not CLEVER.search(cell)
    return started(cell[1:]) if plain else None


@lru_cache(maxsize=10_000)
def parsed(source: str, place: str = "a cell") -> ast.Module:
    """A cell or a program as a tree, `!` and `%` lines as IPython makes them plain Python.

    SyntaxError names the place.
    """
    try:
        return ast.parse(source, place)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager  # takes a moment

        return ast.parse(TransformerManager().transform_cell(source), place)


def read_by(code: ast.AST) -> dict[str, str]:
    """The programs whose launches a cell reads, each with its reader: {"ddp": "result"}."""
    readers = {}
    for node in ast.walk(code):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in READERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant):
                readers[first.value] = ast.unparse(node.func)
    return readers


def reader(cell: str, program: str) -> str:
    """Which function reads there what a program's launch came to; "" if none does."""
    try:
        return read_by(parsed(cell)).get(program, "")
    except SyntaxError:  # a text, or a cell that will tell its reader so
        return ""


def template(text: ast.expr) -> str:
    """A command as a cell writes it: the values of an f-string stay in braces."""
    if isinstance(text, ast.Constant):
        return str(text.value)
    pieces = text.values if isinstance(text, ast.JoinedStr) else []
    return "".join(
        str(piece.value) if isinstance(piece, ast.Constant) else f"{{{ast.unparse(piece.value)}}}"
        for piece in pieces
    )


def begun(tree: ast.Module) -> dict[str, Launch | None]:
    """The launches that go on beside a cell, `second = Begun("torchrun …")`, by their names.

    A launch that no name keeps has the name "": nobody could wait for it. None is a command that
    starts no program.
    """
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[id(node.value)] = node.targets[0].id
    launches = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Begun" and node.args:
            command = template(node.args[0])
            launch = None if CLEVER.search(command) else started(command)
            launches[names.get(id(node), "")] = launch
    return launches


def awaited(tree: ast.Module) -> set[str]:
    """The names for whose launches a cell waits: `second.wait()`."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    waits = [call for call in calls if isinstance(call, ast.Attribute) and call.attr == "wait"]
    return {wait.value.id for wait in waits if isinstance(wait.value, ast.Name)}


def starts_something(tree: ast.Module) -> bool:
    """Whether a cell, as IPython reads it, hands the shell or a magic what starts a program."""
    commands: list[str] = []
    for node in ast.walk(tree):
        call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if call and node.func.attr in SHELL:
            texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
            commands += re.split(r"[|&;\n]", " ".join(texts))
    return any(map(starting, commands))


def starting(command: str) -> bool:
    """Whether a piece of a shell's line starts a program, however it is dressed up."""
    words = command.split()
    if not words or words[0] in LOOKING:
        return False
    phrases = [*starters(), "python3", "run", "bash", "sh"]  # `%run x.py`, `bash x.sh`
    named = any(re.search(rf"(?<![\w./-]){re.escape(phrase)}\s", command) for phrase in phrases)
    return "torchrun" in words or (named and bool(PROGRAM.search(command)))
