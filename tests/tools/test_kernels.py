"""The list of Kaggle notebooks: what it may say, and one clear line for each mistake."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

import kernels

DEFAULTS = {
    "language": "python",
    "kernel_type": "notebook",
    "is_private": True,
    "enable_gpu": True,
    "enable_internet": True,
    "machine_shape": "NvidiaTeslaT4",
    "dataset_sources": ["pankrzysiu/cifar10-python"],
}
FIRST = {"title": "A course 01 First", "slug": "a-course-01-first", "code_file": "notebooks/01_first.ipynb"}
SECOND = {"title": "A course 02 Second", "slug": "a-course-02-second", "code_file": "notebooks/02_second.ipynb"}
TWO = "kernel 2 (notebooks/02_second.ipynb)"
ABSENT = object()

# What is changed, its new value, and the line that must be said about it.
MISTAKES = {
    "unknown key": (("kernels", 1, "enable_gpus"), True, f"{TWO}: Unevaluated properties are not allowed ('enable_gpu"),
    "unknown default": (("defaults", "gpu"), True, "defaults: Unevaluated properties are not allowed ('gpu' was"),
    "unknown key at the top": (("kernel",), [], ": Unevaluated properties are not allowed ('kernel' was unexpected)"),
    "title as a default": (("defaults", "title"), "A course", "defaults: Unevaluated properties are not allowed ('tit"),
    "missing default": (("defaults", "enable_internet"), ABSENT, "defaults: 'enable_internet' is a required property"),
    "no title": (("kernels", 1, "title"), ABSENT, f"{TWO}: 'title' is a required property"),
    "no slug": (("kernels", 1, "slug"), ABSENT, f"{TWO}: 'slug' is a required property"),
    "no file": (("kernels", 1, "code_file"), ABSENT, "kernel 2: 'code_file' is a required property"),
    "no owner": (("owner",), ABSENT, ": 'owner' is a required property"),
    "owner with a slash": (("owner",), "a/b", ", owner: 'a/b' does not match"),
    "repository without owner": (("repository",), "course", ", repository: 'course' does not match"),
    "repository as a link": (("repository",), "https://github.com/a/b", ", repository: 'https://github.com/a/b' does"),
    "wrong machine": (("defaults", "machine_shape"), "NvidiaTeslaT4x2", "machine_shape: 'NvidiaTeslaT4' was expected"),
    "wrong machine of one": (
        ("kernels", 1, "machine_shape"),
        "nvidiaTeslaT4",
        f"{TWO}, machine_shape: 'NvidiaTeslaT4'",
    ),
    "slug unlike title": (("kernels", 1, "slug"), "a-course-2", f"{TWO}, slug: Kaggle makes “a-course-02-second” of"),
    "slug in capitals": (("kernels", 1, "slug"), "A-course-02-second", f"{TWO}, slug: 'A-course-02-second' does not"),
    "duplicate slug": (
        ("kernels", 1),
        SECOND | {"title": "A course 01 First", "slug": "a-course-01-first"},
        "slug: kernel",
    ),
    "duplicate file": (("kernels", 1, "code_file"), FIRST["code_file"], "code_file: kernel 1 has the same"),
    "missing file": (("kernels", 1, "code_file"), "notebooks/03.ipynb", "code_file: there is no such file. Run `make"),
    "file elsewhere": (("kernels", 1, "code_file"), "../secret.ipynb", "code_file: '../secret.ipynb' does not match"),
    "title too short": (("kernels", 1, "title"), "DDP", f"{TWO}, title: 'DDP' is too short. Kaggle takes 5 to 50"),
    "title too long": (("kernels", 1, "title"), "A course " * 6, "is too long. Kaggle takes 5 to 50"),
    "boolean as text": (("defaults", "enable_gpu"), "true", "enable_gpu: 'true' is not of type 'boolean'. Write true"),
    "boolean as number": (
        ("kernels", 1, "is_private"),
        1,
        f"{TWO}, is_private: 1 is not of type 'boolean'. Write true",
    ),
    "one data set as text": (("defaults", "dataset_sources"), "a/b", "dataset_sources: 'a/b' is not of type 'array'"),
    "data set without owner": (("defaults", "dataset_sources"), ["cifar10"], "dataset_sources, item 1: 'cifar10' does"),
    "pinning": (("defaults", "docker_image_pinning_type"), "newest", "type: 'newest' is not one of ['original', 'late"),
    "language": (("defaults", "language"), "Python", "defaults, language: 'python' was expected"),
    "type": (("defaults", "kernel_type"), "script", "defaults, kernel_type: 'notebook' was expected"),
    "no notebook": (("kernels",), [], "kernels: [] should be non-empty"),
    "entry as text": (
        ("kernels", 1),
        "notebooks/02_second.ipynb",
        "kernel 2: 'notebooks/02_second.ipynb' is not of type",
    ),
}


def write(root: Path, listed: dict) -> None:
    (root / kernels.NAME).write_text(json.dumps(listed))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of two notebooks and its list, without a mistake."""
    (tmp_path / "notebooks").mkdir()
    for kernel in (FIRST, SECOND):
        (tmp_path / kernel["code_file"]).touch()
    write(tmp_path, {"owner": "somebody", "repository": "us/course", "defaults": DEFAULTS, "kernels": [FIRST, SECOND]})
    return tmp_path


