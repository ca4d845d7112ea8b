"""Build the notebooks from `notebooks/src/*.md` and the programs in `scripts/lessons`.

python -m course.build                  # write every derived file that changed
python -m course.build --check          # write nothing; exit 1 when one is not what would be built
python -m course.build --force          # overwrite notebooks that were edited by hand, too
python -m course.build --inert devices.py WHY    # it was changed, and what it prints was not
python -m course.build --programs 06    # write what lesson 06 writes, solved, into build/06_ddp
python -m course.build --key            # the answers to the homework, for teachers
python -m course.build --workshop zh    # the class notebook and its twin in Chinese, into build
python -m course.build --exam 1234      # an exam and its key, into build/exam
"""

import argparse
import json
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course import ROOT, listed
from course.build import key
from course.build.lessons import check_lessons, decorate
from course.build.pages import Errors, add_head, fill_errors, filled_page, filled_tables
from course.build.programs import check_needs, check_programs, check_rooms
from course.build.session import check_launches
from course.build.workshop import workshop
from course.evidence.kept import machines, valid
from course.evidence.record import what_runs
from course.exam import paper
from course.facts import kept
from course.files import write
from course.languages import CODES
from course.lesson import WORKSHOP, BuildError, Lesson, about, demand
from course.outputs import (
    NOTHING,
    Inert,
    as_text,
    in_language,
    inherit,
    notebook,
    seal,
    waits,
)
from course.sources import Course


def read(course: Course, solved: bool) -> dict[Path, Lesson]:
    """Every lesson; its cells can be run one after another."""
    lessons = {path: course.lesson(path, solved) for path in course.sources}
    for lesson in lessons.values():
        check_launches(course.programs, lesson.own)
    return lessons


def notebooks(course: Course, lessons: dict[Path, Lesson], solved: bool) -> dict[str, NotebookNode]:
    """The workshop, if there is one, and a notebook a lesson, by name."""
    books = {}
    for_the_class = workshop(course, lessons, solved)
    if for_the_class:
        books[WORKSHOP] = for_the_class
    for path, lesson in lessons.items():
        decorate(lesson.own, path.stem)
        books[path.stem] = notebook(lesson.own, course.name(path), about(course.sources[path]))
    return books


def derived(course: Course, force: bool = False, inert: Inert = NOTHING) -> dict[Path, str]:
    """Every derived file as it should be: notebooks, tables, pages in assets/."""
    # First everything is read and checked: a program by itself, then in its notebook and its room.
    check_programs(course)
    exercises = read(course, solved=False)
    solutions = read(course, solved=True)
    check_rooms(course)
    check_needs(course)
    check_lessons(course)

    errors = Errors(course, exercises)
    table = errors.table()
    books = {}
    for lessons, solved in ((exercises, False), (solutions, True)):
        fill_errors(lessons, table)
        books[solved] = notebooks(course, lessons, solved)
    course.measured = measured(course, books[True])
    tables = filled_tables(course, errors)
    files = dict(tables)
    for solved, named in books.items():
        folder = course.notebooks / "solutions" if solved else course.notebooks
        for stem, book in named.items():
            path = folder / f"{stem}.ipynb"
            add_head(course, book, course.name(path))
            seal(book)
            if path != course.workshop:  # its answers would be under its questions
                inherit(book, path, course.name(path), force, inert)
            files[path] = as_text(book)

    assets = course.root / "assets"
    pages = [*assets.glob("*.html"), *assets.rglob("*.md")]
    files |= {path: filled_page(course, path) for path in pages if path not in tables}
    return files | kept.readme(course, files)


def measured(course: Course, solved: dict[str, NotebookNode]) -> dict[str, dict[str, dict]]:
    """What machines with GPUs showed of lessons that still run the same, by file and lesson."""
    files = machines(course.root)
    stems = {row["row"] for file in files.values() for row in file["rows"]} & solved.keys()
    code = {stem: what_runs(Lesson.of(solved[stem]).cells) for stem in stems}
    return {name: valid(file, code) for name, file in files.items()}


