"""Wrong glue between a user's model and `decode` is refused, or decoded rightly with a warning."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from molspec import decode
from tests import refused
from tests.drop_in import models
from tests.drop_in.models import BOS, EOS, PAD, OffsetTransformer, PlainTransformer, callables
from tests.search.plain import greedy

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": 12}
PAIR = [[BOS, 5, 6, 7, 8, 9, 4, EOS], [BOS, 9, EOS]]
INPUTS = {"two lengths": PAIR, "one source": PAIR[:1], "one length": [PAIR[0], PAIR[0][::-1]]}


def glue(model: PlainTransformer, **changes: Any) -> tuple[Callable[..., Any], ...]:
    """Functions over a right module, with a mistake."""
    source_mask = changes.get("source_mask", lambda ids: ids == PAD)
    memory_mask = changes.get("memory_mask", lambda padding: padding)
    seen = changes.get("memory", lambda ids, memory, padding: (memory, padding))
    shift = changes.get("shift", lambda ids: ids)

    def encode(ids: Tensor) -> Tensor:
        return model.encode_src(ids, source_mask(ids))

    def decode_rows(ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        return model.decode_tgt(shift(ids), *seen(ids, memory, memory_mask(padding)))

    return encode, decode_rows


def plain(**options: Any) -> PlainTransformer:
    return PlainTransformer(seed=14, **options).eval()


class TargetMaskInverted(PlainTransformer):
    def _attention_mask(self, tgt: Tensor, offset: Tensor) -> Tensor:
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        return (future | (tgt != PAD)[:, None]).repeat_interleave(2, dim=0)


class OffsetIgnored(OffsetTransformer):
    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        return super()._decode(tgt, memory, mask, torch.zeros_like(offset))


class LengthFirst(PlainTransformer):
    """The layers expect [length, batch, width], and get [batch, length, width]."""

    def encode_src(self, src: Tensor, src_pad_mask: Tensor) -> Tensor:
        return self.transformer.encoder(self.embedded(src).transpose(0, 1)).transpose(0, 1)


class Cached(PlainTransformer):
    """Its positions go on after those of the last call."""

    _begin = 0

    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        self._begin += 1
        return super()._decode(tgt, memory, mask, offset - self._begin)


def kept_by_shape() -> Callable[..., Any]:
    """Keeps a memory for all later ones of its shape."""
    kept: dict[object, tuple[Tensor, Tensor]] = {}
    return lambda ids, memory, padding: kept.setdefault(memory.shape, (memory, padding))


def of_the_first_token() -> Callable[..., Any]:
    """Keeps the memory of rows of one token for longer ones."""
    kept: list[Tensor] = []

    def seen(ids: Tensor, memory: Tensor, padding: Tensor) -> list[Tensor]:
        if ids.shape[1] == 1:
            kept[:] = memory[:1], padding[:1]
        return [each.expand(len(ids), *each.shape[1:]) for each in kept]

    return seen


def of_the_last_encode() -> tuple[Callable[..., Any], ...]:
    """Reads the memory that encode gave last, not the one that it is given."""
    encode, decode_rows = glue(plain())
    last: list[Tensor] = []

    def encoded(ids: Tensor) -> Tensor:
        last.append(encode(ids))
        return last[-1]

    def decoded(ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        rows = last[-1].expand(len(ids), -1, -1)
        return decode_rows(ids, rows, padding[:, :1].expand(rows.shape[:2]))

    return encoded, decoded


def encoded_by_shape() -> tuple[Callable[..., Any], ...]:
    """Encodes only the first source of a shape."""
    encode, decode_rows = glue(plain())
    kept: dict[object, Tensor] = {}
    return lambda ids: kept.setdefault(ids.shape, encode(ids)), decode_rows


class FutureOfEight(PlainTransformer):
    """Its table of later columns ends."""

    def _attention_mask(self, tgt: Tensor, offset: Tensor) -> Tensor:
        future = torch.zeros(tgt.shape[1], tgt.shape[1], dtype=torch.bool)
        future[:8, :8] = torch.ones(8, 8, dtype=torch.bool).triu(1)[: len(future), : len(future)]
        future[:8, 8:] = True
        return future


class Filled(nn.Module):
    """One layer of attention a side, whose masks are a number as finite as Hugging Face's."""

    def __init__(self, inverted: str) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.inverted = inverted
        self.embedding, self.output = nn.Embedding(15, 16), nn.Linear(16, 15)
        self.register_buffer("positions", torch.randn(40, 16))
        self.mix = nn.ModuleDict({side: nn.Linear(16, 16) for side in ("source", "memory")})
        models.randomise(self)

    def _attend(self, side: str, query: Tensor, keys: Tensor, hidden: Tensor) -> Tensor:
        if side == self.inverted:
            hidden = ~hidden
        scores = query @ self.mix[side](keys).transpose(1, 2)
        return query + scores.masked_fill(hidden[:, None], -1e9).softmax(dim=-1) @ keys

    def encode_src(self, src: Tensor, padding: Tensor) -> Tensor:
        embedded = self.embedding(src) + self.positions[: src.shape[1]]
        return self._attend("source", embedded, embedded, padding)

    def decode_tgt(self, tgt: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        seen = ((tgt == PAD) == (self.inverted == "target"))[:, :, None]
        begun = (seen * self.embedding(tgt) * self.positions[: tgt.shape[1]]).cumsum(dim=1)
        return self.output(self._attend("memory", begun, memory, padding))


class FromTheEnd(PlainTransformer):
    """Its positions count from the last column."""

    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        return super()._decode(tgt, memory, mask, offset - (40 - tgt.shape[1]))


def hidden_states() -> PlainTransformer:
    model = plain()
    model.next_token_classifier = nn.Identity()
    return model


INVERTED = "padding masks are True at padding"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a module in training mode": (lambda: callables(plain().train()), r"call .eval\(\) on the mod"),
    "a decoder in training mode": (
        lambda: (callables(plain())[0], callables(plain().train())[1]),
        r"^two calls of decode with the same input differ: call .eval\(\)",
    ),
    "the memory's mask inverted": (lambda: glue(plain(), memory_mask=torch.logical_not), INVERTED),
    "the source's mask inverted": (
        lambda: glue(plain(), source_mask=lambda ids: ids != PAD),
        INVERTED,
    ),
    "the source's mask inverted, without nested tensors": (
        lambda: glue(plain(norm_first=True), source_mask=lambda ids: ids != PAD),
        INVERTED,
    ),
    "the memory's mask inverted, with a finite number": (lambda: Filled("memory"), INVERTED),
    "the source's mask inverted, with a finite number": (lambda: Filled("source"), INVERTED),
    "the target's mask inverted, with a finite number": (lambda: Filled("target"), INVERTED),
    "a memory kept between calls": (
        lambda: glue(plain(), memory=kept_by_shape()),
        "keep nothing between calls",
    ),
    "the memory of the last encode": (of_the_last_encode, "nothing between calls"),
    "an encoder's result kept by its shape": (
        encoded_by_shape,
        "^encode gives two sources of one length one memory: keep nothing",
    ),
    "the memory of the first token": (
        lambda: glue(plain(), memory=of_the_first_token()),
        "nothing between calls",
    ),
    "later columns seen behind the eighth": (
        lambda: FutureOfEight(seed=14),
        "^the model's decoder is not causal",
    ),
    "a pair in the other order": (
        lambda: glue(plain())[::-1],
        r"^encode takes \(ids.*, memory.*expected \(source_ids\); a pair is \(encode, decode\)",
    ),
    "whole numbers": (
        lambda: plain(output=lambda logits, _: logits.long()),
        "^decode gave a tensor of torch.int64",
    ),
    "the target's mask inverted": (lambda: TargetMaskInverted(seed=14), INVERTED),
    "an ignored offset": (lambda: OffsetIgnored(seed=14), "with padding on the left of target_ids"),
    "length before batch": (lambda: LengthFirst(seed=14), "^encode sees padding or oth"),
    "targets shifted inside": (
        lambda: glue(plain(), shift=lambda ids: nn.functional.pad(ids[:, :-1], (1, 0), value=BOS)),
        "^decode gives the logits of another step",
    ),
    "hidden states": (hidden_states, "as wide as the embeddings"),
    "positions kept between calls": (lambda: Cached(seed=14), r"and keep nothing between calls"),
    "positions from the end": (lambda: FromTheEnd(seed=14), "positions from the left"),
    "rows that must be alone": (
        lambda: glue(plain(), shift=lambda ids: ids.reshape(1, -1)),
        "the model itself fails there",
    ),
}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("mistake", REFUSED)
def test_wrong_glue_is_refused(mistake: str, inputs: str) -> None:
    make, message = REFUSED[mistake]
    refused(message, decode, make(), INPUTS[inputs], **IDS)


