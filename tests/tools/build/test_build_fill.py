"""What the build writes into README, error texts, slides and the heads of the notebooks."""

import json
import re

import pytest
from small_course import DECK, FIRST, LISTED, PROGRAM, ROW, SECOND, Small, refused

from course import ROOT
from course.filled import REFERENCE, SPANS

pytestmark = pytest.mark.quick


def links(text: str) -> list[str]:
    """Where a line of badges leads, without the pictures themselves."""
    found = re.findall(r"\]\((https[^)]*)\)", text)
    return [link for link in found if not link.endswith(".svg")]


def elsewhere(name: str, machine: str) -> list[str]:
    """Where the badges of a notebook must lead, and the way back to its source."""
    path = f"us/course/blob/main/notebooks/{name}.ipynb"
    github = f"https://github.com/{path}"
    kaggle = f"https://www.kaggle.com/notebooks/welcome?src={github}&accelerator={machine}"
    return [kaggle, f"https://colab.research.google.com/github/{path}", github]


@pytest.mark.parametrize(
    "name", ["01_first", "solutions/01_first", "solutions/02_second", "workshop"]
)
def test_a_notebook_opens_elsewhere_with_two_gpus_and_leads_back(course: Small, name: str):
    if name == "workshop":  # its title comes from a lesson
        title = '<!-- #region tags=["workshop"] -->\n# Class · 課\n<!-- #endregion -->\n'
        course.replace(FIRST, "你會數數。\n", f"你會數數。\n\n{title}")
        assert course.build() == 0
    notebook = course.notebook(name)
    title, empty, badges, *_ = notebook.cells[0].source.splitlines()
    assert title.startswith("# ") and not empty and badges.count("[![") == 2
    twin = elsewhere("solutions/workshop", "none")[2:] if name == "workshop" else []
    assert links(badges) == elsewhere(name, "nvidiaTeslaT4") + twin
    assert notebook.metadata.kaggle == {
        "accelerator": "nvidiaTeslaT4",
        "isGpuEnabled": True,
        "isInternetEnabled": True,
        "language": "python",
        "sourceType": "notebook",
    }
    assert notebook.metadata.accelerator == "GPU"
    assert notebook.metadata.colab == {"gpuType": "T4"}


def test_a_notebook_that_is_listed_with_other_settings_has_them(course: Small):
    notebook = course.notebook("02_second")
    assert links(notebook.cells[0].source) == elsewhere("02_second", "none")
    assert notebook.metadata.kaggle.accelerator == "none"
    assert not notebook.metadata.kaggle.isGpuEnabled
    assert "accelerator" not in notebook.metadata


def test_badges_leave_outputs_alone(course: Small):
    course.run()
    before = course.notebook()
    course.replace(LISTED, "us/course", "them/lessons")
    assert course.build("--check") == 1
    assert course.build() == 0
    after = course.notebook()
    assert all(course.outputs())
    assert after.metadata.course.outputs == before.metadata.course.outputs
    assert "github.com/them/lessons/" in after.cells[0].source


def region(page: str, name: str) -> list[str]:
    """The lines that the build has filled in."""
    begin = f"<!-- {name}: filled by make build -->\n"
    return page.partition(begin)[2].partition("<!-- end -->")[0].splitlines()


FIRST_ROW = "| [01 First · 第一課](notebooks/01_first.ipynb) | count to three · 數到三 | 15 |"


def test_the_readme_lists_the_lessons_in_their_parts(course: Small):
    lines = region(course["README.md"], "lessons")
    assert [line for line in lines if line.startswith("### ")] == [
        "### Early 01 · 前面",
        "### Late 02 · 後面",
    ]
    assert [line for line in lines if line.startswith("| [")] == [
        FIRST_ROW,
        "| [02 Second · 第二課](notebooks/02_second.ipynb) | count again · 再數一次 | 15 |",
    ]
    assert lines.count("first · 先學") == lines.count("then · 再學") == 1
    assert lines.index("- count · 數數") < lines.index("### Late 02 · 後面")
    assert course["README.md"].endswith("<!-- end -->\n\nThe end.\n")  # around it nothing changes


