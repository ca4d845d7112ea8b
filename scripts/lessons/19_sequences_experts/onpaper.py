"""Would this training fit, and what would each GPU send? Arithmetic alone, nothing is measured.

plan(MODEL, tensor=8, sequence=8, pipeline=1, data=8)

The assumptions: computing in 16 bits, Adam in fp32, FSDP over the data and sequence ranks (lesson
16), checkpoints (a layer keeps its input alone, backward computes the rest again), norms cut along
the positions inside tensor parallel (lesson 17), as many micro-batches in flight as pipeline stages
(lesson 18). What is not tensor parallel counts as messages between machines.
"""

from typing import NamedTuple

ADAM = 16  # bytes for a parameter: itself, its gradient, two averages, 4 each
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
    def parameters(self) -> int:
        return self.layers * self.of_layer + 2 * self.vocabulary * self.width


def plan(model: Model, tensor: int, sequence: int, pipeline: int, data: int) -> dict[str, float]:
    """GB on a GPU, GB that it sends in a step, and the share of the time that is bubble."""
    gpus = tensor * sequence * pipeline * data
    layers = model.layers / pipeline
    passes = model.sequences / data  # micro-batches of one sequence each

    # Memory. FSDP gathers two layers at a time; a tensor rank has a part of each.
    shares = ADAM * model.parameters / gpus
    gathered = 2 * SHORT * model.of_layer / tensor
    one_layer = model.positions * model.width * SHORT / (sequence * tensor)  # its input alone
    alive = min(pipeline, passes)
    activations = one_layer * (layers * alive + LAYER_KEEPS)

    # Messages. A checkpointed layer runs forward twice, so its forward messages are sent twice.
    tokens = model.positions * model.width * SHORT * passes
    matrices = 2 * (tensor - 1) / tensor * 6 * tokens / sequence * layers
    ring = (8 - 6 / sequence) * tokens / tensor * layers if sequence > 1 else 0.0
    border = 2 * tokens / (sequence * tensor) if pipeline > 1 else 0.0
    shards = data * sequence
    weights = 3 * (shards - 1) / shards * SHORT * model.of_layer / tensor * layers * passes
    return {
        "memory": (shares + gathered + activations) / 1e9,
        "inside": matrices / 1e9,  # a machine, where tensor parallel stays
        "between": (ring + border + weights) / 1e9,  # machines
        "bubble": (pipeline - 1) / (passes + pipeline - 1),
    }