def unmasked(ids: Tensor) -> Tensor:
    return torch.zeros(ids.shape, dtype=torch.bool)


@pytest.mark.parametrize("ignored", ["source", "memory", "both"])
@pytest.mark.parametrize("options", [{}, {"n_best": 3}], ids=str)
def test_masks_that_are_ignored_are_named_and_not_needed(
    ignored: str, options: dict[str, Any]
) -> None:
    model = plain().double()
    changes = {f"{name}_mask": unmasked for name in ("source", "memory") if ignored != name}
    if ignored != "both":
        changes = {f"{ignored}_mask": unmasked}
    functions = glue(model, **changes)
    with pytest.warns(
        UserWarning, match=r"ignores .*: molspec decodes one source at a time"
    ) as got:
        found = decode(functions, PAIR, **IDS, **options)
    (warned,) = (each for each in got if "molspec" in str(each.message))  # torch may warn too
    assert ("encode ignores" in str(warned.message)) == (ignored != "memory")
    assert ("decode ignores" in str(warned.message)) == (ignored != "source")
    assert warned.filename == __file__
    expected = decode(model, PAIR, **IDS, **options)
    assert torch.equal(found.sequences, expected.sequences)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode(functions, PAIR[:1], **IDS, **options)
        decode(functions, PAIR, batch_size=1, **IDS, **options)