def test_the_readme_says_where_to_begin(course: Small):
    head, line, notebook, page = region(course["README.md"], "doors")
    assert "minutes · 分鐘" in head and set(line) == set("| -")
    texts = "[Texts · 訊息](assets/error-texts.md)"
    assert page == f"| an error · 一個錯誤 | {texts} | 2 |"
    assert links(notebook) == elsewhere("02_second", "none")[:2]
    short = re.sub(r", \[(?:Kaggle|Colab)\]\([^)]*\)", "", notebook)
    second = "[Second · 第二](notebooks/02_second.ipynb)"
    assert short == f"| two ranks · 兩個 rank | {second}, {texts} | 15 |"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '02 = ["count again"',
            '03 = ["count again"',
            "assets/course.toml: there is no lesson 03.",
        ),
        (
            '02 = ["count again", "再數一次"]',
            "",
            "parts have the lessons 01, not 01, 02: each once",
        ),
        ('["count to three", "數到三"]', '["count to three"]', "assets/course.toml: lesson 01 has"),
        ('lessons = ["02"]', 'lessons = ["07"]', "course.toml: “two ranks” names no lesson: 07."),
        ('lessons = ["02"]\n', "", "assets/course.toml: a door lacks 'lessons'"),
        ("to = ", "too = ", "assets/course.toml: a door lacks"),
        ('use = "first"', "use = first", "assets/course.toml: "),
        ('use = "first"', "", "assets/course.toml: a part lacks"),
    ],
)
def test_a_mistake_in_doors_or_parts_is_refused(
    course: Small, capsys, old: str, new: str, message: str
):
    course["assets/course.toml"] = course["assets/course.toml"].replace(old, new, 1)
    refused(course, capsys, message)


def test_a_slide_shows_the_parts(course: Small):
    course[DECK] += "<!-- parts: filled by make build -->\n<!-- end -->\n"
    assert course.build() == 0
    early, late = region(course[DECK], "parts")
    assert '<b>01</b> <span lang="en">Early</span><span lang="zh-TW">前面</span>' in early
    assert '<p lang="en">then</p><p lang="zh-TW">再學</p>' in late


def test_without_an_address_nothing_leads_there(course: Small):
    places = "".join(f'<code data-address="{name}">x</code>' for name in ("workshop", "course"))
    course[DECK] += places
    assert course.build() == 0
    assert 'data-address="course">github.com/us/course</code>' in course[DECK]
    course.run()
    listed = json.loads(course[LISTED])
    del listed["owner"], listed["repository"]
    course[LISTED] = json.dumps(listed)
    assert course.build("--check") == 1
    assert course.build() == 0
    assert all(course.outputs())
    for name in ("01_first", "solutions/01_first", "workshop"):
        first = course.notebook(name).cells[0].source
        assert not links(first) and "source ·" not in first
    assert course.notebook().cells[0].source.startswith("# 01 · First · 第一課\n\nCore 15 minutes")
    assert places.replace(">x<", "><") in course[DECK]
    assert FIRST_ROW in region(course["README.md"], "lessons")
    assert not links(course["README.md"])


def test_no_built_file_names_a_placeholder():
    assets = ROOT / "assets"
    notebooks = (ROOT / "notebooks").glob("**/*.ipynb")
    built = [ROOT / "README.md", *assets.glob("*.html"), *assets.glob("*.md"), *notebooks]
    assert len(built) > 60
    for path in built:
        assert not re.search(r"\bOWNER/|/REPO\b", path.read_text()), path


def test_the_table_of_errors_leads_to_its_section(course: Small):
    head = "| error · 錯誤 | section |\n| --- | --- |\n"
    course["assets/errors.md"] = head + "| `it broke` | [How it breaks](02_second.ipynb) |\n"
    course.replace(SECOND, "再來一次。\n", "再來一次。\n\n## How it breaks · 怎麼壞的\n")
    course[FIRST] = course[FIRST].replace("\nWhat changes", "\n<!-- errors -->\n\nWhat changes", 1)
    assert course.build("--check") == 1
    assert course.build() == 0
    cells = course.notebook("02_second").cells
    place = next(cell.id for cell in cells if "怎麼壞的" in cell.source)
    row = f"02_second.ipynb#cell-id={place}) |"
    linked = f"{head}| `it broke` | [How it breaks · 怎麼壞的](../notebooks/{row}\n<!-- end -->"
    assert linked in course["assets/error-texts.md"]
    assert "search this page for them" in course["assets/error-texts.md"]
    for folder in ("", "solutions/"):
        cells = course.notebook(f"{folder}01_first").cells
        linked = f"| `it broke` | [How it breaks · 怎麼壞的]({row}"
        assert any(linked in cell.source for cell in cells)


def test_what_is_only_quoted_is_marked_so(course: Small):
    head = "| error · 錯誤 | section |\n| --- | --- |\n"
    course["assets/errors.md"] = head + "| `it broke` | [Again](02_second.ipynb) |\n"
    course["assets/errors-quoted.md"] = head + "| `it burns` | elsewhere |\n"
    course.replace(SECOND, "再來一次。\n", "再來一次。\n\n## Again · 再一次\n")
    assert course.build() == 0
    ours, mark, theirs = course["assets/error-texts.md"].partition(
        "These messages were not produced"
    )
    assert "`it broke`" in ours and "`it burns`" in theirs and "`it burns`" not in ours
    assert mark and "下面這些不是在這裡產生的" in theirs


