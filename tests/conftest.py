"""What every test needs: the lessons' programs can be imported, as they import one another."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lessons"))
