"""What torch says when machines do not find each other: wrong names, ports and interfaces.

Run:  python astray.py
"""

import os
import socket
import tempfile
from collections.abc import Callable
from datetime import timedelta

import psutil
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend

from devices import here, report

PATIENCE = timedelta(seconds=1)


def said(attempt: Callable[[], object]) -> str:
    """What an attempt prints on the error output, C++ included, and the error that it ends in."""
    with tempfile.TemporaryFile("w+") as file:
        usual = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            attempt()
            problem = ""
        except (RuntimeError, ValueError, RendezvousConnectionError) as error:
            problem = str(error)
        finally:
            os.dup2(usual, 2)
            os.close(usual)
        file.seek(0)
        return file.read() + problem


def meet_at(host: str, port: int) -> None:
    """As a rank other than rank 0: look for the store of rank 0."""
    dist.TCPStore(host, port, 2, is_master=False, timeout=PATIENCE)


def host_at(port: int) -> None:
    """As rank 0: offer the store on this port."""
    dist.TCPStore("127.0.0.1", port, 1, is_master=True, timeout=PATIENCE)


def join_at(port: int) -> None:
    """As an agent with --rdzv-backend=c10d, where no machine takes the endpoint for its own."""
    settings = {"is_host": False, "read_timeout": int(PATIENCE.total_seconds())}
    endpoint = f"127.0.0.1:{port}"
    parameters = RendezvousParameters("c10d", endpoint, "job", 2, 2, **settings)
    create_backend(parameters)


def gloo_over(names: str) -> None:
    """A group of one rank on these network interfaces."""
    os.environ["GLOO_SOCKET_IFNAME"] = names
    try:
        dist.ProcessGroupGloo(dist.HashStore(), 0, 1, PATIENCE)
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]


def interfaces() -> list[str]:
    """The names of this machine's network interfaces that have an address for IPv4."""
    found = []
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.family == socket.AF_INET for address in addresses):
            found.append(name)
    return found


@record
def main() -> None:
    place = here()
    names = interfaces()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        messages = {"port taken": said(lambda: host_at(port))}
    messages["no such name"] = said(lambda: meet_at("node7.invalid", port))
    messages["no host"] = said(lambda: join_at(port))
    messages["one interface"] = said(lambda: gloo_over(names[0]))
    repeated = ",".join([*names, names[0]])
    messages["a list"] = said(lambda: gloo_over(repeated))
    messages["all but one"] = said(lambda: gloo_over(f"^{names[0]}"))

    print("interfaces of this machine:", ", ".join(names))
    report("astray", place, told=messages, interfaces=names)


if __name__ == "__main__":
    main()
