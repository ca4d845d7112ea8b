"""The build of the site: what it refuses, what it empties, and the page of what ran.

Sphinx runs on a course of two lessons, with a front page of one link, a plain theme and the
extensions that refuse; tests/pages looks at the real site.
"""

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output
from small_course import FIRST, Small

from course import files
from course.files import OURS, emptied
from course.lesson import BuildError
from course.machine import processor
from course.report import read
from course.site import __main__ as site_build
from course.site import front
from course.site import pages as site_pages
from course.site.messages import Fault, Faults, Places, Progress
from course.site.runs import KEPT, page
from course.sources import Course

FRONT = "# Small · 小\n\n```{toctree}\n:glob:\n\nnotebooks/**\n```\n"
SETTINGS = """
extensions = ["myst_nb", *map("course.site.extensions.{}".format, ("languages", "refusals"))]
exclude_patterns = ["extra"]
nb_execution_mode = "off"
suppress_warnings = ["myst.header"]
"""
FAILED = {"name": "02_second", "seconds": 7, "ok": False, "what": "in cell 6: !torchrun a | b"}
FAILED |= {"lines": "a *step*\n\nValueError: the cause"}


def write_few(course: Course, pages: Path, only: list[str] | None, executed: Path | None) -> None:
    """The notebooks, and a front page that is no test of the real one."""
    site_pages.write_notebooks(course, pages, only, executed)
    (pages / "extra").mkdir()
    (pages / "index.md").write_text(FRONT)


def change(course: Small, old: str, new: str) -> None:
    """Change the words of lesson 01, and its notebook, which `make build` would refuse to make."""
    course.replace(FIRST, old, new)
    notebook = course.notebook()
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, course.path("01_first"))


def line(course: Small, text: str) -> int:
    """In which line of lesson 01's words a text is."""
    return course[FIRST][: course[FIRST].index(text)].count("\n") + 1


@pytest.fixture(scope="module")
def built(template: Path, tmp_path_factory: pytest.TempPathFactory):
    """A site of a run in which lesson 02 failed; then a build of spoilt words, which must not
    touch it. What both said, by name.
    """
    folder = tmp_path_factory.mktemp("built")
    course = Small(folder / "course")
    subprocess.run(["cp", "-r", template, course.root], check=True)
    for workshop in course.root.glob("notebooks/**/workshop.ipynb"):
        workshop.unlink()  # its title comes from a lesson that this course has not
    (folder / "settings").mkdir()
    (folder / "settings" / "conf.py").write_text(SETTINGS)
    executed = folder / "executed"
    executed.mkdir()
    ran = course.notebook("02_second")
    cell = next(cell for cell in ran.cells if cell.source.startswith("!torchrun"))
    trace = ["\x1b[31mValueError\x1b[0m: the cause"]
    cell.outputs = [new_output("error", ename="ValueError", evalue="x", traceback=trace)]
    nbformat.write(ran, executed / "02_second.ipynb")
    good = {"name": "01_first", "seconds": 3, "ok": True, "what": "", "cell": ""}
    outside = {"name": "mine", "seconds": 1, "ok": False, "what": "before its first cell"}
    runs = [good, FAILED | {"cell": cell.id}, outside | {"cell": ""}]
    report = {"ended": "2026-11-23 08:00+00:00", "quick": False, "runs": runs}
    (executed / "runs.json").write_text(json.dumps(report))

    def build(*options: str | Path) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch, (folder / "said").open("w+") as said:
            patch.setattr(site_build, "write_all", write_few)
            patch.setattr(site_build, "SETTINGS", folder / "settings")
            patch.setattr(sys, "stdout", said)
            patch.setattr(sys, "stderr", said)
            where = ["--sources", folder / "src", "--site", folder / "site"]
            code = site_build.main([*map(str, [*where, "--root", course.root, *options])])
            said.seek(0)
            return code, said.read()

    made = {"site": folder / "site", "course": course, "ran": build("--executed", executed)}
    assert made["ran"][0] == 0, made["ran"][1]
    made["index"] = (folder / "site" / "index.html").read_text()
    made["page"] = (folder / "site" / "runs.html").read_text()
    spoil(course)
    made["spoilt"] = build()
    made["kept"] = (folder / "src" / "pages" / "runs.md").read_text()
    return made


