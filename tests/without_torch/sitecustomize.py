"""`make check` has this folder in PYTHONPATH: there, what only notebooks need cannot be imported.

So a check that needs torch is red on a machine that has it, too, and whoever corrects a word never
has to install 5 GB. Python imports this file by itself when it starts.
"""

import sys

for name in ("matplotlib", "numpy", "papermill", "playwright", "torch", "torchvision"):
    sys.modules[name] = None
