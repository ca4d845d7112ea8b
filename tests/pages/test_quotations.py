"""Code that prose quotes in backticks is still there: in the programs and cells of the lesson, or
of those that it needs, or in torch and Python; on other pages also in the course's tools.

A quotation is read as Python. What is none is left alone: shell commands, error texts, sentences.
"""

import ast
import importlib
import inspect
import re
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from course.launches import parsed
from course.lesson import Cell, about, tags
from course.sources import Course

ROOT = Path(__file__).resolve().parents[2]
COURSE = Course(ROOT)
PAGES = [*sorted((ROOT / "assets").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FENCED = re.compile(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"(`+)(.+?)\1")
CODE = re.compile(r"[(_=]|\.py$|^(?:torch|dist|nn|F)\.|^--")
PLACEHOLDERS = {"X", "train", "NN_name", "NAME", "OLD", "NEW", "OWNER", "REPO", "LESSONS", "LESSON"}
# What stands for a lesson's name in the path of a file.
SOME = re.compile(r"\b(?:NN_name|NAME|99_try|passing)\b")
# Settings of libraries that are not installed everywhere, and PET_ with an option of torchrun.
OTHERS = ("NCCL_", "TRITON_", "PET_")
DRIVERS = {"CUDA_LAUNCH_BLOCKING"}  # a setting that CUDA's driver reads, and torch only names
# Names of NVIDIA's Apex, which is older than torch.amp: the course tells how to get rid of them.
APEX = {"opt_level", "scale_loss"}
# Names of Accelerate's, Lightning's and Kaggle's own: the course names them, and uses none.
ELSEWHERE = {"notebook_launcher", "ddp_notebook", "HF_TOKEN"}
ELSEWHERE |= {"on_test_epoch_end", "test_step", "--multi_gpu"}

# Modules under the names that lessons give them.
MODULES = {
    "dist": "torch.distributed",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "dcp": "torch.distributed.checkpoint",
}
# Where a name without a module in front may come from.
SPOKEN_OF = re.findall(
    r"\S+",
    """
builtins os sys json time math signal socket shutil statistics random threading pickle itertools
multiprocessing subprocess pathlib faulthandler contextlib functools gc
torch torch.nn torch.nn.functional torch.nn.utils torch.nn.parallel torch.nn.parallel.distributed
torch.optim torch.optim.lr_scheduler torch.autograd torch.autograd.graph torch.amp torch.cuda
torch.cuda.amp torch.cpu torch.utils.data torch.utils.data.distributed torch.profiler
torch.distributed torch.distributed.distributed_c10d torch.distributed.algorithms
torch.distributed.algorithms.join torch.distributed.algorithms.ddp_comm_hooks.default_hooks
torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook
torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook torch.distributed.checkpoint
torch.distributed.elastic.multiprocessing.errors torch.distributed.run torch.distributed.optim
torch.distributed.elastic.rendezvous.dynamic_rendezvous torch.distributed.fsdp
torch.distributed.checkpoint.format_utils torch.distributed.checkpoint.state_dict
torch.distributed.tensor torch.distributed.tensor.parallel torch.distributed.device_mesh
torch.distributed.pipelining torch.distributed._functional_collectives
torch.distributed.tensor.experimental
torch.multiprocessing torch.serialization torch._dynamo torch._dynamo.config
torch._inductor.config torch.compiler torch.backends.cuda torch.backends.cudnn torch._logging
""",
)

# ---- what there is


def words(tree: ast.AST) -> Iterator[str]:
    """The names in a piece of Python, and the words and options in its strings."""
    for node in ast.walk(tree):
        text = getattr(node, "value", None)
        if isinstance(text, str) and len(text) < 200:  # no docstring
            yield from re.findall(r"--[\w-]+|\w+", text)
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield from value.split(".")


@cache
def words_of(text: str) -> frozenset[str]:
    return frozenset(words(parsed(text, "a quoted program")))


def cell_words(cell: Cell) -> set[str]:
    """The names of a code cell, or of the program in it, and the options of a launch."""
    names: set[str] = set()
    for file, text in (cell.files or {".py": cell.source}).items():
        python = file.endswith(".py")
        names |= words_of(text) if python else set(re.findall(r"--[\w-]+|\w+", text))
    return names


@cache
def spoken_by(number: str) -> frozenset[str]:
    """Every name in the cells and programs of a lesson, solved or not, and of those it needs."""
    [path] = [path for path in COURSE.sources if path.stem.startswith(number)]
    names: set[str] = set()
    for solved in (False, True):
        for cell in COURSE.lesson(path, solved).code:
            names |= cell_words(cell)
    needed = map(spoken_by, about(COURSE.sources[path])["needs"])
    return frozenset(names.union(*needed))


@cache
def tools() -> frozenset[str]:
    """Every name in the course's own tools, and in what they read."""
    names: set[str] = set()
    for path in sorted((ROOT / "scripts" / "course").rglob("*.py")):
        names |= words_of(path.read_text())
    for name in ("kaggle-metadata.json", "pyproject.toml", "Makefile"):
        names |= set(re.findall(r"\w+", (ROOT / name).read_text()))
    return frozenset(names)


def arguments(function) -> Iterator[str]:
    """The names of a function's arguments; a builtin one has them in its docstring."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code:
        yield from code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    else:
        signature = re.match(r"\s*[\w.]+\(([^)]*)\)", function.__doc__ or "")
        yield from re.findall(r"\w+", signature[1] if signature else "")


def members(module: ModuleType) -> Iterator[str]:
    """The names in a module, in its classes, and of the arguments of all their functions."""
    yield from dir(module)
    for member in vars(module).values():
        if inspect.isclass(member):
            yield from dir(member)
            for method in filter(inspect.isroutine, vars(member).values()):
                yield from arguments(method)
        elif inspect.isroutine(member):
            yield from arguments(member)


@cache
def library() -> frozenset[str]:
    """The names of torch and of Python's modules, and the options of torch's launchers."""
    names: set[str] = set(MODULES)
    with warnings.catch_warnings(action="ignore"):  # to look at an old name is to be warned of it
        for name in SPOKEN_OF:
            names |= {*name.split("."), *members(importlib.import_module(name))}
        for name in ("torch.distributed.run", "torch.distributed.launch"):
            launcher = inspect.getsource(importlib.import_module(name))
            names |= set(re.findall(r"--[\w-]+", launcher))
    return frozenset(names)


@cache
def sources() -> str:
    """Where torch names the variables of the environment that it reads."""
    torch = Path(importlib.import_module("torch").__file__).parent
    headers = torch / "include" / "torch" / "csrc" / "distributed" / "c10d"
    inductor = torch / "_inductor"
    paths = [*(torch / "distributed").rglob("*.py"), *headers.rglob("*.h*")]
    paths += [*inductor.glob("*.py"), *(inductor / "runtime").glob("*.py")]
    return "\n".join(path.read_text(errors="replace") for path in paths)


# ---- what is quoted


def quotations(text: str) -> list[str]:
    """The pieces of code that a text quotes within its lines."""
    pieces = [quoted.strip() for _, quoted in QUOTED.findall(FENCED.sub("", text))]
    return [quoted for quoted in pieces if len(quoted) >= 4 and CODE.search(quoted)]


def as_python(quoted: str) -> ast.AST | None:
    """A quotation as a tree; None for what is no Python, as commands and error texts."""
    text = quoted.replace("…", "...")
    if text.startswith("."):  # a method
        text = f"value{text}"
    for complete in (text, f"{text} ..."):  # `if rank == 0:` lacks what it decides
        try:
            return ast.parse(complete)
        except SyntaxError:
            continue
    return None


def resolved(chain: ast.Attribute) -> bool | None:
    """Whether `dist.all_reduce` is there; None for a chain that does not begin with a module."""
    first, *rest = ast.unparse(chain).split(".")
    if first not in MODULES and first not in SPOKEN_OF:
        return None
    name = MODULES.get(first, first)
    thing: object = importlib.import_module(name)
    for part in rest:
        if isinstance(thing, ModuleType) and not hasattr(thing, part):
            try:
                importlib.import_module(f"{thing.__name__}.{part}")
            except ImportError:
                return False
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


def setting(name: str) -> bool:
    """Whether a name in capitals is a variable of the environment, or one of its values."""
    known = name in DRIVERS or name.startswith(OTHERS) or name in sources()
    return name.isupper() and known


def is_there(path: str) -> bool:
    """Whether there is a program, or a file; of `NN_name.toml`, one of some lesson."""
    if "/" not in path:
        of_torch = Path(path).stem in {name.rpartition(".")[2] for name in SPOKEN_OF}
        return path in COURSE.programs or Path(path).stem in PLACEHOLDERS or of_torch
    torch = Path(importlib.import_module("torch").__file__).parent
    return any(ROOT.glob(SOME.sub("*", path))) or (torch.parent / path).is_file()


def lost(quoted: str, own: frozenset[str]) -> set[str]:
    """The names in a quotation that nothing holds any more."""
    if re.fullmatch(r"[\w/]+\.(?:py|toml)", quoted):
        return set() if is_there(quoted) else {quoted}
    if quoted.startswith("--"):
        option = re.match(r"--[\w-]+", quoted)[0]
        return {option} - own - library() - ELSEWHERE
    tree = as_python(quoted)
    if tree is None:
        return set()
    names = {name for name in words(tree) if len(name) > 2}
    chains = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    gone = {ast.unparse(chain) for chain in chains if resolved(chain) is False}
    names -= {chain.attr for chain in chains if resolved(chain) is not None}
    names -= own | library() | PLACEHOLDERS | APEX | ELSEWHERE
    private = {name for name in names if name.startswith("_") and name in sources()}
    return gone | {name for name in names - private if not setting(name)}


# ---- the tests


@pytest.mark.parametrize("path", COURSE.sources, ids=lambda path: path.stem)
def test_every_quotation_in_a_lesson_is_in_a_program(path: Path) -> None:
    own = spoken_by(path.stem[:2])
    quoted = dict.fromkeys(quotations(path.read_text()))
    assert {piece: lost(piece, own) for piece in quoted if lost(piece, own)} == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_quotation_on_a_page_is_in_a_program(path: Path) -> None:
    own = tools().union(*(spoken_by(path.stem[:2]) for path in COURSE.sources))
    cells = [cell for source in COURSE.sources.values() for cell in source.cells]
    own |= {tag for cell in cells for tag in tags(cell)}
    quoted = dict.fromkeys(quotations(path.read_text()))
    assert {piece: lost(piece, own) for piece in quoted if lost(piece, own)} == {}


OWN = frozenset({"place", "world_size", "ddp_model", "--epochs", "run"})


@pytest.mark.parametrize(
    "quoted",
    [
        "ddp.py",
        "X.py",
        "scripts/course/build/pages.py",
        "scripts/lessons/NN_name/NAME.py",
        "tests/lessons/answers/NN_name.toml",
        "tests/lessons/mutants/99_try.toml",
        "place.world_size",
        "ddp_model(x)",
        '.to("cuda")',
        "dist.all_reduce(place)",
        "torch._dynamo.config.optimize_ddp = False",
        "find_unused_parameters=True",
        "keepdim=True",
        "with torch.no_grad():",
        "if dist.get_rank() == 0:",
        "SGD(…, fused=True)",
        "--epochs",
        "--nproc-per-node=2",
        "NCCL_DEBUG=INFO",
        "CUDA_LAUNCH_BLOCKING=1",
        'amp.initialize(…, opt_level="O1")',
        "TORCH_DISTRIBUTED_DEBUG=DETAIL",
        "Signal 6 (SIGABRT)",
        "rank 1: 1 + 1 = 101",
        "make run LESSON=06",
    ],
)
def test_a_true_quotation_is_left_alone(quoted: str) -> None:
    assert quotations(f"Look at `{quoted}`.") == [quoted]
    assert lost(quoted, OWN) == set()


@pytest.mark.parametrize(
    ("quoted", "gone"),
    [
        ("ddpp.py", "ddpp.py"),
        ("scripts/kernels.py", "scripts/kernels.py"),
        ("scripts/lesson/NN_name/NAME.py", "scripts/lesson/NN_name/NAME.py"),
        ("tests/answers/NN_name.toml", "tests/answers/NN_name.toml"),
        ("place.worldsize_", "worldsize_"),
        ("ddpmodel(x)", "ddpmodel"),
        ("dist.all_reduced(place)", "dist.all_reduced"),
        ("torch.compiled(ddp_model)", "torch.compiled"),
        ("torch._dynamo.config.optimise_ddp = True", "torch._dynamo.config.optimise_ddp"),
        ("find_unused_params=True", "find_unused_params"),
        ('run["no_synch"]', "no_synch"),
        ("with ddp_model.nosync():", "nosync"),
        ("--epoches 3", "--epoches"),
        ("TORCH_DISTRIBUTED_DEBUGS=1", "TORCH_DISTRIBUTED_DEBUGS"),
        ("CUDA_LAUNCH_BLOCKINGS=1", "CUDA_LAUNCH_BLOCKINGS"),
    ],
)
def test_a_stale_quotation_is_found(quoted: str, gone: str) -> None:
    assert quotations(f"Look at `{quoted}`.") in ([quoted], [])
    assert lost(quoted, OWN) == {gone}


def test_only_code_within_lines_is_quoted() -> None:
    text = "`a`, `b` and `f(x)`, ``g(`x`)``; `a word`\n```python\n`h(x)`\n```\n"
    assert quotations(text) == ["f(x)", "g(`x`)"]
