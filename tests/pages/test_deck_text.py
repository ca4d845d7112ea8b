"""What the deck and the handout say: code, numbers, both languages, minutes, links."""

import json
import re
from itertools import pairwise

import pytest
from deck import COUNT, ROOT, SOURCE

from course.build.pages import excerpt
from course.facts import parts as build_parts
from course.filled import REFERENCE
from course.languages import INNOCENT, TAIWAN, simplified
from course.listed import load, typed
from course.sources import Course

pytestmark = pytest.mark.quick

HANDOUT = (ROOT / "assets" / "handout.html").read_text()
CHINESE = "[\u3400-\u9fff]"

# What each piece of code begins with, in the order of the slides: program, first line.
ON_SLIDES = [
    ("single.py", "optimizer.zero_grad()"),
    ("single.py", "output = model(x)"),
    ("single.py", "loss = criterion(output, y)"),
    ("single.py", "loss.backward()"),
    ("single.py", "optimizer.step()"),
    ("ddp.py", "torchrun --standalone --nproc-per-node=2 ddp.py"),
    ("average.py", "loss.backward()\nfor parameter in"),
    ("first.py", "torch.cuda.set_device(device)"),
    ("first.py", 'dist.init_process_group("nccl"'),
    ("first.py", "sampler = DistributedSampler("),
    ("first.py", "ddp_model = DistributedDataParallel(model"),
    ("first.py", "sampler.set_epoch(epoch)"),
    ("first.py", "if rank == 0:\n    torch.save("),
    ("first.py", "dist.destroy_process_group()"),
]


def pieces(page: str) -> list[tuple[str, str]]:
    """The pieces of code on a page: where they come from, as `ddp.py#L4-L4`, and what they say."""
    return re.findall(r'<pre [^>]*?data-src="([^"]*)">(.*?)</pre>', page, re.DOTALL)


def test_code_on_slides_is_the_programs_code():
    shown = pieces(SOURCE)
    assert [source.partition("#")[0] for source, _ in shown] == [name for name, _ in ON_SLIDES]
    course = Course(ROOT)
    for (source, text), (_, start) in zip(shown, ON_SLIDES, strict=True):
        assert text == excerpt(course, source, "deck")
        assert text.startswith(start), source
        assert text[-1] in ")2", "a whole statement"


def test_the_handout_shows_the_programs_lines():
    shown = pieces(HANDOUT)
    assert [source.partition("#")[0] for source, _ in shown] == [
        "single.py",
        "curve.py",
        "ddp.py",
    ]
    texts = [text for _, text in shown]
    assert [text.count("\n") + 1 for text in texts] == [5, 3, 1]
    assert texts[0].startswith("optimizer.zero_grad()")
    assert texts[1].endswith("parameter.grad /= ranks")
    assert not any("place." in text for text in texts), "a helper of the course, at home unknown"
    assert HANDOUT.count("<tr>") == 10


def test_numbers_on_slides_are_those_of_the_reference_run():
    numbers = re.findall(r'<span data-run="bench#([^"]*)">(.*?)</span>', SOURCE)
    assert len(numbers) == SOURCE.count("data-run=") == 7
    run = json.loads((ROOT / "assets" / REFERENCE).read_text())
    rows = {row["row"]: row for row in run["rows"]}
    for source, text in numbers:
        name, field = source.split("#")
        row = rows.get(name)
        if name == "machine":
            assert text == str(run["machine"][field])
        elif field == "interval":
            assert text == f"{row['low']:.2f} – {row['high']:.2f}"
        else:
            assert text == f"{row[field]:.2f}"


def test_every_text_stands_in_both_languages_and_in_taiwans_words():
    sections = re.findall(r"<section\b.*?</section>", SOURCE, re.DOTALL)
    for number, section in enumerate(sections, 1):
        english = re.findall(r'<(\w+)[^>]* lang="en">(.*?)</\1>', section)
        chinese = re.findall(r'<(\w+)[^>]* lang="zh-TW">(.*?)</\1>', section)
        slide = f"slide {number}"
        assert [tag for tag, _ in english] == [tag for tag, _ in chinese], slide
        words = [re.sub("<code>.*?</code>|<[^>]*>", " ", text) for _, text in chinese]
        prose = INNOCENT.sub(" ", " ".join(words))
        assert not [sign for sign in re.findall(CHINESE, prose) if simplified(sign)], slide
        assert not [word for word in TAIWAN if word in prose], slide
        assert not re.search(f"{CHINESE}[,;:!?]", prose), f"{slide}: full-width punctuation"
        assert not re.search(CHINESE, " ".join(text for _, text in english)), slide


def test_slides_follow_the_clock_and_all_have_notes():
    minutes = [int(minute) for minute in re.findall(r'<section [^>]*data-minute="(\d+)"', SOURCE)]
    assert len(minutes) == COUNT
    assert SOURCE.count('\n<div class="notes">\n') == COUNT
    assert minutes[0] == 0
    assert minutes[-1] < 90
    assert all(earlier < later for earlier, later in pairwise(minutes))


def codes(html: str) -> set[str]:
    return set(re.findall("<code>(.*?)</code>", html))