def test_the_deck_is_filled_by_region_and_by_lines(course: Small):
    loop = (
        "total = 0\nfor number in range(3):\n    if 0 &lt; number:\n        total += count(number)"
    )
    lines = "@record\ndef main() -&gt; None:"
    assert f'<pre class="code" data-src="alpha.py#loop" id="a">{loop}</pre>' in course[DECK]
    assert f'<pre data-src="alpha.py#L8-L9">{lines}</pre>' in course[DECK]


def test_code_in_the_deck_comes_without_the_comments_behind_it(course: Small):
    before = course[DECK]
    course.replace(PROGRAM, "total += count(number)", "total += count(number)  # 1. see below")
    assert course.build() == 0
    assert course[DECK] == before


def test_numbers_in_the_deck_are_filled_from_a_reference_run(course: Small):
    cores = '<span class="n" data-run="bench.json#machine#cores">2</span>'
    filled = f'"bench.json#two / one#ratio">1.88</span> on {cores}'
    assert filled in course[DECK]
    course.replace("assets/bench.json", "1.8765", "0.9")
    assert course.build("--check") == 1
    assert course.build() == 0
    assert filled.replace("1.88", "0.90") in course[DECK]


@pytest.mark.parametrize("place", ["README.md", FIRST])
def test_numbers_in_readme_and_lessons_come_with_their_interval(course: Small, place: str):
    source = "bench.json#two / one"
    fields = {
        "all": "1.88 (1.50 – 1.90)",
        "interval": "1.50 – 1.90",
        "span": "95 % interval",
        "span-zh": "中位數的 95% 區間",
    }
    empty = " ".join(f'<span data-run="{source}#{field}"></span>' for field in fields)
    mark = "The end." if place == "README.md" else "Two ranks"
    course.replace(place, mark, f"{mark} {empty}")
    assert course.build() == 0
    page = course[place] if place == "README.md" else course["notebooks/01_first.ipynb"]
    page = page.replace('\\"', '"')
    for field, text in fields.items():
        assert f'<span data-run="{source}#{field}">{text}</span>' in page


def test_the_reference_run_is_named_in_one_place(course: Small):
    course.replace(DECK, "bench.json#two / one", "bench#two / one")
    assert course.build() == 1  # the small course has no such run
    (course.root / "assets" / "bench.json").rename(course.root / "assets" / REFERENCE)
    course.replace(DECK, "bench.json#machine", "bench#machine")
    assert course.build() == 0
    assert '"bench#two / one#ratio">1.88</span>' in course[DECK]


def test_rows_without_an_interval_say_so(course: Small):
    course.replace(DECK, "two / one#ratio", "two / one#span")
    for span, words in SPANS.items():
        run = json.dumps({"machine": {"cores": 2}, "rows": [ROW | {"span": span}]})
        (course.root / "assets" / "bench.json").write_text(run)
        assert course.build() == 0
        assert f'#span">{words[0]}</span>' in course[DECK]
        assert (span == "interval") == ("interval" in words[0])


def test_the_address_of_the_class_and_its_code_are_filled(course: Small, capsys):
    page = "assets/handout.html"
    course[page] = '<code data-address="class"></code><p class="qr" data-address="class"></p>'
    before = course[page]
    assert course.build() == 0
    assert course[page] == before
    capsys.readouterr()
    assert course.build("--check") == 0  # it only reminds
    assert capsys.readouterr().out.count("no class_url") == 1
    course.replace(LISTED, '{"owner"', '{"class_url": "https://a.org/b?c=1&d=2", "owner"')
    assert course.build("--check") == 1
    assert course.build() == 0
    assert '<code data-address="class">a.org/b?c=1&amp;d=2</code>' in course[page]
    assert re.search(
        r'<p class="qr" data-address="class"><svg [^>]*viewBox.*</svg></p>', course[page]
    )
    capsys.readouterr()
    assert course.build("--check") == 0
    assert "class_url" not in capsys.readouterr().out


def test_a_browser_writes_filled_code_as_the_build_does(course: Small):
    """Quotes stay quotes: an export from the browser equals the file byte for byte."""
    course.replace(PROGRAM, "total = 0", "total = len('\"') - 1")
    assert course.build() == 0
    assert "total = len('\"') - 1" in course[DECK]


def test_a_link_to_a_solved_twin_leads_there_from_both_folders(course: Small):
    link = "（[解答](solutions/01_first.ipynb)）"
    course.replace(SECOND, "再來一次。\n", f"再來一次{link}。\n")
    assert course.build() == 0
    for folder, target in [("", "solutions/01_first.ipynb"), ("solutions/", "01_first.ipynb")]:
        cells = course.notebook(f"{folder}02_second").cells
        assert any(f"]({target})" in cell.source for cell in cells)
