"""Run the built notebooks on Kaggle, and bring back what became of them.

make kaggle OWNER=name                              # every notebook of kaggle-metadata.json
make kaggle OWNER=name LESSONS="03 solutions/06"    # those two
make kaggle OWNER=name LANGUAGE=zh LESSONS=workshop   # in Chinese alone, at the same address
make kaggle OWNER=name PARTS=--now                  # what ran last, without pushing
python -m course.kaggle --owner name --dry-run      # write build/kaggle, say the hours
python -m course.kaggle --owner name --all          # what has not changed, too

Kaggle runs what it gets, as a saved version, and that uses up GPU hours: so it is said beforehand
how many, and a notebook that has not changed since its last push from here is not pushed again. An
account may run two at once: two are pushed, and the next one when one of them has ended. What
they leave is in build/kaggle-results. However this ends, the same command goes on from there.
"""

import argparse
import json
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from course import ROOT
from course.evidence.judge import Verdict, of_log, of_record
from course.evidence.record import RecordError, parsed, record_file
from course.files import write
from course.kaggle.fetch import RUNNING, Brought, ExpiredError, FetchError, Kaggle, State
from course.kaggle.push import (
    Pushed,
    code_of,
    contents,
    gpu_minutes,
    identity,
    log_in,
    prepare_all,
    push,
)
from course.languages import CODES
from course.lesson import WORKSHOP
from course.listed import NAME, MetadataError, load

AT_ONCE = 2  # GPU sessions of one account
PAUSE = 20.0  # seconds from one look to the next
PATIENCE = 14 * 3600  # seconds for one notebook: a session ends after 12 hours
SILENT = 15  # looks in a row without an answer, after which a notebook is given up
FULL = re.compile(r"session count|too many", re.IGNORECASE)  # other sessions are running


class Results:
    """What came back, a folder for each notebook: its log, its record, and how it ended."""

    def __init__(self, root: Path):
        self.root = root
        self.folder = root / "build" / "kaggle-results"

    def of(self, folder: Path) -> Verdict | None:
        """How this very notebook ended; None if that is not known yet."""
        with suppress(OSError, ValueError, TypeError):
            kept = json.loads((self.folder / folder.name / "ended.json").read_text())
            if kept.pop("pushed") == contents(folder):
                return Verdict(**kept)
        return None

    def keep(self, name: str, folder: Path, pushed: str, state: State, brought: Brought) -> Verdict:
        """Judge what came back, and write it down with the hash of what was pushed; only a
        readable record takes the place of an earlier one.
        """
        place = self.folder / folder.name
        place.mkdir(parents=True, exist_ok=True)
        write(place / "log.txt", brought.log)
        verdict = of_log(self.root, brought.log, state.name, state.failure)
        if brought.record is not None:
            try:
                run = parsed(brought.record)
                if run["notebook"] != name:
                    raise RecordError(f"it is that of {run['notebook']}")
                write(place / record_file(name), brought.record)
                verdict = of_record(self.root, run)
            except RecordError as error:
                verdict = verdict._replace(said=f"{verdict.said}; its record is left out: {error}")
        elif name.startswith("solutions/"):
            verdict = verdict._replace(said=f"{verdict.said}; it left no record")
        ended = {"pushed": pushed} | verdict._asdict()
        write(place / "ended.json", json.dumps(ended, ensure_ascii=False))
        return verdict


def is_older(brought: Brought, name: str, folder: Path) -> bool:
    """Whether a record is of another version of this notebook than the one that was pushed."""
    with suppress(RecordError):
        run = parsed(brought.record or b"")
        return run["notebook"] == name and run["code"] != code_of(folder)
    return False


