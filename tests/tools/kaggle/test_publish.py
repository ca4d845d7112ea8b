"""Publishing with Kaggle's official client, for real, to a small server: programs/loopback.py."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course import ROOT

PUBLISH = ["-m", "course.kaggle"]
LOOPBACK = ROOT / "tests" / "programs" / "loopback.py"
DEFAULTS = json.loads((ROOT / "kaggle-metadata.json").read_text())["defaults"]
TEXT = """# 02 · Two

Next: [three](03_three.ipynb), and [solved](solutions/02_two.ipynb).

[deck](../deck.ipynb)"""
HERE = "https://www.kaggle.com/code/me/a-course"

needs_namespaces = pytest.mark.usefixtures("namespaces")


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Port 80, where the client looks for Kaggle on loopback, is free in a network of our own."""
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode:
        remedy = "run the tests as root, or allow them"
        pytest.fail(f"`unshare -rn` makes no namespace here: {remedy}.", pytrace=False)


def write(path: Path, text: str) -> None:
    """A notebook as it is committed: with outputs, and the record of their machine."""
    output = new_output("stream", text="a secret of this machine")
    cells = [new_markdown_cell(text), new_code_cell("1 + 1", outputs=[output], execution_count=7)]
    cells += [new_code_cell("2", metadata={"tags": ["parameters"]})]
    course = {"gpu_minutes": 5, "outputs": {"torch": "2.10.0"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"course": course}), path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of three lessons and one solution.

    The last lesson is a public one, on a CPU, without data.
    """
    titles = {"01_one": "01 One", "02_two": "02 Two", "solutions/02_two": "02 Two Solution"}
    kernels = []
    for name, title in (titles | {"03_three": "03 Three"}).items():
        kernel = {
            "title": f"A course {title}",
            "slug": f"a-course {title}".lower().replace(" ", "-"),
            "code_file": f"notebooks/{name}.ipynb",
        }
        kernels.append(kernel)
    kernels[-1] |= {
        "is_private": False,
        "enable_gpu": False,
        "enable_internet": False,
        "dataset_sources": [],
    }
    for kernel in kernels:
        write(tmp_path / kernel["code_file"], TEXT)
    listed = {"repository": "us/course", "defaults": DEFAULTS, "kernels": kernels}
    (tmp_path / "kaggle-metadata.json").write_text(json.dumps(listed))
    return tmp_path


def environment(root: Path, **more: str) -> dict:
    """Without the credentials of whoever runs the tests, and with Kaggle on loopback."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KAGGLE")}
    loopback = {"NO_PROXY": "localhost", "KAGGLE_API_ENVIRONMENT": "LOCALHOST"}
    return ours | {"HOME": str(root / "home")} | loopback | more


def publish(root: Path, *arguments: str, token: str = "made-up") -> subprocess.CompletedProcess:
    command = [sys.executable, *PUBLISH, "--root", root, *arguments]
    env = environment(root, KAGGLE_API_TOKEN=token)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def beside_kaggle(root: Path, *arguments: str, answers: dict | None = None, token: str = "made-up"):
    """publish.py, with the small Kaggle that answers it."""
    named = {f"me/a-course-{slug}": answer for slug, answer in (answers or {}).items()}
    (root / "answers").write_text(json.dumps(named))
    command = ["unshare", "-rn", sys.executable, LOOPBACK, root]
    command += [sys.executable, *PUBLISH, "--root", root, "--pause", "0.05", *arguments]
    return subprocess.Popen(
        command,
        env=environment(root, KAGGLE_API_TOKEN=token),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a group to signal, as Ctrl-C does
    )


def arrived(root: Path) -> list[dict]:
    """The pushes that reached the server."""
    requests = [json.loads(line) for line in (root / "requests").read_text().splitlines()]
    return [request for request in requests if request["call"] == "SaveKernel"]