def of_one_source(model: PlainTransformer) -> tuple[Callable[..., Any], ...]:
    """Functions whose encode fails for a batch."""

    def encode(ids: Tensor) -> Tensor:
        (source,) = ids
        return model.encode_src(source[None], ids == PAD)

    return encode, lambda ids, memory, padding: model.decode_tgt(ids, memory, padding)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_models_of_one_source_are_tested_too(part: str) -> None:
    model = plain()
    model.transformer.get_submodule(part).train()
    functions = of_one_source(model)
    refused(r"call .eval\(\) on the module", decode, functions, PAIR, **IDS, drafter="none")


def test_models_of_one_source_decode_one_at_a_time() -> None:
    model = plain()
    with pytest.warns(UserWarning, match="^the model fails for two sources of different lengths"):
        found = decode(of_one_source(model), PAIR, **IDS)
    assert torch.equal(found.sequences, decode(model, PAIR, **IDS).sequences)


def test_a_model_put_into_training_after_a_decode_is_tested_again() -> None:
    model = plain()
    functions = glue(model)
    expected = decode(functions, PAIR, **IDS)
    model.train()
    refused(r"call .eval\(\) on the module", decode, functions, PAIR, **IDS)
    model.eval()
    assert torch.equal(decode(functions, PAIR, **IDS).sequences, expected.sequences)


