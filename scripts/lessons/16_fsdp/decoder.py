"""A small GPT, which returns its loss: embeddings, layers that are all alike, and a head.

A layer has 12 d² + 4 d numbers, for a width of d.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

WORDS = 128  # in the vocabulary


class Layer(nn.Module):
    """Attention to earlier places, then a network for each place."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def attend(self, x: Tensor) -> Tensor:
        """x and the result: (batch, length, width)."""
        views = []
        for linear in (self.query, self.key, self.value):
            projected = linear(x)
            by_head = projected.unflatten(-1, (self.heads, -1))
            views.append(by_head.transpose(1, 2))
        mixed = scaled_dot_product_attention(*views, is_causal=True)
        by_place = mixed.transpose(1, 2)
        joined = by_place.flatten(2)
        return self.out(joined)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        hidden = self.norm2(x)
        hidden = self.up(hidden)
        hidden = gelu(hidden)
        hidden = self.down(hidden)
        return x + hidden


class Decoder(nn.Module):
    """Which word comes next? `forward` returns the mean loss.

    With `recompute`, a layer keeps only its input, and backward computes the rest again.
    """

    def __init__(self, width: int, layers: int, length: int, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, WORDS, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x: words, y: the next words, both (batch, length)."""
        length = x.shape[1]
        numbers = torch.arange(length, device=x.device)
        hidden = self.words(x) + self.places(numbers)
        for layer in self.layers:
            if self.recompute:
                hidden = checkpoint(layer, hidden, use_reentrant=False)
            else:
                hidden = layer(hidden)
        scores = self.head(self.norm(hidden))
        rows = scores.flatten(0, 1)
        return cross_entropy(rows, y.flatten())
