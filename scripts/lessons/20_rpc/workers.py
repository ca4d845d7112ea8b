"""Make every rank a worker that others can call: worker0, worker1 and so on.

`from workers import join`
"""

import warnings

import torch
import torch.distributed.rpc as rpc

from devices import Place

# Every init_rpc warns about a class of PyTorch that PyTorch itself uses there: its own fault, known
# since 2025 (pytorch#149393), and harmless.
warnings.filterwarnings("ignore", message="You are using a Backend")


def join(place: Place, transport: str = "uv", seconds: float = 60) -> None:
    """Wait until all ranks have come. From then on this rank answers calls, in other threads.

    A call that takes longer than `seconds` raises an error where it was made. `uv` sends over TCP,
    and sleeps until something comes. On one machine PyTorch itself would choose `shm`, shared
    memory, whose thread asks again and again: each rank then keeps a core busy, even if it waits.
    """
    torch.set_num_threads(1)  # the ranks share this machine's cores
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=seconds, _transports=[transport])
    name = f"worker{place.rank}"
    size = place.world_size
    rpc.init_rpc(name, rank=place.rank, world_size=size, rpc_backend_options=options)
