"""A lesson on the site, as one reads it: predictions, exercises, folds, figures, tips, teaching."""

import re
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from course.lesson import file_of, files_of, headings

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
ALL = [*LESSONS, "workshop"]
LESSON = "notebooks/06_ddp.html"
LONG = "notebooks/12_break_it.html"  # with outputs longer than a screen
# Predictions without anything to hide: another one follows at once, or the next section answers.
OPEN = {
    "10_uneven": 1,
    "12_break_it": 1,
    "14_clusters": 1,
    "16_fsdp": 2,
    "23_production": 1,
    "24_speedrun": 1,
}

# What each card hides, and what is hidden although no card is to blame.
CARDS = """() => [...document.querySelectorAll('[data-guess]')].map(button => {
    const hidden = [...document.querySelectorAll(`.guess-${button.dataset.guess}`)];
    const at = button.compareDocumentPosition.bind(button);
    return {
        outputs: hidden.filter(node => node.matches('.cell_output')).length,
        paragraphs: hidden.filter(node => node.matches('p')).map(node => node.lang),
        others: hidden.filter(node => !node.matches('.cell_output, p')).length,
        questions: hidden.filter(node => node.matches('.prediction')).length,
        seen: hidden.filter(node => node.checkVisibility()).length,
        ahead: hidden.filter(node => !(at(node) & Node.DOCUMENT_POSITION_FOLLOWING)).length,
    };
})"""
LOST = """() => [...document.querySelectorAll('article :is(p, .cell_output, h1, h2, h3, table)')]
    .filter(node => !node.checkVisibility() && !node.closest('.guess, details:not([open])'))
    .map(node => node.textContent.slice(0, 80))"""
OPENED = """() => {
    for (const fold of document.querySelectorAll('article details')) fold.open = true;
    for (const button of document.querySelectorAll('[data-guess], .unfold')) button.click();
}"""
FIGURES = """() => [...document.querySelectorAll('article img')].map(image => ({
    alt: image.alt, width: image.getAttribute('width'),
    height: image.getAttribute('height')}))"""


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    return page


