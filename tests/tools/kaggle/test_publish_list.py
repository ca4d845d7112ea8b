"""The list of Kaggle notebooks: what it may say, and one clear line for each mistake."""

import json
import shutil
from pathlib import Path

import pytest

from course import ROOT
from course.listed import NAME, MetadataError, addresses, badges, load, reminder, typed

pytestmark = pytest.mark.quick

DEFAULTS = {
    "language": "python",
    "kernel_type": "notebook",
    "is_private": True,
    "enable_gpu": True,
    "enable_internet": True,
    "machine_shape": "NvidiaTeslaT4",
    "dataset_sources": ["pankrzysiu/cifar10-python"],
}
FIRST = {
    "title": "A course 01 First",
    "slug": "a-course-01-first",
    "code_file": "notebooks/01_first.ipynb",
}
SECOND = {
    "title": "A course 02 Second",
    "slug": "a-course-02-second",
    "code_file": "notebooks/02_second.ipynb",
}
TWO = "kernel 2 (notebooks/02_second.ipynb)"
ABSENT = object()
UNKNOWN = "Unevaluated properties are not allowed"

# What is changed in each place, its new value, and the line that must be said about it.
IN_SECOND = {
    "unknown key": ("enable_gpus", True, f"{TWO}: {UNKNOWN} ('enable_gpus' was"),
    "no title": ("title", ABSENT, f"{TWO}: 'title' is a required property"),
    "no file": ("code_file", ABSENT, "kernel 2: 'code_file' is a required property"),
    "wrong machine": ("machine_shape", "nvidiaTeslaT4", f"{TWO}, machine_shape: 'NvidiaTeslaT4'"),
    "slug unlike title": ("slug", "a-course-2", f"{TWO}, slug: Kaggle makes “a-course-02-second”"),
    "slug in capitals": ("slug", "A-course-02", f"{TWO}, slug: 'A-course-02' does not match"),
    "duplicate file": ("code_file", FIRST["code_file"], "code_file: kernel 1 has the same"),
    "missing file": ("code_file", "notebooks/03.ipynb", "code_file: there is no such file. Run"),
    "file elsewhere": ("code_file", "../x.ipynb", "code_file: '../x.ipynb' does not match"),
    "title too short": ("title", "DDP", f"{TWO}, title: 'DDP' is too short. Kaggle takes 5 to 50"),
    "title too long": ("title", "A course " * 6, "is too long. Kaggle takes 5 to 50"),
    "boolean as number": ("is_private", 1, f"{TWO}, is_private: 1 is not of type 'boolean'. Write"),
}
IN_DEFAULTS = {
    "unknown default": ("gpu", True, f"defaults: {UNKNOWN} ('gpu' was"),
    "missing default": ("enable_internet", ABSENT, "defaults: 'enable_internet' is a required"),
    "wrong default": ("machine_shape", "NvidiaTeslaT4x2", "machine_shape: 'NvidiaTeslaT4' was"),
    "boolean as text": ("enable_gpu", "true", "enable_gpu: 'true' is not of type 'boolean'. Write"),
    "one data set": ("dataset_sources", "a/b", "dataset_sources: 'a/b' is not of type 'array'"),
    "data without owner": ("dataset_sources", ["cifar10"], "item 1: 'cifar10' does not match"),
    "pinning": ("docker_image_pinning_type", "newest", "type: 'newest' is not one of ['original'"),
    "language": ("language", "Python", "defaults, language: 'python' was expected"),
    "type": ("kernel_type", "script", "defaults, kernel_type: 'notebook' was expected"),
}
AT_THE_TOP = {
    "unknown key at the top": ("kernel", [], f": {UNKNOWN} ('kernel' was unexpected)"),
    "no kernels": ("kernels", ABSENT, ": 'kernels' is a required property"),
    "no name": ("owner", "", ", owner: '' does not match"),
    "no repository": ("repository", "a/..", ", repository: 'a/..' does not match"),
    "address without https": (
        "class_url",
        "http://kaggle.com/code/a/b",
        ", class_url: 'http://kaggle.com/code/a/b' does not match",
    ),
    "address with a space": ("class_url", "https://a.org/b c", ", class_url: 'https://a.org/b c'"),
    "no notebook": ("kernels", [], "kernels: [] should be non-empty"),
    "entry as text": ("kernels", [FIRST, "02.ipynb"], "kernel 2: '02.ipynb' is not of type"),
    "duplicate slug": (
        "kernels",
        [FIRST, FIRST | {"code_file": "notebooks/02_second.ipynb"}],
        "slug: kernel 1 has",
    ),
}
MISTAKES = {
    name: (path, *mistake)
    for path, mistakes in [
        (("kernels", 1), IN_SECOND),
        (("defaults",), IN_DEFAULTS),
        ((), AT_THE_TOP),
    ]
    for name, mistake in mistakes.items()
}