def spoil(course: Small) -> None:
    """Each fault once, in lesson 01; and a title is missing in lesson 02."""
    change(course, "Two ranks count.", "Two ranks count. ![](picture.png)")
    together = (
        "從一支程式到下一支，改變的是什麼呢。 What changes here from one program to the next one?"
    )
    change(course, "從一支程式到下一支，改變的是：", together)
    change(course, "What changes from", "[Nowhere](02_secund.ipynb) changes from")
    change(course, "兩個 rank 在數數。", "兩個 rank 在數數。\n\nПривет")
    notebook = course.notebook()
    code = next(cell for cell in notebook.cells if cell.source.startswith("alpha = result"))
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
    code.outputs = [new_output("display_data", data={"image/png": picture})]
    nbformat.write(notebook, course.path("01_first"))
    for name in ("02_second", "solutions/02_second"):
        second = course.notebook(name)
        for cell in second.cells:
            cell.source = cell.source.replace("# 02 · Second", "02 · Second")
            cell.source = cell.source.replace("### Exercise", "Exercise")
        nbformat.write(second, course.path(name))


# ---- what is refused


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("![](picture.png)", "the image notebooks/picture.png has no alternative text"),
        ("alpha = result", "a figure has no alternative text"),
        ("Привет", "“Привет” is in no language"),
        ("從一支程式到下一支", "“What changes here from one program to the next one”"),
        ("[Nowhere]", "a link leads nowhere: 02_secund.ipynb"),
    ],
    ids=["image", "figure", "no language", "two languages", "link"],
)
def test_a_fault_is_told_with_the_line_that_was_written(built: dict, at: str, message: str) -> None:
    code, said = built["spoilt"]
    place = f"{FIRST}:{line(built['course'], at)}"
    assert code == 1
    assert f"site: {place}: {message}" in said
    assert said.count(message) == 1


@pytest.mark.quick
def test_the_site_is_built_with_these_refusals() -> None:
    assert '"course.site.extensions.refusals",' in (site_build.SETTINGS / "conf.py").read_text()


def test_a_lesson_without_title_is_refused(built: dict) -> None:
    assert "site: notebooks/src/02_second.md: the page has no title" in built["spoilt"][1]


def test_after_a_fault_the_earlier_site_is_as_it_was(built: dict) -> None:
    assert (built["site"] / "index.html").read_text() == built["index"]
    assert f"nothing built: {built['site']} stays as it was" in built["spoilt"][1]
    assert "Open" not in built["spoilt"][1]


