"""Who may read and write the table in which the ranks of a launch meet? A stranger tries.

Run:  python stranger.py                                         # one process
      torchrun --standalone --nproc-per-node=2 stranger.py       # two ranks
"""

import json
import os
import socket
import subprocess
import sys
from datetime import timedelta

import psutil
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from devices import Place, here, report, start

PATIENCE = timedelta(seconds=5)


def own_address() -> str:
    """This machine's address towards others; loopback where it has no other. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation: nobody is there
        except OSError:  # no network
            return "127.0.0.1"
        return probe.getsockname()[0]


def listening() -> list[list]:
    """Who of this launch listens, on which address: the agent and its ranks, nobody else."""
    agent = psutil.Process(os.getppid())
    found = []
    for process in [agent, *agent.children()]:
        if process == agent:
            who = "agent"
        else:
            rank = process.environ().get("RANK", "?")
            who = f"rank {rank}"
        for connection in process.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN:
                found.append([who, connection.laddr.ip, connection.laddr.port])
    return found


def visit(address: str, port: int) -> dict:
    """What a process that is no rank gets out of a store."""
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError as error:
        return {"refused": type(error).__name__}
    store = dist.TCPStore(address, port, is_master=False, timeout=PATIENCE)
    store.set("note", "a stranger was here")
    return {"keys": store.num_keys(), "note": store.get("note").decode()}


def send_stranger(addresses: dict[str, tuple[str, int]]) -> dict:
    """Visits by another process, which knows nothing of this launch but addresses and ports."""
    env = {}
    for name, value in os.environ.items():
        if not name.startswith(("MASTER", "TORCHELASTIC")):
            env[name] = value
    command = [sys.executable, __file__, "visit", json.dumps(addresses)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def be_stranger(addresses: str) -> None:
    """What that other process does: it prints what each visit came to, as JSON."""
    visits = {}
    for name, (address, port) in json.loads(addresses).items():
        visits[name] = visit(address, port)
    print(json.dumps(visits))


def closed_store() -> tuple[dist.TCPStore, int]:
    """A store behind a socket that we bind ourselves, to loopback: this machine alone hears it."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    # The store takes the socket over, and closes it in the end.
    handle = server.detach()
    store = dist.TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=handle)
    return store, port


def look(place: Place) -> None:
    """On rank 0: who listens, and what the stranger gets out of both stores."""
    address = own_address()
    port = int(os.environ["MASTER_PORT"])
    listeners = listening()
    store, closed_port = closed_store()
    store.set("secret", "for ranks")
    addresses = {
        "open, from outside": (address, port),
        "closed, from outside": (address, closed_port),
        "closed, from this machine": ("127.0.0.1", closed_port),
    }
    visits = send_stranger(addresses)
    report("stranger", place, address=address, port=port, listeners=listeners, visits=visits)


@record
def main() -> None:
    # gloo on the CPU everywhere: this is about who can connect.
    place = here(gpus=0)
    start(place)
    if place.rank == 0:
        look(place)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["visit"]:
        be_stranger(sys.argv[2])
    else:
        main()
