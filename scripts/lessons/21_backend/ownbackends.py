"""Backends of our own, which torch knows by name from then on: `from ownbackends import register`.

Their libraries, such as nearby.so, are built by one line of g++ before any rank begins.
"""

import importlib
import importlib.util
from functools import partial

import torch
import torch.distributed as dist

from devices import Place


def register(library: str, name: str = "", creator: str = "create", **options) -> str:
    """Make a backend known as `name`, which is the library's own by default.

    Returns its name; or "gloo" where the library was not built, as on a machine without a compiler.
    """
    if importlib.util.find_spec(library) is None:
        return "gloo"
    module = importlib.import_module(library)
    create = partial(getattr(module, creator), **options)
    dist.Backend.register_backend(name or library, create, devices=["cpu"])
    return name or library


def on_cpu(place: Place, backend: str) -> Place:
    """This rank's place with a backend of ours: it computes on the CPU, also where GPUs are."""
    return place._replace(device=torch.device("cpu"), backend=backend)