def write(root: Path, listed: dict) -> None:
    (root / NAME).write_text(json.dumps(listed))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of two notebooks and its list, without a mistake."""
    (tmp_path / "notebooks").mkdir()
    for kernel in (FIRST, SECOND):
        (tmp_path / kernel["code_file"]).touch()
    listed = {"owner": "somebody", "repository": "us/course", "defaults": DEFAULTS}
    write(tmp_path, listed | {"kernels": [FIRST, SECOND]})
    return tmp_path


def complaint(root: Path, built: bool = True) -> str:
    with pytest.raises(MetadataError) as caught:
        load(root, built)
    return str(caught.value)


def test_the_real_list_has_every_notebook_once():
    listed = [kernel["code_file"] for kernel in load(ROOT)["kernels"]]
    paths = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks/solutions").glob("*.ipynb")]
    there = [path.relative_to(ROOT).as_posix() for path in paths]
    missing = " and ".join(sorted(set(there) - set(listed)))
    assert not missing, f"{NAME}: list {missing}"
    gone = " and ".join(sorted(set(listed) - set(there)))
    assert not gone, f"{NAME}: remove {gone}, or run `make build`"
    assert len(listed) == len(set(listed))


def test_a_kernel_has_the_defaults_and_what_it_sets_itself(root: Path):
    listed = json.loads((root / NAME).read_text())
    own = {"is_private": False, "dataset_sources": [], "docker_image_pinning_type": "original"}
    listed["kernels"][1] |= own
    write(root, listed)
    first, second = load(root, built=True)["kernels"]
    assert first == DEFAULTS | FIRST
    assert second == DEFAULTS | SECOND | own


@pytest.mark.parametrize(("path", "key", "value", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_one_line(root: Path, path: tuple, key: str, value, message: str):
    listed = json.loads((root / NAME).read_text())
    place = listed
    for part in path:
        place = place[part]
    if value is ABSENT:
        del place[key]
    else:
        place[key] = value
    write(root, listed)
    line = complaint(root)
    assert message in line and line.startswith(NAME)
    assert len(line.splitlines()) == 1
    assert line.endswith(".") and len(line) < 300


def test_the_address_of_a_class_may_be_left_out(root: Path):
    listed = json.loads((root / NAME).read_text())
    without = load(root)
    assert typed(without)["class"] == ""
    assert reminder(without).count("class_url") == 1
    assert "\n" not in reminder(without)
    write(root, {**listed, "class_url": "https://example.org/b?a=1&b=2"})
    given = load(root)
    assert typed(given)["class"] == "example.org/b?a=1&b=2"
    assert not reminder(given)


def test_without_addresses_nothing_leads_anywhere(root: Path):
    listed = json.loads((root / NAME).read_text())
    page = FIRST["code_file"]
    given = load(root)
    assert typed(given)["course"] == "github.com/us/course"
    assert typed(given)["workshop"].startswith("kaggle.com/code/somebody/")
    assert addresses(given, page).keys() == {"kaggle", "colab"}
    del listed["owner"], listed["repository"]
    write(root, listed)
    without = load(root)
    assert set(typed(without).values()) == {""}
    assert addresses(without, page) == {}
    assert badges(without, page) == ""


def test_several_mistakes_are_told_at_once(root: Path):
    listed = json.loads((root / NAME).read_text())
    listed["kernels"][0]["titel"] = ""
    listed["defaults"]["enable_gpu"] = "yes"
    write(root, listed)
    assert len(complaint(root).splitlines()) == 2


DAMAGES = {
    "no JSON": (lambda text: text[:-1], "should be (Expecting"),
    "a list": (lambda text: "[]", "is not of type 'object'"),
    "a key twice": (
        lambda text: text.replace("{", '{"owner": "a", ', 1),
        "“owner” stands there twice",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_an_unreadable_list(root: Path, damage, message: str):
    path = root / NAME
    path.write_text(damage(path.read_text()))
    line = complaint(root)
    assert message in line and len(line.splitlines()) == 1


def test_a_missing_list(root: Path):
    (root / NAME).unlink()
    line = complaint(root)
    assert "No such file" in line and len(line.splitlines()) == 1


def test_before_the_build_no_notebook_needs_to_be_there(root: Path):
    shutil.rmtree(root / "notebooks")
    assert len(load(root)["kernels"]) == 2
    assert len(complaint(root, built=True).splitlines()) == 2