def complaint(root: Path, built: bool = True) -> str:
    with pytest.raises(kernels.MetadataError) as caught:
        kernels.load(root, built)
    return str(caught.value)


def test_the_real_list_has_every_notebook_once():
    listed = [kernel["code_file"] for kernel in kernels.load(ROOT)["kernels"]]
    there = [path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb")]
    assert sorted(listed) == sorted(name for name in there if ".ipynb_checkpoints" not in name)


def test_a_kernel_has_the_defaults_and_what_it_sets_itself(root: Path):
    listed = json.loads((root / kernels.NAME).read_text())
    listed["kernels"][1] |= {"is_private": False, "dataset_sources": [], "docker_image_pinning_type": "original"}
    write(root, listed)
    first, second = kernels.load(root, built=True)["kernels"]
    assert first == DEFAULTS | FIRST
    own = {"is_private": False, "dataset_sources": [], "docker_image_pinning_type": "original"}
    assert second == DEFAULTS | SECOND | own


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line(root: Path, mistake: tuple):
    (*path, last), value, expected = mistake
    inner = listed = json.loads((root / kernels.NAME).read_text())
    for part in path:
        inner = inner[part]
    if value is ABSENT:
        del inner[last]
    else:
        inner[last] = value
    write(root, listed)
    said = complaint(root)
    assert expected in said and said.startswith(kernels.NAME)
    assert len(said.splitlines()) == 1
    assert said.endswith(".") and len(said) < 300


def test_several_mistakes_are_told_at_once(root: Path):
    listed = json.loads((root / kernels.NAME).read_text())
    listed["kernels"][0]["titel"], listed["defaults"]["enable_gpu"] = "", "yes"
    write(root, listed)
    assert len(complaint(root).splitlines()) == 2


@pytest.mark.parametrize("damage", ["absent", "no JSON", "a list", "a key twice"])
def test_an_unreadable_list(root: Path, damage: str):
    path = root / kernels.NAME
    text = path.read_text()
    says = {"absent": "No such file", "no JSON": "should be (Expecting", "a list": "is not of type 'object'"}
    if damage == "absent":
        path.unlink()
    else:
        path.write_text({"no JSON": text[:-1], "a list": "[]"}.get(damage, text.replace("{", '{"owner": "a", ', 1)))
    said = complaint(root)
    assert says.get(damage, "“owner” stands there twice") in said and len(said.splitlines()) == 1


def test_before_the_build_no_notebook_needs_to_be_there(root: Path):
    shutil.rmtree(root / "notebooks")
    assert len(kernels.load(root)["kernels"]) == 2
    assert len(complaint(root, built=True).splitlines()) == 2