def test_a_dry_run_writes_what_would_be_pushed_and_needs_no_credentials(root: Path):
    (root / "build" / "kaggle" / "a-course-02-two" / "old").mkdir(parents=True)
    done = publish(root, "--owner", "me", "--dry-run", token="")
    assert done.returncode == 0, done.stderr
    folders = {path.name: path for path in (root / "build" / "kaggle").iterdir()}
    slugs = ["a-course-01-one", "a-course-02-two", "a-course-02-two-solution", "a-course-03-three"]
    assert sorted(folders) == slugs
    two = folders["a-course-02-two"]
    solved = nbformat.read(folders["a-course-02-two-solution"] / "02_two.ipynb", as_version=4)
    assert [cell.id == "recorder" for cell in solved.cells] == [False, True, False, False]
    assert sorted(path.name for path in two.iterdir()) == ["02_two.ipynb", "kernel-metadata.json"]
    described = json.loads((two / "kernel-metadata.json").read_text())
    assert described == DEFAULTS | {
        "id": "me/a-course-02-two",
        "title": "A course 02 Two",
        "code_file": "02_two.ipynb",
    }
    notebook = nbformat.read(two / "02_two.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert [(c.outputs, c.execution_count) for c in notebook.cells[1:]] == [([], None), ([], None)]
    assert notebook.metadata.course == {"gpu_minutes": 5}
    assert notebook.metadata.kaggle.accelerator == "nvidiaTeslaT4"
    assert notebook.cells[2].metadata.tags == ["parameters"]


def test_links_between_lessons_lead_to_them_on_kaggle(root: Path):
    publish(root, "--owner", "me", "--dry-run")
    expected = {
        "02-two": f"Next: [three]({HERE}-03-three), and [solved]({HERE}-02-two-solution).",
        # Seen from there, no such files.
        "02-two-solution": "Next: [three](03_three.ipynb), and [solved](solutions/02_two.ipynb).",
    }
    for slug, line in expected.items():
        [path] = (root / "build" / "kaggle" / f"a-course-{slug}").glob("*.ipynb")
        assert line in nbformat.read(path, as_version=4).cells[0].source
        assert "[deck](../deck.ipynb)" in nbformat.read(path, as_version=4).cells[0].source


def test_in_one_language_a_notebook_keeps_its_address(root: Path):
    write(root / "notebooks" / "02_two.ipynb", "# 02 · Two · 二\n\nTwo ranks.\n\n兩個 rank。")
    done = publish(root, "--owner", "me", "--dry-run", "--language", "zh", "02")
    assert done.returncode == 0, done.stderr
    folder = root / "build" / "kaggle" / "a-course-02-two"
    notebook = nbformat.read(folder / "02_two.ipynb", as_version=4)
    assert notebook.cells[0].source == "# 02 · 二\n\n兩個 rank。"


def test_a_language_that_the_course_has_not_is_refused(root: Path):
    done = publish(root, "--owner", "me", "--dry-run", "--language", "fr")
    assert done.returncode == 1
    remedy = "publish: LANGUAGE=fr: name en or zh, or leave it out for both languages."
    assert done.stderr.strip() == remedy
    assert not (root / "build").exists()


@needs_namespaces
def test_what_arrives_field_by_field(root: Path):
    run = beside_kaggle(root, "--owner", "me", "02", "03")
    said = run.communicate(timeout=120)[0]
    assert run.returncode == 0, said
    assert "02_two: https://www.kaggle.com/code/me/a-course-02-two\n" in said
    assert "2 of 2 notebooks ran to the end" in said
    two, three = arrived(root)
    text = json.loads(two.pop("text"))
    assert two == {
        "call": "SaveKernel",
        "token": "Bearer made-up",
        "slug": "me/a-course-02-two",
        "newTitle": "A course 02 Two",
        "language": "python",
        "kernelType": "notebook",
        "isPrivate": True,
        "enableGpu": True,
        "enableTpu": False,
        "enableInternet": True,
        "machineShape": "NvidiaTeslaT4",
        "datasetDataSources": ["pankrzysiu/cifar10-python"],
    }
    assert [cell["source"] for cell in text["cells"][1:]] == ["1 + 1", "2"]
    assert [cell["outputs"] for cell in text["cells"][1:]] == [[], []]
    assert "secret" not in json.dumps(text) and "/tmp/" not in json.dumps(text)
    machine = {"accelerator": "nvidiaTeslaT4", "isGpuEnabled": True, "isInternetEnabled": True}
    assert machine.items() <= text["metadata"]["kaggle"].items()
    for field in ("isPrivate", "enableGpu", "enableInternet"):
        assert three[field] is False, "false must arrive as false, not be left out"
    assert not three.get("datasetDataSources") and not three.get("machineShape")
    assert json.loads(three["text"])["metadata"]["kaggle"]["accelerator"] == "none"


@needs_namespaces
def test_a_failed_push_in_the_middle_goes_on_and_is_named_at_the_end(root: Path):
    answers = {
        "01-one": {"status": 500, "code": 500, "message": "Something broke"},
        "02-two": {"error": "Title is already in use."},
        "02-two-solution": {"invalidDatasetSources": ["pankrzysiu/cifar10-python"]},
    }
    run = beside_kaggle(root, "--owner", "me", answers=answers)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == 1
    assert [push["slug"] for push in arrived(root)] == [
        "me/a-course-01-one",
        "me/a-course-02-two",
        "me/a-course-02-two-solution",
        "me/a-course-03-three",
    ]
    assert "03_three: https://www.kaggle.com/code/me/a-course-03-three\n" in said
    assert said.endswith(
        "1 of 4 notebooks ran to the end\n"
        "  01_one: Something broke\n"
        "  02_two: Title is already in use.\n"
        "  solutions/02_two: pushed, but without pankrzysiu/cifar10-python\n"
        "The same command goes on: "
        'make kaggle OWNER=me LESSONS="01_one 02_two solutions/02_two"\n'
    )
    again = re.search('LESSONS="(.*)"', said)[1].split()
    run = beside_kaggle(root, "--owner", "me", *again)
    assert "3 of 3 notebooks ran to the end" in run.communicate(timeout=120)[0]
    assert run.returncode == 0


def test_without_a_repository_a_line_says_how_to_set_it(root: Path):
    path = root / "kaggle-metadata.json"
    path.write_text(path.read_text().replace('"repository": "us/course", ', ""))
    done = publish(root, "--owner", "me", "--dry-run")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "`make address REPO=name/course`" in done.stderr


@needs_namespaces
def test_only_what_changed_is_pushed_again(root: Path):
    def pushed(*arguments: str, answers: dict | None = None) -> tuple[list[str], str]:
        (root / "requests").unlink(missing_ok=True)
        said = beside_kaggle(root, "--owner", "me", *arguments, answers=answers)
        text = said.communicate(timeout=120)[0]
        there = (root / "requests").exists()
        slugs = (
            [push["slug"].removeprefix("me/a-course-") for push in arrived(root)] if there else []
        )
        return slugs, text

    refused = {"02-two": {"error": "Title is already in use."}}
    everything = ["01-one", "02-two", "02-two-solution", "03-three"]
    slugs, said = pushed(answers=refused)
    assert slugs == everything
    assert "4 to push: running them takes about 0.3 GPU hours (20 minutes, as the lessons" in said

    write(root / "notebooks" / "01_one.ipynb", f"{TEXT}\n\nOne more sentence.")
    slugs, said = pushed()
    assert slugs == ["01-one", "02-two"], "the one that changed, and the one that was refused"
    assert "2 have not changed since their last push (--all pushes them)" in said
    assert "running them takes about 0.2 GPU hours (10 minutes" in said
    slugs, said = pushed()
    assert slugs == [] and "0 to push" in said
    assert pushed("--all")[0] == everything
    (root / "build" / "kaggle-pushed.json").write_text("spoilt")
    assert pushed("03")[0] == ["03-three"]


@needs_namespaces
def test_the_client_refuses_a_token_that_kaggle_does_not_know(root: Path):
    run = beside_kaggle(root, "--owner", "me", token="wrong")
    said = run.communicate(timeout=120)[0]
    assert run.returncode == 1
    assert "Authentication required" in said and "Traceback" not in said
    assert arrived(root) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "no Kaggle name is set: add OWNER=name"),
        ("--owner me 09", "“09”: there is 01_one, 02_two, solutions/02_two, 03_three"),
        ("--owner Me_Myself", "“Me_Myself” is no Kaggle name: add OWNER=name"),
        ("--owner me 01", "Kaggle does not answer: "),
    ],
    ids=["nobody", "no lesson", "no name", "no network"],
)
def test_what_cannot_work_is_told_in_one_line(root: Path, arguments: str, expected: str):
    """Nobody listens at port 80 here; if somebody does, it is not Kaggle."""
    done = publish(root, *arguments.split())
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("publish: ")
    assert expected in done.stderr


