"""Build the course's site from the kept outputs: build/site/index.html, also without a network.

Run:  python scripts/site_build.py            # what `make site` does; nothing is executed
"""

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


def build(course: Course, sources: Path, site: Path) -> int:
    """Write the sources of all pages, and let Sphinx make the site of them: its exit code."""
    shutil.rmtree(sources, ignore_errors=True)
    site_pages.write_all(course, sources)
    settings = Path(__file__).with_name("site_sphinx")
    quiet = ["-q", "-W", "--keep-going", "-j", "2"]
    return sphinx(["-b", "html", "-c", str(settings), *quiet, str(sources), str(site)])


def main() -> int:
    began = time.perf_counter()
    print("Building the site: about a minute")
    try:
        code = build(Course(ROOT), SOURCES, SITE)
    except BuildError as error:
        print(f"site: {error}")
        return 1
    if code == 0:
        print(f"Open {SITE / 'index.html'} ({time.perf_counter() - began:.0f} s)")
    return code


if __name__ == "__main__":
    sys.exit(main())