def put(path: Path, content: bytes) -> None:
    """Write a file, in a new folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, content)


def write_programs(course: Course, number: str, folder: Path | None) -> int:
    """Write what the notebook of one lesson writes, with its exercises solved."""
    lessons = {path.stem[:2]: path for path in course.sources}
    remedy = f"there is no such lesson, but {', '.join(lessons)}."
    demand(number in lessons, f"--programs {number}", remedy)
    check_programs(course)
    path = lessons[number]
    lesson = course.lesson(path, solved=True).own
    check_launches(course.programs, lesson)
    folder = folder or course.root / "build" / path.stem
    for name, text in lesson.files.items():
        put(folder / name, f"{text}\n".encode())
        print(folder / name)
    return 0


def write_workshop(course: Course, code: str) -> int:
    """Write the class notebook in one language, and its solved twin with all outputs."""
    remedy = f"the class notebook is in {' or '.join(CODES)}: `make workshop LANGUAGE={CODES[-1]}`."
    demand(code in CODES, f"LANGUAGE={code}", remedy)
    books = {
        path: text for path, text in derived(course).items() if path.name == course.workshop.name
    }
    demand(books, course.name(course.notebooks / "src"), "no cell is tagged `workshop`: tag some.")
    for path, text in books.items():
        book = nbformat.reads(text, as_version=4)
        in_language(book, code)
        target = course.root / "build" / f"workshop-{code}" / path.relative_to(course.notebooks)
        put(target, as_text(book).encode())
        print(course.name(target))
    return 0


def write_key(course: Course) -> int:
    """Write the answers to the homework, for teachers."""
    target = course.root / "build" / "key.html"
    put(target, key.page(course).encode())
    print(f"{course.name(target)}: for teachers; no other command reads or publishes it")
    return 0


def write_exam(root: Path, seed: str) -> int:
    """Write the exam of a seed, and its key for teachers."""
    paper.number(seed)
    if paper.make_secret(root):
        hint = "keep it, and show it to nobody: without it this exam cannot be graded"
        print(f"{root / paper.SECRET}: made; {hint}")
    exam = paper.drawn(root, seed)
    for name, solved in (("exam", False), ("key", True)):
        target = paper.folder(root) / f"{name}-{exam.seed}.ipynb"
        text = as_text(exam.book(solved))
        remedy = "it is there, and says something else: move it away, or take another seed."
        demand(not target.exists() or target.read_text() == text, exam.name(target), remedy)
        put(target, text.encode())
        print(f"{exam.name(target)}: {'for teachers' if solved else 'for students'}")
    return 0


def waiting(course: Course, files: dict[Path, str]) -> list[Path]:
    """The notebooks that lack outputs; the class's has none on purpose."""
    books = [path for path in files if path.suffix == ".ipynb"]
    own = [path for path in books if path != course.workshop]
    return [path for path in own if waits(json.loads(files[path]))]


def write_all(course: Course, check: bool, force: bool, inert: Inert) -> int:
    """Write what changed, or only name it; 1 when one is out of date, or comes from no source."""
    files = derived(course, force, inert)
    known = inert.name in {*course.programs, ""}
    known = known or any(f'"id": "{inert.name}"' in text for text in files.values())
    demand(known, f"--inert {inert.name}", "no program and no cell is called so.")
    contents = {path: text.encode() for path, text in files.items()}
    contents |= kept.pictures(course, files)
    there = {path: path.read_bytes() for path in contents if path.exists()}
    changed = [path for path, content in contents.items() if there.get(path) != content]
    for path in changed:
        if not check:
            put(path, contents[path])
        outcome = "not what would be built: run `make build`" if check else "written"
        print(f"{course.name(path)}: {outcome}")
    for path in waiting(course, files):
        name = path.relative_to(course.notebooks).with_suffix("").as_posix()
        print(f'{course.name(path)}: waits for outputs: `make outputs LESSONS="{name}"`')
    if check and listed.reminder(course.listed):
        print(listed.reminder(course.listed))
    built = [p for p in course.notebooks.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    orphans = [path for path in built if path not in files]
    for path in orphans:
        remedy = "no source builds it: delete it, or restore its file in notebooks/src"
        print(f"{course.name(path)}: {remedy}")
    return 1 if orphans or (check and changed) else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--check", action="store_true", help="write nothing; exit 1 when a file is out of date")
    add("--force", action="store_true", help="overwrite notebooks that were edited by hand")
    why = "keep outputs though this program changed, or the cell of this id; the reason why"
    add("--inert", nargs=2, metavar=("NAME", "WHY"), default=NOTHING, help=why)
    add("--programs", metavar="LESSON", help="only write the programs of one lesson, as 06")
    add("--workshop", metavar="LANGUAGE", help="only write the class notebook in zh or en")
    add("--key", action="store_true", help="only write the answers to the homework: build/key.html")
    add("--exam", metavar="SEED", help="only write the exam of this seed, and its key")
    add("folder", nargs="?", type=Path, help="where to write them; build/06_ddp, say, without it")
    add("--root", type=Path, default=ROOT)
    args = parser.parse_args(arguments)
    if args.folder and not args.programs:
        parser.error("a folder is only for --programs")
    try:
        if args.exam is not None:
            return write_exam(args.root.resolve(), args.exam)
        course = Course(args.root.resolve())
        if args.programs:
            return write_programs(course, args.programs, args.folder)
        if args.workshop is not None:
            return write_workshop(course, args.workshop)
        if args.key:
            return write_key(course)
        return write_all(course, args.check, args.force, Inert(*args.inert))
    except (BuildError, SyntaxError, listed.MetadataError) as error:
        print(f"build: {error}", file=sys.stderr)
    except OSError as error:
        remedy = "make room, or allow it, and run this again"
        print(f"build: {error.filename}: {error.strerror}: {remedy}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
