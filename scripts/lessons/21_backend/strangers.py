"""Who gets at memory without a name? Somebody with a false address, and another user.

Run:  python strangers.py
      torchrun --standalone --nproc-per-node=1 strangers.py
"""

import os
import tempfile
import warnings
from datetime import timedelta
from threading import Thread

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import here, report
from ownbackends import on_cpu, register

LIMIT = timedelta(seconds=5)
NOBODY = 65534  # the number of a user who owns nothing


def join(address: str) -> str:
    """Try to come in as rank 1 of two; what our backend says, "" if it lets us in."""
    import nearby

    store = dist.HashStore()
    store.set("address", address)
    store.set("rank 0", "here")
    try:
        nearby.create(store, 1, 2, LIMIT)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return ""


def as_another_user(address: str) -> str:
    """The same in a process of another user, which only root can make."""
    if os.geteuid() != 0:
        return "not tried, since this is not root"
    # Our other thread only waits, so the copy of this process cannot miss it.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])  # groups first: only root may change them
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            reply = join(address)
        except OSError as error:  # as in a container that has no such user
            reply = f"not tried: {error}"
        os.write(writing, reply.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def knock() -> dict[str, str]:
    """Rank 0 offers its memory; what strangers are told, and last the right one."""
    import nearby

    store = dist.HashStore()
    store.set_timeout(LIMIT)
    first = Thread(target=nearby.create, args=(store, 0, 2, LIMIT))
    first.start()
    address = store.get("address").decode()
    boot, process, file, secret = address.split()
    with tempfile.TemporaryFile() as other:
        other.truncate(4096)
        false = {
            "another machine": f"{boot[::-1]} {process} {file} {secret}",
            "no such file": f"{boot} {process} 999999 {secret}",
            "another size": f"{boot} {process} {other.fileno()} {secret}",
            "another secret": f"{boot} {process} {file} {secret[::-1]}",
            "no address": "rubbish",
        }
        said = {lie: join(text) for lie, text in false.items()}
    said["another user"] = as_another_user(address)
    said["the truth"] = join(address)
    store.set("rank 1", "here")
    first.join()
    return said


@record
def main() -> None:
    place = on_cpu(here(), register("nearby"))
    said = knock() if place.backend == "nearby" else {}
    for lie, answer in said.items():
        print(f"{lie}: {answer or 'welcome'}")
    report("strangers", place, said=said)


if __name__ == "__main__":
    main()
