"""The lessons, and on which cells of a notebook others rest: by names used, by results read."""

import ast
import functools
import re
import tomllib
from pathlib import Path

from course import rooms
from course.build import python
from course.launches import launch_of, read_by
from course.lesson import EXAM

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "src"
CHANGING = {"append", "extend", "update", "add", "insert"}  # methods that leave something behind
PLACED = (ast.Store, ast.Del)  # how `rows[2] = x` and `del rows[2]` use `rows[2]`


def lessons() -> list[str]:
    """The names of all lessons, such as "09_faster"."""
    return sorted(path.stem for path in SOURCES.glob("*.md") if path.stem != EXAM)


def written_down(path: Path, what: str, where: str) -> dict[str, list[dict]]:
    """The rows of a lesson's answers or mutants. ValueError names the file and what is wrong;
    `where` tells where the format is.
    """
    file = path.relative_to(SOURCES.parents[1])
    if not path.exists():
        raise ValueError(f"{file} is not there: every lesson has {what} {where}")
    try:
        return tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: {error} {where}") from None


def parsed(cell: str) -> ast.AST:
    """A cell as Python; in a launch the names between braces are all that matters."""
    if cell.startswith("!"):
        return ast.parse("\n".join(re.findall(r"{(.*?)}", cell)))
    return ast.parse(re.sub(r"^%.*", "", cell, flags=re.MULTILINE))


def from_elsewhere(code: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """The imports that a cell begins with or makes between its lines, but for the course's own."""
    programs = {path.stem for path in rooms.programs()}
    found = []
    for node in code.body:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        if not programs.intersection(modules):
            found.append(node)
    return found


def imports(cells: list[str]) -> list[str]:
    """One cell with all that these cells import from elsewhere; none if that is nothing.

    So a cell need not be run for the sake of an import in it.
    """
    lines = [ast.unparse(node) for cell in cells for node in from_elsewhere(parsed(cell))]
    return ["\n".join(dict.fromkeys(lines))] if lines else []


@functools.cache
def takes_pictures(program: str) -> bool:
    """Whether a program, or one that it imports, reads the pictures which cifar10.py makes."""
    own = {path.stem for path in rooms.programs()}
    if program == "cifar10" or program not in own:
        return False
    known = python.imports(ast.parse(rooms.program(program).read_text())) & own
    return "cifar10" in known or any(takes_pictures(module) for module in known)


FUNCTIONS = (ast.FunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_names(scope: ast.AST) -> set[str]:
    """The names that belong to a function or a comprehension alone."""
    stored = [node for node in ast.walk(scope) if isinstance(node, ast.Name)]
    names = {node.id for node in stored if isinstance(node.ctx, ast.Store)}
    if isinstance(scope, FUNCTIONS):
        names |= {node.arg for node in ast.walk(scope.args) if isinstance(node, ast.arg)}
    return names


def shared(code: ast.AST) -> list[ast.Name]:
    """The names in a cell that other cells can see."""
    hidden = set()
    for scope in ast.walk(code):
        if isinstance(scope, FUNCTIONS + COMPREHENSIONS):
            own = own_names(scope)
            inside = [node for node in ast.walk(scope) if isinstance(node, ast.Name)]
            hidden |= {node for node in inside if node.id in own}
    named = [node for node in ast.walk(code) if isinstance(node, ast.Name)]
    return [node for node in named if node not in hidden]


def defined(code: ast.AST) -> set[str]:
    """The names that a cell gives a value to, but for imports from elsewhere."""
    names = {node.id for node in shared(code) if isinstance(node.ctx, ast.Store)}
    elsewhere = {id(alias) for node in from_elsewhere(code) for alias in node.names}
    for node in ast.walk(code):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.alias) and id(node) not in elsewhere:
            names.add(node.asname or node.name.split(".")[0])
    return names


def changed(code: ast.AST) -> set[str]:
    """The names whose value a cell changes: `n += 1`, `rows[2] = x`, `rows.append(x)`."""
    names = set()
    seen = set(shared(code))
    for node in ast.walk(code):
        target = None
        if isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, PLACED):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in CHANGING else None
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if isinstance(target, ast.Name) and target in seen:
            names.add(target.id)
    return names


def used(code: ast.AST) -> set[str]:
    """The names that a cell reads before it gives them a value itself."""
    stored: dict[str, int] = {}
    loaded: dict[str, int] = {}
    for node in shared(code):
        lines = stored if isinstance(node.ctx, ast.Store) else loaded
        lines[node.id] = min(node.lineno, lines.get(node.id, node.lineno))
    early = {name for name, line in loaded.items() if line < stored.get(name, line + 1)}
    begun = {name for name, line in stored.items() if line < loaded.get(name, 0)}  # `rows = []`
    return early | (changed(code) - begun)


class Wanted:
    """What cells need of those before them; walk backwards with `take`."""

    def __init__(self, names: set[str] = frozenset(), reads: set[str] = frozenset()):
        self.names = set(names)  # variables
        self.reads = set(reads)  # programs whose results are read

    def take(self, cell: str) -> None:
        """This cell is kept: it gives some of what is wanted, and wants something itself."""
        code = parsed(cell)
        self.names = (self.names - defined(code)) | used(code)
        self.reads |= {*read_by(code)}
        launch = launch_of(cell)
        if launch:
            self.reads.discard(launch.name)
            self.names.add("os")  # ranks inherit what cells before put into os.environ
            if takes_pictures(launch.name):
                self.reads.add("cifar10")

    def asks_for(self, cell: str) -> bool:
        """Whether a cell, which comes before, must be kept."""
        if "from launch import" in cell:
            return True  # from here on, launches are watched
        launch = launch_of(cell)
        if launch:
            return launch.name in self.reads
        code = parsed(cell)
        return bool((defined(code) | changed(code)) & self.names)


def rests_on(cells: list[str], wanted: Wanted) -> list[int]:
    """The numbers of the cells that must be run, in order, before those that want something."""
    kept = []
    for number in range(len(cells) - 1, -1, -1):
        if wanted.asks_for(cells[number]):
            wanted.take(cells[number])
            kept.insert(0, number)
    return kept
