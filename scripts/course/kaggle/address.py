"""Say where the course is: its repository on GitHub, and whose its notebooks are on Kaggle.

make address REPO=name/course OWNER=name

Badges, links to sources, the slides and the handout show these addresses after the next build.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from course import ROOT
from course.files import write
from course.listed import NAME, SCHEMA, MetadataError, load


def problems(given: dict[str, str]) -> list[str]:
    """What is wrong with the names, a line for each."""
    lines = []
    for key, value in given.items():
        rule = SCHEMA["properties"][key]
        if not re.fullmatch(rule["pattern"], value):
            lines.append(f"“{value}” is no {key}. {rule['description']}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", default="", help="on GitHub, as name/course")
    parser.add_argument("--owner", default="", help="your Kaggle name")
    parser.add_argument("--root", type=Path, default=ROOT)
    args = parser.parse_args(arguments)
    asked = {"owner": args.owner, "repository": args.repository}
    given = {key: value for key, value in asked.items() if value}
    try:
        load(args.root)
        wrong = problems(given)
    except MetadataError as error:
        wrong = str(error).splitlines()
    if not given:
        wrong.append("add REPO=name/course, as on GitHub, or OWNER=name, as on Kaggle, or both.")
    for line in wrong:
        print(f"address: {line}", file=sys.stderr)
    if wrong:
        return 1

    path = args.root / NAME
    listed = json.loads(path.read_text())
    text = json.dumps(given | listed | given, indent=2, ensure_ascii=False)
    try:
        write(path, f"{text}\n")
    except OSError as error:
        remedy = f"allow writing in {path.parent}, and run it again."
        print(f"address: {NAME} was not written ({error.strerror}): {remedy}", file=sys.stderr)
        return 1
    for key, value in given.items():
        print(f"{NAME}: {key} is {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