def test_a_fault_of_the_grammar_is_told_in_one_line(course: Small, tmp_path: Path, capsys) -> None:
    folders = ["--sources", tmp_path / "src", "--site", tmp_path / "site"]
    course.replace(FIRST, "# 01 · First · 第一課", "# First")
    assert site_build.main([*map(str, folders), "--root", str(course.root)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("site: ")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "site").exists()


# ---- the front page and the page of what ran


def test_the_ladder_says_what_each_lesson_is_for_and_its_minutes(
    course: Small, tmp_path: Path
) -> None:
    steps = front.ladder(Course(course.root), tmp_path)
    assert list(steps) == ["01", "02"]
    assert steps["01"].english == "First"
    assert steps["01"].goal == "Afterwards you can count."
    assert (steps["01"].core, steps["01"].further) == ("15", 0)


def test_a_failed_notebook_is_shown_and_the_place_of_its_failure(built: dict) -> None:
    said = built["ran"][1]
    last = "FAILED 2 of 3: 02_second in cell 6: !torchrun a | b; mine before its first cell ("
    assert said.splitlines()[-1].startswith(last)
    link = re.search(r'href="notebooks/02_second\.html#([^"]+)"><span[^>]*>6</span>', built["page"])
    lesson = (built["site"] / "notebooks" / "02_second.html").read_text()
    after = lesson.partition(f'id="{link[1]}"')[2]
    assert "The run failed in the next cell." in after.partition("torchrun")[0]
    assert "ValueError" in after
    assert "!torchrun a | b" in re.sub("<[^>]*>", "", built["page"])
    assert "ValueError: the cause" in re.sub("<[^>]*>", "", built["page"])
    assert 'href="notebooks/01_first.html"' in built["page"]
    assert 'href="notebooks/mine.html"' not in built["page"]


def test_without_a_run_the_page_says_so_and_how_to_run(built: dict) -> None:
    assert KEPT in built["kept"]
    assert KEPT.count("`make run`") == 2
    assert "kept in the repository" in KEPT
    assert "保留的輸出" in KEPT


@pytest.mark.quick
def test_a_page_names_the_machine_of_its_outputs() -> None:
    kept = {"device": "CPU, 2 cores, X", "processor": "X", "torch": "2.15", "data": "none"}
    notebook = nbformat.v4.new_notebook(metadata={"course": {"outputs": kept}})
    [said] = site_pages.machine(notebook, kept=True)
    assert "made on: CPU, 2 cores, X, torch 2.15.\n\n這一頁的輸出來自：CPU" in said.source
    notebook.metadata.course.outputs |= {"device": "NVIDIA T4", "data": "CIFAR-10"}
    [said] = site_pages.machine(notebook, kept=True)
    assert "made on: NVIDIA T4, X, torch 2.15, CIFAR-10." in said.source
    [said] = site_pages.machine(notebook, kept=False)
    assert f"made on: {processor()}." in said.source, "it ran here"
    assert site_pages.machine(nbformat.v4.new_notebook(), kept=True) == []


def test_small_parameters_are_told() -> None:
    report = {"ended": "today", "quick": True, "runs": []}
    assert "small parameters" in page(report, set())


@pytest.mark.quick
def test_the_last_lines_of_a_failed_notebook_are_told_as_they_are() -> None:
    runs = [FAILED | {"cell": "x"}]
    said = page({"ended": "today", "quick": False, "runs": runs}, set())
    assert "## 02_second\n\n    a *step*\n\n    ValueError: the cause\n" in said
    assert "forked" not in said


@pytest.mark.quick
def test_forked_launches_are_told() -> None:
    row = {"name": "01_first", "seconds": 3, "ok": True, "what": "", "cell": ""}
    runs = [row | {"launches": 14, "forked": 12}, row | {"launches": 4, "forked": 0}]
    said = page({"ended": "today", "quick": False, "runs": runs}, set())
    assert "Of 18 launches 12 were forked" in said and "18 次啟動中有 12 次" in said


@pytest.mark.quick
def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no run is kept here"):
        read(tmp_path)


# ---- folders


@pytest.mark.quick
def test_only_folders_of_ours_are_emptied(tmp_path: Path, monkeypatch) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").touch()
    with pytest.raises(FileExistsError, match="did not make"):
        emptied(mine)
    assert (mine / "thesis.txt").exists()
    link = tmp_path / "link"
    link.symlink_to(mine)
    for mark in (OURS, ".buildinfo"):
        folder = tmp_path / mark
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "file").touch()
        (folder / "to-mine").symlink_to(mine)
        (folder / mark).touch()
        assert [path.name for path in emptied(folder).iterdir()] == [OURS]
    assert (mine / "thesis.txt").exists()
    with pytest.raises(FileExistsError):
        emptied(link)
    monkeypatch.setattr(files, "BUILD", tmp_path)
    emptied(mine)
    assert not (mine / "thesis.txt").exists()


@pytest.mark.quick
@pytest.mark.parametrize("option", ["--site", "--sources"])
def test_somebody_elses_folder_is_refused_with_a_remedy(
    course: Small, tmp_path: Path, capsys, monkeypatch, option: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").touch()
    other = {"--site": "--sources", "--sources": "--site"}[option]
    monkeypatch.setattr(site_build, "write_sources", lambda *_: "")
    monkeypatch.setattr(site_build, "run_sphinx", lambda work, *_: (work / "html").mkdir())
    options = [option, str(mine), other, str(tmp_path / "new"), "--root", str(course.root)]
    assert site_build.main(options) == 1
    said = capsys.readouterr().err
    assert f"will not empty {mine}" in said
    assert "empty it yourself" in said
    assert (mine / "thesis.txt").exists()


@pytest.mark.quick
def test_one_folder_in_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"--sources: \S+ is inside of --site"):
        site_build.check_folders(tmp_path / "a" / "b", tmp_path / "a", None)
    with pytest.raises(BuildError, match="--site"):
        site_build.check_folders(tmp_path / "a", tmp_path / "b", tmp_path / "b")


@pytest.mark.quick
def test_a_full_disk_is_told_in_one_line(
    course: Small, tmp_path: Path, capsys, monkeypatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "src" / "x"))

    monkeypatch.setattr(site_build, "write_sources", full)
    options = ["--sources", str(tmp_path / "src"), "--site", str(tmp_path / "site")]
    assert site_build.main([*options, "--root", str(course.root)]) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(r"site: cannot write \S+/src/x \(No space .*--sources\n", said)


# ---- options and messages


