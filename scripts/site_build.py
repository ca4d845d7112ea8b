"""Build the course's site from the kept outputs: build/site/index.html, also without a network.

Run:  python scripts/site_build.py                     # what `make site` does; nothing is executed
      python scripts/site_build.py --only 00 06        # two lessons, to see quickly what changed
      python scripts/site_build.py --executed FOLDER   # with what `make run` has just run
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx

import site_pages
from build_course import Course
from build_grammar import BuildError

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "build" / "site-src"
SITE = ROOT / "build" / "site"


def build(
    course: Course,
    sources: Path,
    site: Path,
    only: list[str] | None = None,
    executed: Path | None = None,
) -> int:
    """Write the sources of all pages, and let Sphinx make the site of them: its exit code.

    only: beginnings of lessons' names, such as "06"; links to the others are reported then.
    executed: a folder with notebooks as they ran, which are shown in place of the kept ones.
    """
    shutil.rmtree(sources, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    site_pages.write_all(course, sources, only, executed)
    settings = Path(__file__).with_name("site_sphinx")
    command = ["-b", "html", "-c", str(settings), "-q", "-j", "2", "--keep-going"]
    command += ["-D", f"html_extra_path={sources / 'extra'}"]
    if not only:
        command.append("-W")  # a warning, such as a link to nowhere, is an error
    return sphinx([*command, str(sources), str(site)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="LESSON", help="beginnings of lessons' names")
    parser.add_argument("--executed", type=Path, help="folder with notebooks as they ran")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="folder for Sphinx's input")
    parser.add_argument("--site", type=Path, default=SITE, help="folder for the pages")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    began = time.perf_counter()
    print("Building the site: about a minute")
    try:
        code = build(Course(ROOT), args.sources, args.site, args.only, args.executed)
    except BuildError as error:
        print(f"site: {error}")
        return 1
    if code == 0:
        print(f"Open {args.site / 'index.html'} ({time.perf_counter() - began:.0f} s)")
    return code


if __name__ == "__main__":
    sys.exit(main())