def notebook(name: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def prose(name: str) -> str:
    cells = notebook(name).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def check_cards(page: Page, name: str) -> None:
    """A prediction hides outputs and at most its answer in both languages, and nothing else."""
    cards = page.evaluate(CARDS)
    asked = len(re.findall(r"\*\*Predict:?\*\*", prose(name)))
    ran = any(cell.get("outputs") for cell in notebook(name).cells)
    assert len(cards) == (asked - OPEN.get(name, 0) if ran else 0)
    for card in cards:
        assert card["paragraphs"] in ([], ["en", "zh-Hant-TW"])
        assert card["outputs"] + len(card["paragraphs"]) > 0
        assert (card["others"], card["questions"], card["seen"], card["ahead"]) == (0, 0, 0, 0)
    assert not page.evaluate(LOST)


def check_exercises(page: Page, name: str) -> None:
    """Every exercise ends with a closed solution, which shows the lines to write."""
    asked = [heading for heading in headings(prose(name)) if heading.exercise]
    exercises = page.locator("section.exercise")
    assert exercises.count() == len(asked)
    for exercise in exercises.all():
        last = exercise.locator(":scope > *").last
        assert last.evaluate("node => node.matches('details.solution:not([open])')")
        code = last.locator("pre")
        assert code.count() > 0
        assert not code.first.is_visible()
        assert last.locator(".hll").count() > 0  # the lines to write
        assert "your code here" not in last.inner_html()
    assert page.locator("details.solution").count() == len(asked)


def check_figures(page: Page, text: str) -> None:
    """Figures say what they show, and keep their place until they are loaded."""
    written = re.findall(r"<img[^>]*>", text)
    assert all('loading="lazy"' in image for image in written)
    for figure in page.evaluate(FIGURES):
        assert len(figure["alt"]) > 10 and not figure["alt"].endswith(".png")
        assert figure["width"] and figure["height"]


def check_tips(page: Page, site: Path) -> None:
    """A term is explained once in each language, only in prose, as the glossary does."""
    tips = page.evaluate("""() => [...document.querySelectorAll('a.tip')].map(tip => ({
        says: tip.dataset.tip, place: tip.getAttribute('href').split('#')[1],
        language: tip.closest('p[lang]')?.lang,
        apart: Boolean(tip.closest('h1, h2, h3, h4, code, pre, summary, nav, table'))}))""")
    assert len(tips) > 10
    assert not [tip for tip in tips if tip["apart"] or not tip["says"] or not tip["language"]]
    named = [(tip["place"], tip["language"]) for tip in tips]
    assert len(set(named)) == len(named)
    rows = (site / "assets" / "glossary.html").read_text()
    for tip in tips:
        row = rows.partition(f'id="{tip["place"]}"')[2].partition("</tr>")[0]
        words = re.sub(r"<[^>]+>", "", row).replace("’", "'")
        assert tip["says"] in words, tip
        assert bool(re.search("[\u4e00-\u9fff]", tip["says"])) == (tip["language"] != "en")


@pytest.mark.parametrize("name", ALL)
def test_cards_exercises_figures_and_tips(reading: BrowserContext, site: Path, name: str) -> None:
    page = opened(reading, f"{site.as_uri()}/notebooks/{name}.html")
    check_cards(page, name)
    check_figures(page, (site / "notebooks" / f"{name}.html").read_text())
    check_exercises(page, name)
    check_tips(page, site)
    rows = page.locator("article p", has_text=re.compile(r"^\s*\| "))
    assert not rows.count(), "a table is written out"


def test_a_guess_shows_its_own_results_to_keyboards_and_in_one_language(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}?lang=zh")
    button = page.locator('[data-guess="1"]')
    assert button.inner_text().strip().startswith("我猜好了")
    button.focus()
    page.keyboard.press("Enter")
    shown = page.locator(".guess-1")
    assert shown.first.is_visible()
    assert not page.locator('.guess-1[lang="en"]').is_visible()
    assert page.locator('.guess-1[lang="zh-Hant-TW"]').is_visible()
    assert page.evaluate("document.activeElement.matches('.guess-1')")
    assert not page.locator(".guess-2").first.is_visible()


def test_a_solution_opens_by_keyboard(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    page.locator("details.solution summary").first.focus()
    page.keyboard.press("Enter")
    solution = page.locator("details.solution").first
    assert '"C": 4,' in solution.inner_text()
    assert 'removed = result("without")' in solution.inner_text()  # two lines around
    assert solution.locator("button.copybtn").count() == 1


def test_a_long_output_shows_its_first_lines_until_asked(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/{LONG}")
    page.evaluate("for (const card of document.querySelectorAll('[data-guess]')) card.click()")
    output = page.locator(".long").first
    button = page.locator(".unfold").first
    line = output.locator("pre").evaluate("node => parseFloat(getComputedStyle(node).lineHeight)")
    lines = output.locator("pre").inner_text().rstrip("\n").count("\n") + 1
    assert f"Show all {lines} lines" in button.inner_text()
    assert 20 * line <= output.bounding_box()["height"] < 24 * line
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    assert output.bounding_box()["height"] >= lines * line
    button.click()
    assert output.bounding_box()["height"] < 24 * line


@pytest.mark.parametrize("name", ALL)
def test_folded_files_are_named_and_their_messages_left_out(site: Path, name: str) -> None:
    text = (site / "notebooks" / f"{name}.html").read_text()
    assert "Show code cell source" not in text
    assert not re.search(r"<span></span>(?:Writing|Overwriting) \S+\n</pre>", text)
    for cell in notebook(name).cells:
        file = file_of(cell.source)
        if file and "fold" in cell.metadata.get("tags", []):
            assert re.search(rf"<summary>[^\n]*<code>{re.escape(file)}</code>", text)


def test_files_in_a_row_are_one_fold(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    files = page.locator("details.files").first
    summary = files.locator("summary").first.inner_text()
    assert "這一課的檔案" in summary
    inside = files.locator("details.source")
    first = next(cell for cell in notebook("06_ddp").cells if cell.cell_type == "code")
    assert inside.count() == len(files_of(first.source)) > 5
    assert not inside.first.is_visible()
    files.locator("summary").first.click()
    for name in inside.locator("summary code").all_inner_texts():
        assert name in summary


def test_code_is_copied_and_outputs_have_no_button(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    page.locator("button.copybtn").first.wait_for(state="attached")
    assert page.locator(".cell_output button.copybtn").count() == 0
    page.evaluate("addEventListener('copy', () => { window.copied = String(getSelection()); })")
    cell = page.locator(".cell_input", has_text="pictures = result").first
    cell.locator("button.copybtn").click()
    assert page.evaluate("window.copied").strip() == 'pictures = result("cifar10")'


@pytest.mark.parametrize(
    ("name", "theme"),
    [
        (LESSON, "light"),
        (LONG, "dark"),  # prints in colours
        pytest.param(LESSON, "dark", marks=pytest.mark.thorough),
        pytest.param(LONG, "light", marks=pytest.mark.thorough),
    ],
)
def test_axe_finds_nothing_in_open_folds_and_differences(
    reading: BrowserContext, site: Path, name: str, theme: str
) -> None:
    page = opened(reading, f"{site.as_uri()}/{name}")
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    page.evaluate(OPENED)
    # One of each kind: a whole lesson takes the checker a minute.
    page.evaluate("""() => {
        const kinds = ['.prediction', '.exercise', '.highlight-diff', '.cell_output', '.long',
            '.unfold', 'details.source > summary', 'details.files > summary', 'a.tip',
            'pre:has(.-Color)'];
        for (const kind of kinds) document.querySelector(kind)?.setAttribute('data-judge', '');
    }""")
    found = (
        Axe().run(page, context="[data-judge]", options={"preload": False}).response["violations"]
    )
    assert not [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found]


def test_a_figure_is_enlarged_by_keyboard_and_escape_closes_it(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    page.evaluate(OPENED)
    figure = page.locator("button.enlarge").first
    alt = figure.locator("img").get_attribute("alt")
    dialog = page.locator("dialog.enlarged")
    assert not dialog.is_visible()
    figure.focus()
    page.keyboard.press("Enter")
    assert dialog.is_visible()
    assert dialog.locator("img").get_attribute("alt") == alt
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.evaluate("document.activeElement.matches('button.enlarge')")


def test_a_tip_opens_for_pointer_and_keyboard_and_escape_closes_it(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    tip = page.locator('a.tip[href$="term-rank"]').first
    box = page.locator(".tip-box")
    tip.hover()
    assert "a process of the training, and its number" in box.inner_text()
    page.keyboard.press("Escape")
    assert not box.is_visible()
    tip.focus()
    page.locator('a.tip[href$="term-rank"]').nth(1).focus()
    assert "參與訓練的一個行程" in box.inner_text()
    assert box.locator("a").get_attribute("href").endswith("glossary.html#term-rank")


def stage(page: Page) -> str:
    """What the teacher's view shows."""
    return page.evaluate("""() => [...document.querySelectorAll('article :is(h1, h2, h3, p, pre)')]
        .filter(node => node.checkVisibility({visibilityProperty: true}))
        .map(node => node.innerText).join('\\n')""")


def test_the_teachers_view_shows_one_piece_and_its_result_when_asked(
    reading: BrowserContext, site: Path
) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    page.locator(".teacher-link a").click()
    page.locator(".teacher-bar").wait_for()
    assert "teach=1" in page.url
    assert "06 · DDP" in stage(page)
    assert "from launch import" not in stage(page)
    size = page.locator("section p[lang]").first.evaluate(
        "p => parseFloat(getComputedStyle(p).fontSize)"
    )
    assert size >= 22
    page.keyboard.press("ArrowRight")  # the file ahead of it stays folded
    page.keyboard.press("ArrowRight")
    assert "from launch import" in stage(page)
    assert "06 · DDP" not in stage(page)
    while not page.locator(".on-stage .awaited").count():
        page.keyboard.press("ArrowRight")
    result = page.locator(".on-stage .awaited").first
    assert not result.is_visible()
    page.keyboard.press("Space")
    assert not page.locator(".on-stage .awaited").count()
    assert page.locator(".on-stage .cell_output").first.is_visible()
    page.keyboard.press("ArrowLeft")
    links = page.locator(".prev-next-area a.right-next")
    assert "teach=1" in links.get_attribute("href")
    page.keyboard.press("Escape")
    assert "teach=1" not in page.url
    assert "teach=1" not in links.get_attribute("href")
    assert not page.locator(".teacher-bar").is_visible()
    assert not page.evaluate(LOST)


@pytest.mark.parametrize("name", ["05_collectives", "workshop"])
def test_the_teachers_view_leaves_nothing_out(
    reading: BrowserContext, site: Path, name: str
) -> None:
    page = opened(reading, f"{site.as_uri()}/notebooks/{name}.html?teach=1")
    lost = page.evaluate("""() => {
        const all = [...document.querySelectorAll('article :is(h1, h2, h3, p, pre, li, td, img)')]
            .filter(node => !node.closest('.teacher-link'));
        const seen = new Set();
        const next = document.querySelector('[data-go=on]');
        for (;;) {
            for (const piece of document.querySelectorAll('.on-stage'))
                for (const node of [piece, ...piece.querySelectorAll('*')]) seen.add(node);
            if (next.disabled) break;
            next.click();
        }
        return all.filter(node => !seen.has(node)).map(node => node.textContent.slice(0, 60));
    }""")
    assert not lost


def test_paper_shows_every_result_and_no_controls(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LONG}?lang=en")
    page.emulate_media(media="print")
    hidden = page.locator('.guess:not([lang^="zh"])')
    assert hidden.count() > 10
    assert all(node.is_visible() for node in hidden.all())
    assert page.locator("article h1").is_visible()
    page.wait_for_function(
        "[...document.querySelectorAll('article img')].every(i => i.naturalWidth)"
    )
    output = page.locator(".long pre").first
    assert output.evaluate("node => node.scrollHeight - node.clientHeight") <= 0
    for name in (
        "button:not(.enlarge)",
        ".bd-sidebar-primary",
        ".bd-header",
        ".prev-next-area",
    ):
        assert not [node for node in page.locator(name).all() if node.is_visible()], name


def test_without_scripts_everything_is_shown(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = opened(context, f"{site.as_uri()}/{LONG}")
    assert all(node.is_visible() for node in page.locator(".guess").all())
    assert not [node for node in page.locator("article button").all() if node.is_visible()]
    long = page.locator(".long pre").first.bounding_box()["height"]
    assert long > 40 * 14  # not cut after 20 lines
    page.locator("details.solution summary").first.click()
    assert page.locator("details.solution pre").first.is_visible()
    assert page.locator("a.tip").first.get_attribute("title")
    context.close()


def test_links_to_headings_and_cells_have_names(reading: BrowserContext, site: Path) -> None:
    page = opened(reading, f"{site.as_uri()}/{LESSON}")
    links = page.evaluate("""() => [...document.querySelectorAll('article a.headerlink')]
        .map(link =>
        ({name: link.getAttribute('aria-label') || '',
          cell: link.classList.contains('to-cell'), exercise: Boolean(link.closest('.exercise')),
          found: Boolean(document.getElementById(link.getAttribute('href').slice(1)))}))""")
    to_cells = [link for link in links if link["cell"]]
    assert len(to_cells) >= 3 and len(links) - len(to_cells) > 20
    assert all(link["name"] and link["found"] for link in links)
    assert all(link["exercise"] for link in to_cells)
