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
        query = self.query(x)
        key = self.key(y)
        value = self.value(y)
        query = self.split(query)
        key = self.split(key)
        value = self.split(value)
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        by_place = mixed.transpose(1, 2)
        joined = by_place.flatten(2)
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
            y = self.norm3(x)
            x = x + self.source(y, memory, mask)
        else:
            x = x + self.itself(y, y, mask)
        y = self.norm2(x)
        return x + self.network(y)


class Summarizer(nn.Module):
    """Source and target share their embedding with the output."""

    def __init__(self, width: int = 96, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(SOURCE, width)
        self.target_places = nn.Embedding(TARGET, width)
        encoder = [Block(width, heads, reads=False) for _ in range(layers)]
        decoder = [Block(width, heads, reads=True) for _ in range(layers)]
        self.encoder = nn.ModuleList(encoder)
        self.decoder = nn.ModuleList(decoder)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.06)

    @property
    def blocks(self) -> list[nn.Module]:
        return [*self.encoder, *self.decoder]

    def embed(self, words: Tensor, places: nn.Embedding) -> Tensor:
        """A vector for each word: what stands for the word, plus what stands for its place."""
        length = words.shape[1]
        numbers = torch.arange(length, device=words.device)
        vectors = self.words(words)
        return vectors + places(numbers)

    def forward(self, source: Tensor, target: Tensor, guess: bool = False) -> Tensor:
        """The mean loss of the next words; or, to `guess`, the likeliest next words."""
        is_word = source != PAD
        mask = is_word[:, None, None]  # for each head, and each place that looks
        x = self.embed(source, self.places)
        for block in self.encoder:
            x = block(x, None, mask)
        memory = self.norm1(x)
        given = target
        if not guess:
            given = target[:, :-1]  # nothing follows the last word
        y = self.embed(given, self.target_places)
        for block in self.decoder:
            y = block(y, memory, mask)
        y = self.norm2(y)
        scores = linear(y, self.words.weight)
        if guess:
            return scores.argmax(-1)
        rows = scores.flatten(0, 1)
        following = target[:, 1:]
        labels = following.flatten()
        return cross_entropy(rows, labels, ignore_index=PAD)
