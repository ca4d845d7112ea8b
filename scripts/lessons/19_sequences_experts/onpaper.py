"""Would this training fit, and what would each GPU send? Arithmetic alone, nothing is measured.

plan(MODEL, tensor=8, sequence=8, pipeline=1, data=8)

Memory is lesson 16's `forecast`; only the activations are worked out here instead of watched.

The assumptions: computing in 16 bits, Adam in fp32, FSDP over the data and sequence ranks (lesson
16), checkpoints (a layer keeps its input alone, backward computes the rest again), norms cut along
the positions inside tensor parallel (lesson 17), as many micro-batches in flight as pipeline stages
(lesson 18). What is not tensor parallel counts as messages between machines.
"""

import math
from typing import NamedTuple

from alive import Stage
from fit import Watched, forecast

SHORT = 2  # bytes of a number in 16 bits
LAYER_KEEPS = 16  # activations of a layer without checkpoints, in numbers for a token and unit of d


class Model(NamedTuple):
    layers: int
    width: int
    vocabulary: int
    positions: int  # of one sequence
    sequences: int  # of all ranks, in one step

    @property
    def of_layer(self) -> int:
        """Parameters of one layer."""
        return 12 * self.width**2

    @property
    def embeddings(self) -> int:
        """Parameters of the first and the last matrix, for the vocabulary."""
        return 2 * self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        return self.layers * self.of_layer + self.embeddings


def part(model: Model, tensor: int, sequence: int, pipeline: int, passes: float) -> Watched:
    """What lesson 16 would see on one GPU, if it could watch it: one micro-batch in backward."""
    layers = math.ceil(model.layers / pipeline)
    one_layer = model.positions * model.width * SHORT / (sequence * tensor)  # its input alone
    waiting = layers * (min(pipeline, passes) - 1)  # of the other micro-batches that are alive
    activations = {}
    for unit in range(layers):  # the inputs up to this layer, which is computed again
        kept = one_layer * (waiting + unit + 1 + LAYER_KEEPS)
        activations[Stage("backward", unit)] = kept
        activations[Stage("end", unit)] = kept
    units = [model.of_layer // tensor] * layers
    numbers = sum(units) + model.embeddings // (tensor * pipeline)
    fixed = dict.fromkeys(activations, 0.0)  # all of it grows with the batch
    return Watched(numbers, units, SHORT, fixed, activations)


def plan(model: Model, tensor: int, sequence: int, pipeline: int, data: int) -> dict[str, float]:
    """GB on a GPU, GB that it sends in a step, and the share of the time that is bubble."""
    layers = model.layers / pipeline
    passes = model.sequences / data  # micro-batches of one sequence each
    shards = data * sequence
    seen = part(model, tensor, sequence, pipeline, passes)
    memory = forecast(seen, "fsdp", ranks=shards, batch=1)

    # Messages. A checkpointed layer runs forward twice, so its forward messages are sent twice.
    tokens = model.positions * model.width * SHORT * passes
    matrices = 2 * (tensor - 1) / tensor * 6 * tokens / sequence * layers
    ring = 0.0
    if sequence > 1:
        ring = (8 - 6 / sequence) * tokens / tensor * layers
    border = 0.0
    if pipeline > 1:
        border = 2 * tokens / (sequence * tensor)
    weights = 3 * (shards - 1) / shards * SHORT * model.of_layer / tensor * layers * passes
    return {
        "memory": memory["total"] / 1e9,
        "inside": matrices / 1e9,  # a machine, where tensor parallel stays
        "between": (ring + border + weights) / 1e9,  # machines
        "bubble": (pipeline - 1) / (passes + pipeline - 1),
    }
