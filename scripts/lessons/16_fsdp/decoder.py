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
            by_head = linear(x).unflatten(-1, (self.heads, -1))
            views.append(by_head.transpose(1, 2))
        mixed = scaled_dot_product_attention(*views, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(gelu(self.up(self.norm2(x))))


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
        hidden = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            if self.recompute:
                hidden = checkpoint(layer, hidden, use_reentrant=False)
            else:
                hidden = layer(hidden)
        scores = self.head(self.norm(hidden))
        return cross_entropy(scores.flatten(0, 1), y.flatten())
