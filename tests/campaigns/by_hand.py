"""Imported first by a campaign that is run by hand: what tests share.

pytest knows these folders from pyproject.toml.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lessons"))
