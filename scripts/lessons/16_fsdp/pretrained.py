"""A T5 from Hugging Face in place of our own encoder–decoder, for `summary.py --model t5-small`.

Needs the package transformers and, for the download, the internet. torch 2.15 warns that a block
returns a view; that does no harm here, since nobody changes what a block returned in place.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

SOURCE, TARGET = 64, 16  # pieces of words


class Pretrained(nn.Module):
    """A T5 that is called as our own model is: see `Summarizer`."""

    def __init__(self, t5: nn.Module) -> None:
        super().__init__()
        self.t5 = t5

    @property
    def blocks(self) -> list[nn.Module]:
        return [*self.t5.encoder.block, *self.t5.decoder.block]

    def forward(self, source: Tensor, target: Tensor, guess: bool = False) -> Tensor:
        pad = self.t5.config.pad_token_id
        is_word = source != pad
        given = target if guess else target[:, :-1]
        outputs = self.t5(
            input_ids=source,
            attention_mask=is_word.long(),
            decoder_input_ids=given,
            use_cache=False,
        )
        scores = outputs.logits
        if guess:
            return scores.argmax(-1)
        following = target[:, 1:].flatten()
        return cross_entropy(scores.flatten(0, 1), following, ignore_index=pad)


def numbered(texts: list[str], tokenizer, length: int) -> Tensor:
    """Rows of numbers, filled up or cut; the last number is that of the end."""
    options = {"padding": "max_length", "truncation": True, "max_length": length}
    tokens = tokenizer(texts, return_tensors="pt", **options)
    return tokens.input_ids


def tokenize(data: dict, tokenizer, config) -> dict:
    """The same pairs, in this tokenizer's numbers; T5 begins a target with a number of its own."""
    begin = config.decoder_start_token_id
    prompts = [f"summarize: {source}" for source, _ in data["texts"]]
    lines = [line for _, line in data["texts"]]
    target = numbered(lines, tokenizer, TARGET - 1)
    first = torch.full((len(target), 1), begin)
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    unused = config.vocab_size - len(pieces)  # t5-small has 28 rows that stand for nothing
    return {
        "source": numbered(prompts, tokenizer, SOURCE),
        "target": torch.cat([first, target], dim=1),
        "vocabulary": pieces + ["<unused>"] * unused,
        "pad": config.pad_token_id,
        "begin": begin,
        "end": tokenizer.eos_token_id,
        "special": tokenizer.all_special_ids,
    }


def load(name: str, data: dict) -> tuple[Pretrained, dict]:
    """The model and its data, from the hub or from a folder."""
    try:
        from transformers import AutoTokenizer, T5ForConditionalGeneration
    except ImportError as error:
        raise RuntimeError(
            "--model needs the package transformers: pip install transformers"
        ) from error
    t5 = T5ForConditionalGeneration.from_pretrained(name)  # in eval mode, so without dropout
    tokenizer = AutoTokenizer.from_pretrained(name)
    return Pretrained(t5), tokenize(data, tokenizer, t5.config)