@dataclass
class Circle:
    """Notebooks on their way: to Kaggle, through it, and back."""

    kaggle: Kaggle
    pushed: Pushed
    results: Results
    folders: dict[str, Path]
    fresh: set[str]  # those to push
    pause: float
    api: object
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)  # since when
    silent: dict[str, int] = field(default_factory=dict)  # looks in a row without an answer
    problems: dict[str, str] = field(default_factory=dict)  # what was told of each last
    held: bool = False  # it was told that the account has other sessions

    def tell(self, name: str, verdict: Verdict) -> None:
        self.verdicts[name] = verdict
        self.running.pop(name, None)
        page = f" → {verdict.page}" if verdict.page else ""
        tqdm.write(f"{name}: {'' if verdict.well else 'FAILED '}{verdict.said}{page}")

    def bring(self, name: str, state: State) -> None:
        folder = self.folders[name]
        brought = self.kaggle.bring(identity(folder), record_file(name))
        if name in self.fresh and is_older(brought, name, folder):
            raise FetchError("Kaggle still shows what an earlier version left")
        pushed = self.pushed.hashes.get(identity(folder), "")
        self.tell(name, self.results.keep(name, folder, pushed, state, brought))

    def look(self, name: str) -> str:
        """The state of one notebook, which is brought back if it has ended."""
        try:
            state = self.kaggle.state(identity(self.folders[name]))
            if state.name not in RUNNING:
                self.bring(name, state)
            self.silent.pop(name, None)
            return state.name
        except ExpiredError:
            raise
        except FetchError as error:
            looks = self.silent[name] = self.silent.get(name, 0) + 1
            if error.final or looks >= SILENT:
                self.tell(name, Verdict(False, str(error)))
                return ""
            if str(error) != self.problems.get(name):
                self.problems[name] = str(error)
                tqdm.write(f"{name}: {error}; tries again")
            return "no answer"

    def begin(self, name: str) -> bool:
        """Push a notebook, unless that was done; False if the account runs enough already."""
        folder = self.folders[name]
        if name in self.fresh:
            place, problem = push(self.api, folder)
            if FULL.search(problem):
                if not self.held:
                    tqdm.write(f"{name}: {problem} Waits until one of the others has ended.")
                self.held = True
                return False
            if problem:
                self.tell(name, Verdict(False, problem))
                return True
            tqdm.write(f"{name}: {place}")
            self.pushed.add(folder)
        self.held = False
        self.running[name] = time.monotonic()
        return True

    def go(self) -> None:
        """Push two, wait, bring them back, push the next."""
        waiting = list(self.folders)
        hidden = not sys.stderr.isatty()
        shape = "{desc} {n_fmt}/{total_fmt} ended, {elapsed}{postfix}"
        bar = tqdm(total=len(waiting), bar_format=shape, desc="Kaggle", disable=hidden)
        with bar:
            while waiting or self.running:
                while waiting and len(self.running) < AT_ONCE and self.begin(waiting[0]):
                    waiting.pop(0)
                states = []
                for name, since in list(self.running.items()):
                    states.append(self.look(name))
                    if name in self.running and time.monotonic() - since > PATIENCE:
                        hours = PATIENCE // 3600
                        self.tell(name, Verdict(False, f"has not ended after {hours} hours"))
                bar.n = len(self.verdicts)
                now = ", ".join(filter(None, states)).lower()
                bar.set_postfix_str(f"{len(waiting)} wait; {now}")
                if self.running or waiting:
                    time.sleep(self.pause)

    def now(self) -> None:
        """Bring back what has ended, and push nothing."""
        for name in self.folders:
            state = self.look(name)
            if name not in self.verdicts and state:
                tqdm.write(f"{name}: {state.lower()}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = "numbers or beginnings of names; none: every notebook"
    parser.add_argument("lessons", nargs="*", help=names)
    owner = f"your Kaggle name, unless {NAME} gives it"
    parser.add_argument("--owner", default="", help=owner)
    one = f"{' or '.join(CODES)}: push the words of one language only"
    parser.add_argument("--language", default="", help=one)
    dry = "write build/kaggle and push nothing"
    parser.add_argument("--dry-run", action="store_true", help=dry)
    again = "push also what has not changed since its last push from here"
    parser.add_argument("--all", action="store_true", help=again)
    now = "push nothing: bring back what ran last, as far as it has ended"
    parser.add_argument("--now", action="store_true", help=now)
    pause = f"seconds from one look to the next ({PAUSE:g})"
    parser.add_argument("--pause", type=float, default=PAUSE, help=pause)
    parser.add_argument("--root", type=Path, default=ROOT)
    return parser.parse_args()


def known_already(folders: dict[str, Path], results: Results) -> dict[str, Verdict]:
    """What became of those that were pushed as they are, and came back."""
    known = {name: results.of(folder) for name, folder in folders.items()}
    return {name: verdict for name, verdict in known.items() if verdict}


def summary(
    verdicts: dict[str, Verdict], folders: dict[str, Path], results: Results, again: str
) -> int:
    """Say how many came to their end, which did not, and how to go on; 1 if any did not."""
    well = [name for name in folders if name in verdicts and verdicts[name].well]
    print(f"{len(well)} of {len(folders)} notebooks ran to the end")
    left = [name for name in folders if name not in well]
    for name in left:
        print(f"  {name}: {verdicts[name].said if name in verdicts else 'has not come back yet'}")
    failed = [name for name in left if results.of(folders[name])]  # as they are now
    waiting = [name for name in left if name not in failed]
    if waiting:
        print(f'The same command goes on: {again} LESSONS="{" ".join(waiting)}"')
    if failed:
        once_more = f'{again} ALL=--all LESSONS="{" ".join(failed)}"'
        print(f"Failed there, and not run again until it changes, or with: {once_more}")
    solved = [name for name in well if name.startswith("solutions/")]
    if solved:
        print("What they measured goes into the pages: make evidence FILE=build/kaggle-results")
    return 1 if left else 0


def main() -> int:
    args = arguments()
    try:
        listed = load(args.root, built=True)
    except MetadataError as error:
        sys.exit("\n".join(f"publish: {line}" for line in str(error).splitlines()))
    owner = args.owner or listed["owner"]
    if not re.fullmatch("[A-Za-z0-9-]+", owner):
        problem = f"“{owner}” is no Kaggle name" if owner else "no Kaggle name is set"
        remedy = "add OWNER=name, the end of your profile's address there"
        sys.exit(f"publish: {problem}: {remedy}.")
    if args.language and args.language not in CODES:
        remedy = f"name {' or '.join(CODES)}, or leave it out for both languages"
        sys.exit(f"publish: LANGUAGE={args.language}: {remedy}.")

    folders = prepare_all(args.root, listed, owner, args.lessons, args.language)
    print(f"{len(folders)} notebooks written to {args.root / 'build' / 'kaggle'}")
    if not listed["repository"]:
        remedy = "`make address REPO=name/course` says where the course is on GitHub"
        print(f"publish: the notebooks have no link to their source: {remedy}.", file=sys.stderr)
    pushed = Pushed(args.root)
    results = Results(args.root)
    fresh = {name: path for name, path in folders.items() if args.all or not pushed.same(path)}
    unchanged = {name: path for name, path in folders.items() if name not in fresh}
    known = {} if args.now else known_already(unchanged, results)
    if not args.now:
        print(f"{len(unchanged)} have not changed since their last push (--all pushes them)")
        minutes = sum(map(gpu_minutes, fresh.values()))
        hours = f"about {minutes / 60:.1f} GPU hours ({minutes} minutes, as the lessons guess)"
        print(f"{len(fresh)} to push: running them takes {hours}")
    if args.dry_run:
        return 0

    again = f"make kaggle OWNER={owner}"
    names = sorted(folders, key=lambda name: WORKSHOP not in name)  # the class first
    going = {name: folders[name] for name in names if name not in known}
    verdicts = dict(known)
    if going:
        api = log_in()
        kaggle = Kaggle(api, args.pause)
        to_push = set() if args.now else set(fresh)
        circle = Circle(kaggle, pushed, results, going, to_push, args.pause, api, verdicts)
        try:
            if args.now:
                circle.now()
            else:
                circle.go()
        except KeyboardInterrupt:
            tqdm.write("publish: interrupted; what runs on Kaggle goes on there")
        except ExpiredError as error:
            tqdm.write(f"publish: {error}.")
        except OSError as error:
            place = error.filename or results.folder
            tqdm.write(f"publish: {place}: {error.strerror}: make room, then run this again.")
    return summary(verdicts, folders, results, again)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
