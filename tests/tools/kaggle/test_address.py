"""`make address`: where the course is, written into kaggle-metadata.json, and shown by a build."""

import errno
import json
import os

import pytest
from small_course import LISTED, Small

from course.kaggle import address

pytestmark = pytest.mark.quick


@pytest.fixture
def nowhere(course: Small) -> Small:
    """The small course without addresses, as it comes from a fork."""
    listed = json.loads(course[LISTED])
    del listed["owner"], listed["repository"]
    course[LISTED] = json.dumps(listed, indent=2) + "\n"
    assert course.build() == 0
    return course


def say(course: Small, **names: str) -> int:
    options = [f"--{key}={value}" for key, value in names.items()]
    return address.main(["--root", str(course.root), *options])


def test_both_names_are_set_and_nothing_else_changes(nowhere: Small):
    before = json.loads(nowhere[LISTED])
    assert "github.com" not in nowhere["README.md"]
    assert say(nowhere, repository="us/course", owner="somebody") == 0
    after = json.loads(nowhere[LISTED])
    assert after == {"owner": "somebody", "repository": "us/course"} | before
    assert list(after)[:2] == ["owner", "repository"]
    assert nowhere.build() == 0
    assert "github.com/us/course/" in nowhere["README.md"]
    assert "github.com/us/course/" in nowhere.notebook().cells[0].source


def test_one_name_leaves_the_other(nowhere: Small, capsys):
    assert say(nowhere, repository="us/course", owner="") == 0
    assert say(nowhere, repository="", owner="me") == 0
    assert say(nowhere, repository="them/Course_2.x", owner="") == 0
    listed = json.loads(nowhere[LISTED])
    assert (listed["owner"], listed["repository"]) == ("me", "them/Course_2.x")
    assert capsys.readouterr().out.endswith(f"{LISTED}: repository is them/Course_2.x\n")


WRONG = {
    "an address": ({"repository": "https://github.com/us/course"}, "as “name/course”"),
    "a name alone": ({"repository": "course"}, "“course” is no repository"),
    "to clone": ({"repository": "us/course.git"}, "“us/course.git” is no repository"),
    "two lines": ({"repository": "us/course\n"}, "is no repository"),
    "a space": ({"owner": "my name"}, "“my name” is no owner"),
    "one of two": ({"repository": "us/course", "owner": "a/b"}, "“a/b” is no owner"),
    "nothing": ({"repository": "", "owner": ""}, "add REPO=name/course"),
}


@pytest.mark.parametrize(("names", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_name_is_told_and_nothing_is_written(
    nowhere: Small, capsys, names: dict, told: str
):
    before = nowhere.files()
    assert say(nowhere, **names) == 1
    [line] = capsys.readouterr().err.replace("\n”", "”").splitlines()
    assert line.startswith("address: ") and told in line
    assert nowhere.files() == before


def test_a_list_that_cannot_be_written_is_told_in_one_sentence(nowhere: Small, capsys, monkeypatch):
    """As in a folder that one may only read; root may write everywhere, so it is imitated."""

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    before = nowhere.files()
    assert say(nowhere, repository="us/course") == 1
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert line.startswith(f"address: {LISTED} was not written (Permission denied): allow writing")
    assert not captured.out
    assert nowhere.files() == before


def test_a_spoilt_list_is_told_and_left(nowhere: Small, capsys):
    nowhere[LISTED] = nowhere[LISTED].replace("NvidiaTeslaT4", "T4x2")
    before = nowhere.files()
    assert say(nowhere, repository="us/course") == 1
    assert "machine_shape: 'NvidiaTeslaT4' was expected" in capsys.readouterr().err
    assert nowhere.files() == before
