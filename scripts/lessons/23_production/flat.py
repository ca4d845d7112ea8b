"""Read and write the format of safetensors by hand: a length, a header in JSON, and bytes.

`from flat import parts, save`; nothing in such a file is ever run.
"""

import json
from pathlib import Path

import torch
from torch import Tensor

LETTERS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.int64: "I64",
}
KINDS = {letters: kind for kind, letters in LETTERS.items()}


def raw_bytes(tensor: Tensor) -> bytes:
    """The numbers of a tensor as they are in memory, the last dimension running fastest."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def save(tensors: dict[str, Tensor], path: Path, facts: dict[str, str]) -> None:
    """Write tensors, and facts about them, both under names."""
    header: dict[str, dict] = {"__metadata__": facts}
    pieces = []
    end = 0
    for name, tensor in tensors.items():
        piece = raw_bytes(tensor)
        begin = end
        end += len(piece)
        shape = list(tensor.shape)
        letters = LETTERS[tensor.dtype]
        header[name] = {"dtype": letters, "shape": shape, "data_offsets": [begin, end]}
        pieces.append(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers begin at a multiple of 8
    length = len(text).to_bytes(8, "little")
    path.write_bytes(length + text + b"".join(pieces))


def parts(path: Path) -> tuple[dict, bytes]:
    """Header and bytes of a file; ValueError unless the bytes are just what the header says."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        raise ValueError(f"{path} is cut short, or no file of this kind")
    header = json.loads(data[8 : 8 + length])
    numbers = data[8 + length :]
    places = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    reached = 0
    for begin, end in sorted(places):
        if begin != reached or end < begin:
            raise ValueError(f"{path} has a hole, or two tensors at one place")
        reached = end
    if reached != len(numbers):
        raise ValueError(f"{path} has {len(numbers)} bytes of numbers, and {reached} are said")
    return header, numbers