@pytest.mark.quick
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            'html_theme_options["gone"] = True',
            "the theme has no option 'gone': take it out of html_theme_options",
        ),
        (
            'html_theme_options["navbar_start"] = ["gone"]',
            "no template is called 'gone.html': take it out, or write it in templates/",
        ),
        (  # Sphinx meets this one itself
            'html_theme, html_theme_options, html_sidebars = "basic", {}, {"**": ["gone.html"]}',
            "no template is called 'gone.html': take it out, or write it in templates/",
        ),
    ],
)
def test_what_the_theme_has_not_is_told_with_place_and_remedy(
    course: Small, tmp_path: Path, capsys, monkeypatch, setting: str, message: str
) -> None:
    def write(course: Course, pages: Path, *_: object) -> None:
        (pages / "extra").mkdir(parents=True)
        (pages / "index.md").write_text("# Small · 小\n")

    settings = tmp_path / "settings"
    shutil.copytree(site_build.SETTINGS, settings)
    with (settings / "conf.py").open("a") as conf:
        conf.write(f"{setting}\n")
    monkeypatch.setattr(site_build, "SETTINGS", settings)
    monkeypatch.setattr(site_build, "write_sources", write)
    folders = ["--sources", str(tmp_path / "src"), "--site", str(tmp_path / "site")]
    assert site_build.main([*folders, "--root", str(course.root)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"site: scripts/course/site/conf.py: {message}\n")
    assert "make room" not in said


@pytest.mark.quick
@pytest.mark.parametrize(
    "wrong", ["http://a.org/", "a.org", "https://a b.org", "https://", 'https://a.org/"x']
)
def test_a_wrong_address_is_refused(capsys, monkeypatch, wrong: str) -> None:
    for option in ("--address", "--repository"):
        with pytest.raises(SystemExit):
            site_build.arguments([option, wrong])
        assert "is no address: write https://" in capsys.readouterr().err
    monkeypatch.setenv("SITE_ADDRESS", wrong)
    with pytest.raises(SystemExit):
        site_build.arguments([])


@pytest.mark.quick
def test_addresses_reach_sphinx_only_when_there_are_some(course: Small, monkeypatch) -> None:
    given = []
    monkeypatch.setattr(site_build, "build", lambda *_, **settings: given.append(settings) or 0)
    root = ["--root", str(course.root)]
    monkeypatch.delenv("SITE_ADDRESS", raising=False)
    monkeypatch.delenv("SITE_REPOSITORY", raising=False)
    site_build.main(root)
    monkeypatch.setenv("SITE_ADDRESS", "https://us.github.io/course/")
    site_build.main([*root, "--repository", "https://github.com/us/course"])
    both = {"course_address": "https://us.github.io/course/"}
    assert given == [{}, both | {"course_repository": "https://github.com/us/course"}]


@pytest.mark.quick
def test_what_sphinx_says_becomes_a_place_in_the_repository(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    (pages / "errors").mkdir(parents=True)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "errors.md").write_text("| a |\n| - |\n| `late` | x |\n")
    (pages / "errors" / "late.md").write_text("# `late`\n\nx\n")
    (tmp_path / "assets" / "sheet.md").write_text("# Sheet\n\nbadge\n\n[a](b.ipynb)\n")
    (pages / "assets").mkdir()
    (pages / "assets" / "sheet.md").write_text("# Sheet\n\n[a](#cell-b)\n")
    faults = Faults(Places(tmp_path, pages))
    faults.write(f"\x1b[31m{pages}/errors/late.md:3: WARNING: bad [a.b]\x1b[0m\n")
    for _ in range(2):
        faults.write(f"{pages}/assets/sheet.md:3: WARNING: worse\n")
    faults.write("WARNING: nowhere in particular\n")
    told = [("assets/errors.md:3", "bad"), ("assets/sheet.md:5", "worse")]
    told.append(("", "nowhere in particular"))
    assert faults.all == [Fault(place, text, link=False) for place, text in told]


@pytest.mark.quick
def test_progress_is_a_line_now_and_then(capsys, monkeypatch) -> None:
    progress = Progress()
    progress.write("\x1b[01mreading sources... \x1b[39;49;00m[ 34%] ")
    assert capsys.readouterr().out == ""  # no three seconds ago
    progress.told -= 10
    progress.write("reading sources... [ 50%] ")
    progress.write("reading sources... [ 51%] ")
    assert capsys.readouterr().out == "  reading sources: 50 %\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    progress.write("writing output... [ 51%] ")
    assert capsys.readouterr().out.startswith("\rwriting output: 51 %")
