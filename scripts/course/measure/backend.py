"""Build lesson 21's backends once, for tests and the bench: build/backends keeps the libraries.

Each is kept in a folder whose name is the hash of all that it is made of, so nothing old is used.
"""

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from course import rooms, same

ROOM = rooms.LESSONS / "21_backend"
# A copy of the repository, as the mutants make, has the notebooks of the true one.
KEPT = (rooms.LESSONS.parents[1] / "notebooks").resolve().parent / "build" / "backends"
FLAGS = ["-O3", "-std=c++20", "-shared", "-fPIC"]  # as the lesson's own line of g++


def sources() -> dict[str, str]:
    """The C++ files of the room, by their names."""
    return {path.name: path.read_text() for path in rooms.files() if path.parent == ROOM}


def build(name: str) -> Path | None:
    """The library of one backend, such as "nearby"; None where there is no g++.

    RuntimeError with what g++ says if it refuses the source.
    """
    import torch  # it takes long, and not every user of this module needs it

    if not shutil.which("g++"):
        return None
    texts = {file: text for file, text in sources().items() if not file.endswith(".py")}
    made_of = [torch.__version__, sysconfig.get_python_version(), *FLAGS]
    own = f"{name}.cpp"
    for file in sorted(texts):
        if file.endswith(".h") or file == own or f'#include "{file}"' in texts[own]:
            made_of += [file, texts[file]]
    digest = same.letters("\0".join(made_of), 16)
    library = KEPT / digest / f"{name}.so"
    if library.exists():
        return library
    home = Path(torch.__file__).parent
    folders = [home / "include", home / "include/torch/csrc/api/include"]
    folders.append(sysconfig.get_path("include"))
    options = [f"-I{folder}" for folder in folders]
    libraries = [f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python"]
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        for file, text in texts.items():
            (Path(folder) / file).write_text(text)
        part = Path(folder) / library.name
        command = ["g++", *FLAGS, *options, own, "-o", part, *libraries]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"g++ refuses {own}:\n{done.stderr}")
        part.replace(library)  # whole, or not there
    return library
