"""The small files around the course: what runs on GitHub, and what is installed where."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from course import ROOT
from course.rooms import LESSONS

pytestmark = pytest.mark.quick

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
README = (ROOT / "README.md").read_text()
README_BYTES = 9_000  # all of it, with what the build fills in: one screen, and the list of lessons
PICTURE_BYTES = 60_000
# What the project was asked to use, by its names.
ASKED = {"torch", "torchvision", "jupyter", "nbconvert", "matplotlib", "papermill"}


def check(*paths: Path, schema: str = "github-workflows") -> subprocess.CompletedProcess:
    """Against a published schema that check-jsonschema ships."""
    command = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema"]
    command += [f"vendor.{schema}", *paths]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_workflow_is_one_to_github() -> None:
    checked = check(*WORKFLOWS)
    assert checked.returncode == 0, checked.stdout


def test_a_broken_workflow_is_noticed(tmp_path: Path) -> None:
    text = WORKFLOWS[0].read_text()
    (tmp_path / "broken.yml").write_text(text.replace("runs-on:", "run-on:"))
    assert check(tmp_path / "broken.yml").returncode == 1


def test_the_citation_can_be_read() -> None:
    checked = check(ROOT / "CITATION.cff", schema="citation-file-format")
    assert checked.returncode == 0, checked.stdout


def uses(text: str) -> list[str]:
    return re.findall(r"uses: (\S+ .*)", text)


def steps(path: Path) -> list[str]:
    """The commands that a workflow runs."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """A tag can be moved to other code, a commit cannot."""
    for use in uses(path.read_text()):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use), use


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_exist(path: Path) -> None:
    called = [word for step in steps(path) for word in re.findall(r"\bmake ([a-z-]+)", step)]
    assert called or path.stem == "pages"
    assert set(called) <= set(TARGETS)


def test_workflows_test_render_and_look_at_the_newest_torch_and_real_parts() -> None:
    commands = [command for path in WORKFLOWS for command in steps(path)]
    ours = {"make check", "make test", "make run PLAIN=1", "make test-kaggle", "make cluster"}
    assert {*ours, "make test CONSTRAINTS=/dev/null"} <= set(commands)


def wanted(path: Path) -> set[str]:
    """The packages that a file asks for, and those of a file that it includes."""
    packages: set[str] = set()
    for line in path.read_text().splitlines():
        if line.startswith("-r "):
            packages |= wanted(path.parent / line.removeprefix("-r "))
        elif line and not line.startswith("#"):
            packages.add(re.split(r"[<>=]", line)[0].lower())
    return packages


def test_requirements_name_what_was_asked_for() -> None:
    assert wanted(ROOT / "requirements.txt") >= ASKED


def test_every_requirement_has_a_tested_version() -> None:
    tested = {re.sub("[-_.]+", "-", name) for name in wanted(ROOT / "constraints.txt")}
    for path in (ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"):
        assert wanted(path) <= tested, path.name


@pytest.mark.parametrize("target", ["address", "build", "check", "kaggle", "programs", "site"])
def test_words_are_checked_built_and_published_without_torch(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", target]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"pip install .*-r (\S+)", planned) == ["scripts/course/requirements.txt"]
    assert not wanted(ROOT / "scripts" / "course" / "requirements.txt") & {"torch", "torchvision"}


def test_torch_cannot_be_imported_in_make_check() -> None:
    command = [sys.executable, "-c", "import torch"]
    place = {"PYTHONPATH": str(ROOT / "tests" / "without_torch")}
    done = subprocess.run(command, env=os.environ | place, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: import of torch halted")
    planned = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True)
    guarded = re.findall(r"^PYTHONPATH=(\S+) \S+ (?:-m )?(\S+)", planned.stdout, re.MULTILINE)
    assert guarded == [(place["PYTHONPATH"], what) for what in ("course.build", "pytest")]


def test_the_container_installs_as_the_readme_says() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    target = container["postCreateCommand"].removeprefix("make ")
    assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_the_readme_is_a_door_and_stays_short() -> None:
    headings = re.findall(r"^## (.*) ·", README, re.MULTILINE)
    wanted = ["Where do you begin?", "Lessons", "Run it yourself", "An error text?", "More"]
    assert headings == wanted
    assert len(README.encode()) <= README_BYTES
    assert (ROOT / "assets" / "curve.png").stat().st_size <= PICTURE_BYTES


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    places = re.findall(r"\]\(([^)]+)\)", README)
    assert len(places) > 40
    missing = [place for place in places if "://" not in place and not (ROOT / place).is_file()]
    assert not missing


def test_the_readme_shows_what_the_first_ddp_prints() -> None:
    """In the form of first.py's line: both ranks, three times, the same weight and other losses."""
    shown = README.partition("<!-- first: ")[2].partition("<!-- end -->")[0]
    assert "\n$ torchrun --standalone --nproc-per-node=2 first.py\n" in shown
    form = (
        r"rank (\d), epoch (\d+): 8 steps, last point [+-]\d\.\d\d, loss (\d\.\d{4}), "
        r"a weight (-?\d\.\d{6})"
    )
    lines = re.findall(f"^{form}$", shown, re.MULTILINE)
    assert shown.count("rank ") == len(lines) == 6
    for epoch in ("9", "19", "29"):
        first, second = sorted(line for line in lines if line[1] == epoch)
        assert [first[0], second[0]] == ["0", "1"]
        assert first[3] == second[3]
        assert first[2] != second[2]


def test_each_command_of_the_readme_exists() -> None:
    commands = re.findall(r"^make ([a-z-]+) ", README, re.MULTILINE)
    assert commands == ["lab", "run", "test", "site"]
    assert set(commands) <= set(TARGETS)


def test_contributing_is_read_in_ten_minutes() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_bytes()) <= 12_000


def test_the_guide_names_every_campaign() -> None:
    text = (ROOT / "assets" / "guides" / "campaigns.md").read_text()
    rule = r"^([a-z-]+):.*\n\t\$\(BIN\)/python tests/campaigns/"
    targets = re.findall(rule, (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) >= 5
    for target in targets:
        assert f"| `make {target}` |" in text, target


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert project == citation == newest


def test_no_module_of_the_tests_hides_a_lessons_program() -> None:
    """Both are imported by name in one process: the first that is found would win."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    folders = [ROOT / folder for folder in found["pythonpath"]]
    modules = {path.name for folder in folders for path in folder.glob("*.py")}
    assert "mutants.py" in modules
    assert not modules & {path.name for path in LESSONS.glob("*/*.py")}
