"""A small encoder–decoder, built like T5: it reads a text, and writes another one word by word."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention

from corpus import PAD, SOURCE, TARGET, VOCABULARY


class Attention(nn.Module):
    """Looks from each place of x to the places of y."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, width) → (batch, head, length, width of a head)."""
        by_head = x.unflatten(-1, (self.heads, -1))
        return by_head.transpose(1, 2)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None, causal: bool = False):
        query = self.split(self.query(x))
        key = self.split(self.key(y))
        value = self.split(self.value(y))
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        joined = mixed.transpose(1, 2).flatten(2)
        return self.out(joined)


class Block(nn.Module):
    """A layer of the encoder, or, if it `reads` what the encoder wrote, one of the decoder."""

    def __init__(self, width: int, heads: int, reads: bool) -> None:
        super().__init__()
        self.reads = reads
        self.itself = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        up = nn.Linear(width, 4 * width)
        down = nn.Linear(4 * width, width)
        self.network = nn.Sequential(up, nn.GELU(), down)
        if reads:
            self.source = Attention(width, heads)
            self.norm3 = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor) -> Tensor:
        """`mask` says which places of the source hold words."""
        y = self.norm1(x)
        if self.reads:
            x = x + self.itself(y, y, causal=True)
            x = x + self.source(self.norm3(x), memory, mask)
        else:
            x = x + self.itself(y, y, mask)
        return x + self.network(self.norm2(x))


class Summarizer(nn.Module):
    """Source and target share their embedding with the output."""

    def __init__(self, width: int = 96, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(SOURCE, width)
        self.target_places = nn.Embedding(TARGET, width)
        self.encoder = nn.ModuleList(Block(width, heads, reads=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, reads=True) for _ in range(layers))
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.06)

    @property
    def blocks(self) -> list[nn.Module]:
        return [*self.encoder, *self.decoder]

    def forward(self, source: Tensor, target: Tensor, guess: bool = False) -> Tensor:
        """The mean loss of the next words; or, to `guess`, the likeliest next words."""
        is_word = source != PAD
        mask = is_word[:, None, None]  # for each head, and each place that looks
        numbers = torch.arange(source.shape[1], device=source.device)
        x = self.words(source) + self.places(numbers)
        for block in self.encoder:
            x = block(x, None, mask)
        memory = self.norm1(x)
        given = target if guess else target[:, :-1]
        numbers = torch.arange(given.shape[1], device=source.device)
        y = self.words(given) + self.target_places(numbers)
        for block in self.decoder:
            y = block(y, memory, mask)
        scores = linear(self.norm2(y), self.words.weight)
        if guess:
            return scores.argmax(-1)
        following = target[:, 1:].flatten()
        return cross_entropy(scores.flatten(0, 1), following, ignore_index=PAD)
