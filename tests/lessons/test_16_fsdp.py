"""Lesson 16 where its notebook does not look.

Whether the forecast agrees with PyTorch's trackers, for models that are not the lesson's, too, and
for more ranks; FSDP by hand on three ranks, whose parts do not come out even.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from ranks import PROGRAMS, launch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.testing._internal.distributed.fake_pg import FakeStore

import corpus
import summary
from alive import Stage
from course import rooms
from decoder import WORDS, Decoder
from encdec import Summarizer
from fit import Watched, count, forecast, verdict, watch, whole
from model import Residual, ResNet
from tracker import tracked

ROOT = Path(__file__).resolve().parents[2]
SHAPES = [(128, 3, 4, 64), (64, 4, 6, 64), (128, 4, 1, 32)]  # width, layers, batch, length
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """These models are small: threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@contextmanager
def group(way: str, ranks: int) -> Iterator[None]:
    """A process group in which this process is rank 0, and the others do not exist.

    Its collectives send nothing: bytes are right, and numbers are not. DDP does not accept that, so
    it gets a group of one; what it keeps does not depend on the number of ranks.
    """
    if way == "fsdp":
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def peak(
    model: nn.Module,
    units: list[nn.Module],
    way: str,
    loss_of: Callable,
    batch: tuple,
    ranks: int = 2,
    policy: MixedPrecisionPolicy | None = None,
) -> int:
    """What PyTorch's tracker says of a step."""
    with group(way, ranks):
        if way == "fsdp":
            precision = {"mp_policy": policy} if policy else {}
            for unit in units:
                fully_shard(unit, **precision)
            fully_shard(model, **precision)
        else:
            model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer = AdamW(model.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            loss_of(model, *batch).backward()
            optimizer.step()
            optimizer.zero_grad()

        step()  # now Adam has its averages
        return tracked(model, optimizer, step, CPU)["Total"]


def loss_of_decoder(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return model(x, y)


def loss_in_amp(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return model(x, y)


def decoder_batch(count: int, length: int) -> tuple[Tensor, Tensor]:
    words = torch.randint(WORDS, (count, length))
    return words, words


def look(
    model: Decoder, length: int, units: list[nn.Module], loss_of: Callable = loss_of_decoder
) -> Watched:
    one = decoder_batch(1, length)
    two = decoder_batch(2, length)
    return watch(model, units, loss_of, one, two)


CASES = {  # the way, whether it recomputes, whether its layers are units, its loss
    "ddp": ("ddp", False, True, loss_of_decoder),
    "ddp, AMP": ("ddp", False, True, loss_in_amp),
    "ddp, checkpoints": ("ddp", True, True, loss_of_decoder),
    "fsdp": ("fsdp", False, True, loss_of_decoder),
    "fsdp, checkpoints": ("fsdp", True, True, loss_of_decoder),
    "fsdp, root only": ("fsdp", False, False, loss_of_decoder),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_forecast_is_at_most_8_percent_from_the_tracker(shape, case) -> None:
    way, recompute, by_layer, loss_of = CASES[case]
    width, layers, batch, length = shape
    model = Decoder(width, layers, length, recompute)
    units = list(model.layers) if by_layer else []
    predicted = forecast(look(model, length, units, loss_of), way, 2, batch)["total"]
    found = peak(model, units, way, loss_of, decoder_batch(batch, length))
    assert predicted == pytest.approx(found, rel=0.08)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_so_is_that_of_fsdp_in_16_bits(shape, recompute) -> None:
    """The model that is watched computes in 16 bits, as in the lesson; its optimizer has 32."""
    width, layers, batch, length = shape
    torch.set_default_dtype(torch.bfloat16)
    try:
        short = Decoder(width, layers, length, recompute)
        watched = look(short, length, list(short.layers))
    finally:
        torch.set_default_dtype(torch.float32)
    model = Decoder(width, layers, length, recompute)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    batch = decoder_batch(batch, length)
    found = peak(model, list(model.layers), "fsdp", loss_of_decoder, batch, policy=policy)
    predicted = forecast(watched, "fsdp", 2, len(batch[0]))["total"]
    assert predicted == pytest.approx(found, rel=0.08)


def test_with_ddp_and_zero_1_it_is_what_the_allocator_gives_out(tmp_path) -> None:
    """The tracker is up to a tenth too low there, once DDP has ordered its buckets."""
    names = {"DDP": "ddp", "ZeRO-1": "zero1"}
    shapes = {",".join(map(str, shape)): shape for shape in SHAPES}
    ended = launch(tmp_path, 2, str(PROGRAMS / "allocated_peaks.py"), *shapes)
    for report in ended.reports("allocated_peaks", 2):
        for shape, (width, layers, batch, length) in shapes.items():
            watched = look(Decoder(width, layers, length), length, [])
            for way, found in report["peaks"][shape].items():
                predicted = forecast(watched, names[way], 2, batch)["total"]
                assert predicted == pytest.approx(found, rel=0.03)


def test_amp_halves_activations_and_copies_matrices() -> None:
    model = Decoder(256, 4, 64)
    plain = look(model, 64, [])
    amp = look(model, 64, [], loss_in_amp)
    begin = Stage("backward", -1)  # all activations are there
    assert 0.5 < amp.each[begin] / plain.each[begin] < 0.75
    matrices = sum(each.numel() for each in model.parameters() if each.dim() > 1)
    embedded = model.words.weight.numel() + model.places.weight.numel()
    copies = amp.fixed[begin] - plain.fixed[begin]
    assert copies == pytest.approx(2 * (matrices - embedded), rel=0.02)


def test_on_eight_ranks_too() -> None:
    model = Decoder(128, 4, 64)
    units = list(model.layers)
    predicted = forecast(look(model, 64, units), "fsdp", 8, 4)["total"]
    found = peak(model, units, "fsdp", loss_of_decoder, decoder_batch(4, 64), ranks=8)
    assert predicted == pytest.approx(found, rel=0.08)


class Encoder(nn.Module):
    """PyTorch's own transformer, on vectors, with a mean at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(96, 4, 256, dropout=0.1, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(96, 10)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def classify(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(x), y)


def foreign(name: str, examples: int) -> tuple[nn.Module, list[nn.Module], tuple[Tensor, Tensor]]:
    """A model that is not the lesson's, its units, and a batch."""
    labels = torch.randint(10, (examples,))
    if name == "transformer":
        model = Encoder()
        return model, list(model.layers), (torch.randn(examples, 40, 96), labels)
    model = ResNet()
    units = [module for module in model.modules() if isinstance(module, Residual)]
    return model, units, (torch.randn(examples, 3, 32, 32), labels)


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")  # about views; see the lesson's notes
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", ["transformer", "cnn"])
def test_models_of_others_too(name, way) -> None:
    model, units, two = foreign(name, 2)
    four = foreign(name, 4)[2]
    predicted = forecast(watch(model, units, classify, two, four), way, 2, 8)["total"]
    found = peak(model, units, way, classify, foreign(name, 8)[2])
    assert units
    assert predicted == pytest.approx(found, rel=0.08)


def test_what_is_whole_for_a_moment_by_hand() -> None:
    watched = Watched(numbers=1000, units=[300, 300, 300], size=4, fixed={}, each={})
    sizes = {
        Stage("forward", 0): (100 + 300 + 300, 0),  # the root, this layer, the next one
        Stage("forward", 2): (100 + 300, 0),
        Stage("backward", -1): (100 + 300, 100),  # the last layer; the root's gradients
        Stage("backward", 1): (100 + 300 + 300, 100 + 150 + 300),  # half of layer 2, and it is sent
        Stage("end", 1): (100 + 300 + 300, 100 + 150 + 300 + 300),  # this layer's, twice
        Stage("end", 0): (100 + 300, 100 + 300 + 300 + 300),
    }
    for stage, (gathered, gradients) in sizes.items():
        held = whole(watched, 2, stage)
        assert held["gathered"] == 4 * gathered
        assert held.get("gradients", 0) == 4 * gradients


def test_the_reserve_decides_between_fits_and_tight() -> None:
    assert [verdict(total, 100) for total in (85, 86, 100, 101)] == ["fits", "tight", "tight", "no"]


def test_watching_leaves_the_model_as_it_was() -> None:
    model = Decoder(32, 2, 16)
    watched = look(model, 16, list(model.layers))
    assert all(each.grad is None for each in model.parameters())
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.layers)
    assert count(model) == watched.numbers


def test_three_ranks_whose_parts_are_padded(tmp_path) -> None:
    for report in launch(tmp_path, 3, str(rooms.program("versus"))).reports("versus", 3):
        runs = report["runs"]
        assert max(run["difference"] for run in runs.values()) <= 1e-12
        assert runs["by hand"]["kept"] == -(-runs["DDP"]["kept"] // 3) + 2


def test_hsdp_on_one_row_of_two_is_fsdp(tmp_path) -> None:
    """No copies, so nothing goes between rows."""
    for report in launch(tmp_path, 2, str(rooms.program("hsdp"))).reports("hsdp", 2):
        names = {name for name, _, ranks in report["calls"] if len(ranks) > 1}
        assert names == {"all_gather", "reduce_scatter"}
        assert report["gap"] <= 1e-12
        assert 2 * report["kept"] == report["numbers"]


def test_four_ranks_go_on_where_two_have_saved(tmp_path) -> None:
    reports = launch(tmp_path, 4, str(rooms.program("elsewhere"))).reports("elsewhere", 4)
    assert set(reports[0]["gaps"]) == {"1", "4"}
    assert max(reports[0]["gaps"].values()) <= 1e-12
    assert [report["shapes"]["4"] for report in reports] == [[32, 64]] * 4


def kept() -> dict[int, tuple[float, float]]:
    """The curve of 340 steps that the notebook shows."""
    lesson = (ROOT / "notebooks" / "src" / "16_fsdp.md").read_text()
    _, _, rest = lesson.partition("KEPT = ")
    return ast.literal_eval(rest.partition("```")[0])


def test_the_kept_run_reads_its_source() -> None:
    own, other = kept()[340]
    assert other - own > 0.6
    assert kept()[80][1] - kept()[80][0] < 0.1  # not yet
    assert kept()[0][0] > 7


def test_another_source_is_another_source() -> None:
    source = torch.arange(6).view(3, 2)
    other = summary.of_others(source)
    assert sorted(other.tolist()) == source.tolist()
    differ = lambda given, true: (given != true).float().mean()  # noqa: E731
    assert summary.validate(differ, source, other, source) == {"own": 0, "other": 1}


def test_three_ranks_validate_as_one_process_does(tmp_path) -> None:
    """Their shares of the 512 pairs are not equal, and one rank's targets are longer."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, corpus.VOCABULARY, (600, corpus.SOURCE), generator=generator)
    target = torch.full((600, corpus.TARGET), corpus.PAD)
    target[:, 0] = corpus.BEGIN
    target[:, 1:3] = 7
    target[::3, 1:] = 8  # rank 0's: 11 words instead of 2, and others
    data = {"source": source, "target": target, "pad": corpus.PAD}
    data |= {"begin": corpus.BEGIN, "end": corpus.END, "special": [0, 1, 2, 3]}
    data["vocabulary"] = [str(number) for number in range(corpus.VOCABULARY)]
    torch.save(data, tmp_path / "docs.pt")
    ended = launch(tmp_path, 3, str(rooms.program("summary")), "--steps", "0")
    torch.manual_seed(0)
    model = Summarizer()
    source = source[: corpus.HELD_OUT]
    target = target[: corpus.HELD_OUT]
    expected = summary.validate(model, source, source.roll(1, 0), target)
    for report in ended.reports("summary", 3):
        assert report["curve"]["0"] == pytest.approx(expected, rel=1e-5)


def test_words_are_compared_without_their_order() -> None:
    data = {"begin": 1, "end": 2, "special": [0, 1, 2, 3]}
    assert summary.text(torch.tensor([1, 7, 8, 3, 9, 2, 5]), data) == [7, 8, 9]
    assert summary.f1([7, 8, 9], [9, 7]) == 0.8
    assert summary.f1([7], [8]) == 0


def tiny_t5(folder: Path) -> None:
    """A T5 with a few numbers, and a tokenizer that knows a few words."""
    why = "not passed, but not tried: the T5 of Hugging Face needs the package transformers"
    transformers = pytest.importorskip("transformers", reason=why)
    tokenizers = pytest.importorskip("tokenizers", reason=why)
    words = ["<pad>", "</s>", "<unk>", "return", "the", "summarize", "list", ":"]
    numbers = {word: number for number, word in enumerate(words)}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<unk>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    plain.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **special)
    tokenizer.save_pretrained(folder)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(  # a T5 has more rows than its tokenizer has pieces
        vocab_size=len(words) + 8, decoder_start_token_id=0, dropout_rate=0.0, **sizes
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)


def test_a_t5_of_hugging_face_takes_the_same_loop(tmp_path) -> None:
    tiny_t5(tmp_path / "tiny")
    rows = 2 * corpus.HELD_OUT
    texts = [("return the list the list", "the list")] * rows
    torch.save({"texts": texts}, tmp_path / "docs.pt")
    options = ["--steps", "6", "--every", "3", "--model", "tiny"]
    report = launch(tmp_path, 2, str(rooms.program("summary")), *options).reports("summary", 2)[0]
    assert report["curve"]["6"]["own"] < report["curve"]["0"]["own"]


@pytest.mark.thorough
def test_340_steps_on_docstrings_come_to_the_same(tmp_path) -> None:
    """Docstrings differ between versions of Python and torch, so only nearly."""
    corpus.write(str(tmp_path / "docs.pt"))
    ended = launch(tmp_path, 2, str(rooms.program("summary")), "--steps", "340", seconds=900)
    report = ended.reports("summary", 2)[0]
    for step, pair in kept().items():
        losses = report["curve"][str(step)]
        assert (losses["own"], losses["other"]) == pytest.approx(pair, abs=0.25)
    last = report["curve"]["340"]
    assert last["other"] - last["own"] > 0.6
    assert report["scores"]["model"] < report["scores"]["first words of the source"]
