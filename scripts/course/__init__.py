"""The course's tools. Each folder is one command: `python -m course.build --check`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the repository

# jsonschema takes two seconds to import a module that checks addresses, and lives without: no
# notebook needs the check. So Python marks a module that cannot be imported.
sys.modules.setdefault("rfc3987_syntax", None)
