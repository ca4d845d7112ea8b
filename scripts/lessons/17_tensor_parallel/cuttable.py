"""A small language model whose layers can be cut: attention and MLP are modules of their own.

`from cuttable import Kept, Model, batch, compare, whole`
"""

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate
from torch.nn import functional

from yardstick import apart

VOCABULARY = 128
CONTEXT = 32  # tokens of one text
WIDTH = 64  # numbers that describe one token
HEADS = 4


class Attention(nn.Module):
    """Each token looks at the tokens before it, in several heads side by side."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        """(text, token, number) → (text, head, token, number). -1: as many heads as are here."""
        by_head = x.unflatten(-1, (-1, self.head_width))
        return by_head.transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        query = self.split(self.query(x))
        key = self.split(self.key(x))
        value = self.split(self.value(x))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = mixed.transpose(1, 2).flatten(2)
        return self.out(joined)


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.gelu(self.up(x))
        return self.down(hidden)


class Layer(nn.Module):
    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm1(x)
        x = x + self.attention(normed)
        normed = self.norm2(x)
        return x + self.mlp(normed)


class Model(nn.Module):
    """The mean loss of guessing each label."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        length = tokens.shape[1]
        places = torch.arange(length, device=tokens.device)
        x = self.token(tokens) + self.position(places)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        logits = self.head(x)
        rows = logits.flatten(0, 1)
        return functional.cross_entropy(rows, labels.flatten())


def batch(texts: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Tokens and labels, (texts, CONTEXT) each: the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    size = (texts, CONTEXT)
    tokens = torch.randint(VOCABULARY, size, generator=generator)
    labels = torch.randint(VOCABULARY, size, generator=generator)
    return tokens, labels


def whole(value: Tensor) -> Tensor:
    """All of a tensor that may be cut, along one dimension of the mesh after the other.

    Every rank has to ask for it.
    """
    if not isinstance(value, DTensor):
        return value
    placements = list(value.placements)
    for dimension in range(len(placements)):
        placements[dimension] = Replicate()
        value = value.redistribute(placements=placements)
    return value.to_local()


def local(value: Tensor) -> Tensor:
    """What this rank has of a tensor that may be cut."""
    if isinstance(value, DTensor):
        return value.to_local()
    return value


def compare(
    model: nn.Module, expected: nn.Module, untrained: nn.Module | None = None
) -> tuple[float, int]:
    """How far apart two models' gradients are, and the numbers kept.

    Given the model before its training too, how far apart their weights are.
    """
    kept = sum(local(each).numel() for each in model.parameters())
    if untrained:
        weights = [whole(each.detach()) for each in model.parameters()]
        return apart(weights, list(expected.parameters()), list(untrained.parameters())), kept
    gradients = [whole(each.grad) for each in model.parameters()]
    goals = [each.grad for each in expected.parameters()]
    other_order = [goal.flip(0) for goal in goals]
    return apart(gradients, goals, other_order), kept


class Kept(torch.autograd.graph.saved_tensors_hooks):
    """Counts the bytes that autograd keeps for backward, without the parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.sizes: dict[int, int] = {}  # of each storage
        self.own = {self.storage(each).data_ptr() for each in model.parameters()}
        super().__init__(self.pack, lambda value: value)

    @staticmethod
    def storage(value: Tensor) -> torch.UntypedStorage:
        part = local(value).detach()
        return part.untyped_storage()

    def pack(self, value: Tensor) -> Tensor:
        storage = self.storage(value)
        if storage.data_ptr() not in self.own:
            self.sizes[storage.data_ptr()] = storage.nbytes()
        return value
