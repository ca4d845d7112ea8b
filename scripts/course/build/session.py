"""What would fail late or in silence: a launch, import or reading cell without what it rests on."""

import ast
import re
from collections.abc import Callable, Iterable
from functools import cache

from course.build.python import guarded, imports, names, recorded, straight
from course.launches import Launch, awaited, begun, parsed, read_by, starts_something
from course.lesson import Cell, Lesson, demand


@cache
def rests_on(name: str, text: str, programs: frozenset[str]) -> set[str]:
    """The files that a file of a room needs beside it: modules it imports, and files that it names.

    A program names a file in a string of its own, as `"child.py"`; any other file in any word.
    """
    if not name.endswith(".py"):
        return set(re.findall(r"\w+\.\w+", text)) & programs - {name}
    tree = parsed(text, name)
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    modules = {f"{module}.py" for module in imports(tree)}
    return (modules | strings) & programs - {name}


def all_needed(files: set[str], text: Callable[[str], str], programs: frozenset[str]) -> list[str]:
    """These files and all that they rest on; `text` gives what is in one."""
    needed = sorted(files)
    for name in needed:  # grows while we walk: programs import programs
        needed += sorted(rests_on(name, text(name), programs) - set(needed))
    return needed


class Session:
    """What there is when a cell runs: files that cells before it wrote, parameters, launches."""

    def __init__(self, programs: Iterable[str]):
        self.programs = frozenset(programs)
        self.written: dict[str, str] = {}
        self.parameters: set[str] = set()
        self.launched: set[str] = set()
        self.unread: Launch | None = None
        self.beside: dict[str, Launch] = {}  # still going on: name in the notebook → launch
        self.started: set[str] = set()  # files that a command names
        self.used: set[str] = set()  # these, what cells import, and all on which both rest

    def run(self, cell: Cell) -> None:
        """Check one code cell, and note what it leaves behind."""
        place = cell.place
        if cell.files:
            self.read(set(), place)
            self.written |= cell.files
            return
        tree = parsed(cell.source, place)
        self.read({*read_by(tree)}, place)
        if cell.launch:
            self.launch(cell.launch, cell.source, place)
            return
        remedy = "a launch is `!torchrun … NAME.py …`, alone, on one line, nothing shell-clever."
        demand(not starts_something(tree), place, remedy)
        self.begin(begun(tree), place)
        for name in awaited(tree):
            self.beside.pop(name, None)
        if "parameters" in cell.tags:
            self.parameters |= names(tree, defined=True)
        self.require({f"{module}.py" for module in imports(tree)} & self.programs, place)

    def read(self, programs: set[str], place: str) -> None:
        """The cell after a launch reads what it came to; no cell reads what was not launched."""
        if self.unread:
            name = self.unread.name
            remedy = f'read the launch of {self.unread.program} here: `result("{name}")`.'
            demand(name in programs, place, remedy)
        self.unread = None
        lost = programs - self.launched
        demand(not lost, place, f"no cell before launches {lost}, which it reads.")

    def begin(self, launches: dict[str, Launch | None], place: str) -> None:
        """Launches beside the notebook: each is kept by a name, and some cell waits for it."""
        for name, launch in launches.items():
            remedy = 'a launch beside others is `name = Begun("torchrun … NAME.py …")`, plain.'
            demand(launch is not None and name, place, remedy)
            still = f"`{name}` still goes on here: a cell before lacks `{name}.wait()`."
            demand(name not in self.beside, place, still)
            self.needs(launch, place)
            self.beside[name] = launch

    def needs(self, launch: Launch, place: str) -> None:
        """What is launched is there, and can be."""
        named = {launch.program} | (self.programs & set(launch.words))
        self.require(named, place)
        self.started |= named
        self.launched.add(launch.name)
        if launch.program.endswith(".py"):
            self.check_main(launch, place)

    def launch(self, launch: Launch, text: str, place: str) -> None:
        self.needs(launch, place)
        self.unread = launch
        # IPython puts the value of `{STEPS // 2}` into the line before the shell gets it.
        used: set[str] = set()
        for expression in re.findall(r"{(.*?)}", text):
            used |= names(parsed(expression, place))
        unset = used - self.parameters
        demand(not unset, place, f"no parameters cell before sets {unset}.")

    def check_main(self, launch: Launch, place: str) -> None:
        """A launched program can be imported, too; where ranks fail, torchrun gets their error."""
        tree = parsed(self.written[launch.program], launch.program)
        ours = {name.partition(".")[0] for name in self.programs}
        if straight(tree) and not imports(tree) & ours:
            return  # a first program, to be copied into any folder
        if launch.as_torchrun:
            lacks = "lacks `@record` on `main`, or the guard at its end that calls it."
            demand(recorded(tree), place, f"{launch.program} {lacks}")
        lacks = 'lacks `if __name__ == "__main__":` at its end.'
        demand(guarded(tree), place, f"{launch.program} {lacks}")

    def require(self, files: set[str], place: str) -> None:
        """Each of these files is written by now, and so is all that they rest on."""

        def text(name: str) -> str:
            demand(name in self.written, place, f"it needs {name}, which no cell before writes.")
            return self.written[name]

        self.used |= {*all_needed(files, text, self.programs)}


def shared(lesson: Lesson) -> Cell | None:
    """The folded cell of all files that a notebook only imports, its first code cell."""
    first = lesson.code[0] if lesson.code else None
    for cell in lesson.code:
        several = len(cell.files) > 1
        remedy = "files that are only imported come in one cell, the first of all code cells."
        demand(not several or cell is first, cell.place, remedy)
    folded = first and first.files and "fold" in first.tags
    return first if folded else None


def check_launches(programs: Iterable[str], lesson: Lesson) -> None:
    """Refuse a notebook in which a launch, an import or a reading cell lacks what it rests on."""
    session = Session(programs)
    place = ""
    imported = shared(lesson)
    for cell in lesson.code:
        session.run(cell)
        place = cell.place
    prose = "\n".join(cell.source for cell in lesson.cells if not cell.files)
    shared_files = imported.files if imported else {}
    for name in shared_files:
        remedy = f"{name} is launched: write it in a cell of its own, ahead of its launch."
        demand(name not in session.started, imported.place, remedy)
        used = name in session.used or name in prose
        demand(used, imported.place, f"nobody uses {name}: leave it out.")
    for cell in lesson.code:
        alone = "fold" in cell.tags and cell.file in session.programs and cell is not imported
        remedy = f"{cell.file} is only imported: name it in the first code cell."
        demand(not alone or cell.file in session.started, cell.place, remedy)
    if session.unread:
        demand(False, place, f'no cell reads this launch: add `result("{session.unread.name}")`.')
    for name, launch in session.beside.items():
        demand(False, place, f"no cell waits for {launch.program}: add `{name}.wait()`.")