@pytest.mark.parametrize("damage", ["merge conflict", "no folder to write"])
def test_what_cannot_be_prepared_stops_before_anything_is_pushed(root: Path, damage: str):
    if damage == "merge conflict":
        (root / "notebooks" / "02_two.ipynb").write_text("<<<<<<< HEAD\n{}")
    else:
        (root / "build").write_text("a file where the folder must be")
    done = publish(root, "--owner", "me")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "_two.ipynb: " in done.stderr or "01_one.ipynb: " in done.stderr
    assert "Nothing is pushed: make room" in done.stderr


def test_mistakes_in_the_list_are_told_before_anything_is_written(root: Path):
    path = root / "kaggle-metadata.json"
    path.write_text(path.read_text().replace("NvidiaTeslaT4", "T4x2"))
    done = publish(root, "--owner", "me")
    assert done.returncode == 1 and "machine_shape: 'NvidiaTeslaT4' was expected" in done.stderr
    assert not (root / "build").exists()
    path.write_text(path.read_text().replace("T4x2", "NvidiaTeslaT4"))
    (root / "notebooks" / "03_three.ipynb").unlink()
    done = publish(root, "--owner", "me")
    assert done.returncode == 1
    assert "(notebooks/03_three.ipynb), code_file: there is no such file" in done.stderr