class Annotated(nn.Module):
    """The interface of the Annotated Transformer: masks are True where attention may look."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        return self.inner.encode_src(src, ~src_mask[:, 0])

    def decode(self, memory: Tensor, src_mask: Tensor, tgt: Tensor, tgt_mask: Tensor) -> Tensor:
        inner, rows = self.inner, (~tgt_mask).expand(len(tgt), -1, -1).repeat_interleave(2, dim=0)
        hidden = inner.tgt_token_featurizer(tgt) + inner.positions[: tgt.shape[1]]
        return inner.transformer.decoder(
            hidden, memory, tgt_mask=rows, memory_key_padding_mask=~src_mask[:, 0]
        )

    def generator(self, hidden: Tensor) -> Tensor:
        return self.inner.next_token_classifier(hidden).log_softmax(dim=-1)


def annotated() -> tuple[Callable[..., Any], ...]:
    model = Annotated()

    def encode(ids: Tensor) -> Tensor:
        return model.encode(ids, (ids != PAD)[:, None])

    def decode_rows(ids: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        subsequent = torch.ones(1, ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        return model.generator(model.decode(memory, ~padding[:, None], ids, subsequent))

    return encode, decode_rows


class Recurrent(nn.Module):
    """Packs its sources, so that padding changes nothing; its decoder reads their mean."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.output = nn.Embedding(15, 16), nn.Linear(16, 15)
        self.encoder = nn.GRU(16, 8, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(32, 16, batch_first=True)
        models.randomise(self)

    def encode_src(self, src: Tensor, padding: Tensor) -> Tensor:
        lengths = (~padding).sum(dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(src), lengths, batch_first=True, enforce_sorted=False
        )
        return nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)[0]

    def decode_tgt(self, tgt: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        seen = (~padding)[:, :, None]
        mean = (memory * seen).sum(dim=1, keepdim=True) / seen.sum(dim=1, keepdim=True)
        inputs = torch.cat((self.embedding(tgt), mean.expand(-1, tgt.shape[1], -1)), dim=2)
        return self.output(self.decoder(inputs)[0])


class Unigram(nn.Module):
    """Reads neither its source nor its targets."""

    def encode_src(self, src: Tensor, padding: Tensor) -> Tensor:
        return src[:, :, None].float()

    def decode_tgt(self, tgt: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        return torch.arange(15.0).expand(*tgt.shape, 15)


RIGHT: dict[str, Callable[[], Any]] = {
    "module": plain,
    "pre-norm": lambda: plain(norm_first=True),
    "offsets": lambda: OffsetTransformer(seed=14),
    "functions with offsets": lambda: callables(plain()),
    "Annotated Transformer": annotated,
    "recurrent": Recurrent,
    "masks of a finite number": lambda: Filled("none"),
    "neither reads": Unigram,
    "a wrapper's model": lambda: models.wrapping(plain().train()),
    "a parallel wrapper's model": lambda: nn.DataParallel(plain()),
    "bfloat16": lambda: plain().bfloat16(),
    "float16": lambda: plain().half(),
    "int8": lambda: torch.ao.quantization.quantize_dynamic(Recurrent()),
}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_right_models_are_not_refused(kind: str, inputs: str) -> None:
    """A warning would fail this too."""
    decode(RIGHT[kind](), INPUTS[inputs], **IDS)


@pytest.mark.parametrize("drafter", ["tree", "none"])
def test_masks_may_be_changed_in_place(drafter: str) -> None:
    model = plain()
    turned = glue(model, memory_mask=lambda padding: ~padding.logical_not_())
    for n_best in (1, 3):
        options = {**IDS, "drafter": drafter, "n_best": n_best}
        found, expected = (decode(each, PAIR, **options) for each in (turned, model))
        assert torch.equal(found.log_probs, expected.log_probs)


def test_annotated_functions_give_the_answers_of_their_own_loop() -> None:
    encode, decode_rows = annotated()
    found = decode((encode, decode_rows), PAIR, **IDS)
    for source, row, log_prob in zip(PAIR, found.sequences, found.log_probs, strict=True):
        expected = greedy(models.module_steps(encode, decode_rows, source), 12)
        assert row[0, : len(expected.token_ids)].tolist() == [*expected.token_ids]
        assert math.isclose(float(log_prob[0]), expected.log_prob, abs_tol=1e-4)


def test_a_refused_class_comes_with_its_glue() -> None:
    with pytest.raises(ValueError, match="model is a Annotated") as refused:
        decode(Annotated(), PAIR, **IDS)
    assert "encode = lambda ids: model.encode(src, src_mask)" in str(refused.value)
    assert "model.decode(memory, src_mask, tgt, tgt_mask)" in str(refused.value)
    with pytest.raises(
        ValueError, match=r"model\.encoder\(src, mask, .*\).*\n.*model\.decoder\(tgt"
    ):
        decode(nn.Transformer(16, 2, 1, 1, 16, batch_first=True), PAIR, **IDS)
