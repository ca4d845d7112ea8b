"""Build the course's site: build/site/index.html, to be read also without a network.

Run:  python -m course.site                     # what `make site` does; nothing is executed
      python -m course.site --only 00 06        # two lessons, to see quickly what changed
      python -m course.site --executed FOLDER   # with what `make run` has just run

A fault of the sources stops the build with its place; then an earlier site stays as it was.
"""

import argparse
import os
import re
import shutil
import sys
import time
import warnings
from pathlib import Path

from jinja2 import TemplateNotFound
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import docutils_namespace, patch_docutils

from course import ROOT, listed
from course.files import emptied
from course.lesson import BuildError, demand
from course.report import read
from course.site import runs
from course.site.messages import CONF, Faults, Places, Progress
from course.site.pages import write_all
from course.sources import Course

SOURCES = ROOT / "build" / "site-src"
SITE = ROOT / "build" / "site"
SETTINGS = Path(__file__).parent
ADDRESS = re.compile(r"https://[^\s/?#\"'<>]+[^\s?#\"'<>]*")


def write_sources(
    course: Course, pages: Path, only: list[str] | None, executed: Path | None
) -> None:
    """Write what Sphinx reads."""
    pages.mkdir()
    text = runs.KEPT
    report = None
    if executed:
        report = read(executed)
        names = [path.relative_to(course.notebooks) for path in course.notebooks.rglob("*.ipynb")]
        shown = [name for name in names if not only or name.stem.startswith(tuple(only))]
        text = runs.page(report, {str(name.with_suffix("")) for name in shown})
    # Before the front page, which leads to it. No warning where a small course has no such link.
    (pages / "runs.md").write_text(f"---\norphan: true\n---\n\n{text}")
    write_all(course, pages, only, executed)
    if report:
        runs.mark(pages, report)


def run_sphinx(work: Path, faults: Faults, settings: dict[str, object]) -> None:
    """Let Sphinx make pages in work/html; what it warns of is collected."""
    progress = Progress()
    try:
        with patch_docutils(SETTINGS), docutils_namespace(), warnings.catch_warnings():
            # The extensions' calls of old names are no business of ours.
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            app = Sphinx(
                work / "pages",
                SETTINGS,
                work / "html",
                work / "doctrees",
                "html",
                settings,
                progress,
                faults,
                parallel=2,
            )
            app.build()
    finally:
        progress.end()


def put(html: Path, site: Path) -> None:
    """Let finished pages take the place of an earlier site."""
    emptied(site)
    for entry in html.iterdir():
        shutil.move(entry, site / entry.name)


def check_folders(sources: Path, site: Path, executed: Path | None) -> None:
    """Stop where one folder would be emptied with another one in it."""
    folders = {"--sources": sources, "--site": site}
    if executed:
        folders["--executed"] = executed
    for option, folder in folders.items():
        for other, inside in folders.items():
            nested = option != other and inside.resolve().is_relative_to(folder.resolve())
            demand(not nested, other, f"{inside} is inside of {option} {folder}: name another.")


def build(
    course: Course,
    sources: Path,
    site: Path,
    only: list[str] | None = None,
    executed: Path | None = None,
    **settings: str,
) -> int:
    """Write the sources of all pages, and let Sphinx make the site of them: an exit code.

    only: beginnings of lessons' names, such as "06"; links to the others may lead nowhere then.
    executed: a folder with notebooks as they ran, which are shown in place of the kept ones.
    settings: values for Sphinx, such as course_address.
    """
    check_folders(sources, site, executed)
    work = emptied(sources)
    faults = Faults(Places(course.root, work / "pages"))
    write_sources(course, work / "pages", only, executed)
    extra = {"html_extra_path": [str(work / "pages" / "extra")]}
    run_sphinx(work, faults, extra | settings)
    wrong = [fault for fault in faults.all if not (only and fault.link)]
    for fault in wrong:
        print(f"site: {fault}", file=sys.stderr)
    if wrong:
        stays = f"{site} stays as it was" if (site / "index.html").exists() else "there is no site"
        print(f"site: {len(wrong)} faults, nothing built: {stays}", file=sys.stderr)
        return 1
    put(work / "html", site)
    return 0


def address(text: str) -> str:
    """An address, for the command line and the environment."""
    if text and not ADDRESS.fullmatch(text):
        remedy = "write https://, a host, and no spaces, as in https://example.org/course/"
        raise argparse.ArgumentTypeError(f"“{text}” is no address: {remedy}")
    return text


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="LESSON", help="beginnings of lessons' names")
    parser.add_argument("--executed", type=Path, help="folder with notebooks as they ran")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="folder for Sphinx's work")
    parser.add_argument("--site", type=Path, default=SITE, help="folder for the pages")
    env = os.environ.get
    where = "where the site will be published, https://…/; or SITE_ADDRESS"
    parser.add_argument("--address", type=address, default=env("SITE_ADDRESS", ""), help=where)
    whose = "whose issues get reports of mistakes, https://github.com/…; or SITE_REPOSITORY"
    here = env("SITE_REPOSITORY", "")
    parser.add_argument("--repository", type=address, default=here, help=whose)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)  # for tests
    return parser.parse_args(given)


def reason(error: BaseException) -> str:
    """One line on why there is no site."""
    if isinstance(error, TemplateNotFound):
        name, *_ = str(error).split(" not found")
        return f"{CONF}: no template is called {name}: take it out, or write it in templates/"
    if isinstance(error, FileExistsError) and error.errno == 17 and error.filename:
        remedy = "empty it yourself, or name another with --site or --sources"
        return f"will not empty {error.filename} ({error.strerror}): {remedy}"
    if isinstance(error, OSError):
        remedy = "make room, or name other folders with --site and --sources"
        return f"cannot write {error.filename or 'the site'} ({error.strerror}): {remedy}"
    return " ".join(str(error).split())


def main(given: list[str] | None = None) -> int:
    args = arguments(given)
    began = time.perf_counter()
    settings = {"course_address": args.address, "course_repository": args.repository}
    settings = {name: value for name, value in settings.items() if value}
    folders = args.sources, args.site, args.only, args.executed
    print("Building the site: about a minute", flush=True)
    try:
        code = build(Course(args.root), *folders, **settings)
    except (BuildError, listed.MetadataError, SphinxError, OSError) as error:
        cause = getattr(error, "orig_exc", error.__cause__)  # what an extension or a page met
        print(f"site: {reason(cause if isinstance(cause, OSError) else error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsite: interrupted; an earlier site stays as it was", file=sys.stderr)
        return 130
    if code == 0:
        print(f"Open {args.site / 'index.html'} ({time.perf_counter() - began:.0f} s)")
        if args.executed:
            print(runs.told(read(args.executed), args.site), end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