def hidden_code(section: str) -> set[str]:
    """The code that one language's text has, and neither its twin nor a text without language."""
    texts = r'<(\w+)[^>]* lang="(en|zh-TW)">(.*?)</\1>'
    spoken = [(language, codes(text)) for _, language, text in re.findall(texts, section)]
    neutral = codes(re.sub(texts, "", section))
    english = [found for language, found in spoken if language == "en"]
    chinese = [found for language, found in spoken if language != "en"]
    return set().union(*(a ^ b for a, b in zip(english, chinese, strict=True))) - neutral


def test_no_code_is_hidden_with_the_other_language():
    for number, section in enumerate(re.findall(r"<section\b.*?</section>", SOURCE, re.DOTALL), 1):
        assert not hidden_code(section), f"slide {number}"


@pytest.mark.parametrize(
    ("slide", "hidden"),
    [
        ('<p lang="en">Use <code>a</code></p><p lang="zh-TW">用上面這個</p>', {"a"}),
        ('<p lang="en">Use it</p><p lang="zh-TW">用 <code>a</code></p>', {"a"}),
        ('<p lang="en">Use <code>a</code></p><p lang="zh-TW">用 <code>a</code></p>', set()),
        ('<p lang="en">Use:</p><p lang="zh-TW">用：</p><p><code>a</code></p>', set()),
    ],
)
def test_hidden_code_is_found(slide: str, hidden: set[str]):
    assert hidden_code(slide) == hidden


def test_slide_14_shows_the_seven_places_with_their_numbers():
    slide = re.search(r'<div class="lines changes">(.*?)</section>', SOURCE, re.DOTALL)[1]
    first = next((ROOT / "scripts" / "lessons").glob("06_*/first.py")).read_text()
    places = re.findall(r"^ *(.*?)  # (\d)\. ", first, re.MULTILINE)
    assert [text.partition("\n")[0] for _, text in pieces(slide)] == [code for code, _ in places]
    for language in ("en", "zh-TW"):
        numbers = re.findall(rf'<p lang="{language}">(\d)\. ', slide)
        assert numbers == [number for _, number in places] == list("1234567")


def test_the_last_slide_shows_the_three_parts_and_one_address():
    course = Course(ROOT)
    last = re.findall(r"^<section\b.*?^</section>", SOURCE, re.MULTILINE | re.DOTALL)[-1]
    for part in build_parts.parts(course):
        name = f'<span lang="en">{part.english}</span><span lang="zh-TW">{part.chinese}</span>'
        assert f"<b>{part.range}</b> {name}" in last
    shown = last.partition('<div class="notes">')[0]
    assert shown.count("<p") == 2 * shown.count('<p class="part">') + 3 * 3 + 1


def test_addresses_are_those_of_the_published_notebooks():
    """As a class types them; a link in a file that was sent around would lead nowhere."""
    listed = load(ROOT)
    right = typed(listed)
    for page, count in [(SOURCE, 5), (HANDOUT, 3)]:
        shown = re.findall(r'<code [^>]*?data-address="(\w+)">(.*?)</code>', page)
        assert dict(shown) == right
        assert len(shown) == count
        assert "href=" not in page.partition("<body>")[2]


def test_a_step_of_data_parallel_has_the_lessons_parts_in_their_order():
    slide = re.search(r'<ol class="dp">(.*?)</ol>', SOURCE, re.DOTALL)[1]
    names = re.findall(r'<p class="name">(\w+)</p>', slide)
    lesson = next((ROOT / "notebooks" / "src").glob("04_*.md")).read_text()
    drawn = re.findall(r'\("([\w, \\]+)", "\w+", ".*?"\)', lesson)
    assert names[:4] == drawn[:4] == ["scatter", "replicate", "apply", "gather"]
    assert names[4:] == ["backward"]


def test_the_five_lines_are_the_same_everywhere():
    """On their slide, on the handout, and as lesson 03 names them."""
    slide = re.search(r'<div class="lines">(.*?)</section>', SOURCE, re.DOTALL)[1]
    five = [text for _, text in pieces(slide)]
    assert "\n".join(five) == pieces(HANDOUT)[0][1]
    names = ["zero_grad", "model(x)", "criterion", "backward", "step"]
    assert all(name in line for name, line in zip(names, five, strict=True))
    lesson = next((ROOT / "notebooks" / "src").glob("03_*.md")).read_text()
    told = re.findall(r"^The five lines are in .*|^這五行在下一支程式.*", lesson, re.MULTILINE)
    assert len(told) == 2
    for paragraph in told:
        assert re.findall(r"`([^`]*)`", paragraph)[:5] == names


def test_one_file_written_by_hand():
    """Slides, the style, an encoder with its licence, then our script; nothing to fetch."""
    parts = ("<main>", "</main>", "<style>", "</style>", "<script>", "</script>")
    order = [SOURCE.index(part) for part in parts]
    assert order == sorted(order)
    assert SOURCE.endswith("</script></body></html>\n")
    assert SOURCE.count("<style") == 1
    encoder, script = re.findall(r"<script>\n(.*?)</script>", SOURCE, re.DOTALL)
    assert re.match(r"/\* lean-qr [\d.]+, .* github\.com/davidje13/lean-qr\n\nMIT Lic", encoder)
    assert len(encoder) < 6000
    assert script.count("\n") <= 400
    assert max(map(len, script.splitlines())) <= 130
    fetches = r"[^-]src(set)?=|url\(|@import|https?://|fetch\(|XMLHttp|WebSocket|import\("
    assert not re.search(fetches, SOURCE.replace("drawCode(`https://$", ""))
