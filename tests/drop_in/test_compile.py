"""`molspec.compile`: its engine answers as the module does, or an error says why not."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from molspec import compile, decode, load  # noqa: A004
from molspec.engine.cpu.engine import NativeEngine
from molspec.model.transformer import Transformer
from molspec.prediction.model import Model
from molspec.text import Vocabulary
from tests import refused
from tests.drop_in import models
from tests.drop_in.models import BOS, EOS, PAD, NotCausal, OffsetTransformer, PlainTransformer
from tests.engine.models import random_weights, spec_of

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
SOURCES = [[BOS, 5, 6, 7, EOS], [BOS, 9, EOS], [BOS, 3, 8, 8, 4, 12, 11, 10, EOS]]


class WindowedTransformer(PlainTransformer):
    """Its decoder sees the last tokens only."""

    def _attention_mask(self, tgt: Tensor, offset: Tensor) -> Tensor:
        columns = torch.arange(tgt.shape[1])
        far = columns[:, None] - columns >= 16
        return super()._attention_mask(tgt, offset) | far


def check(module: nn.Module, **options: Any) -> NativeEngine:
    """Checks greedy and beam answers against the module's, and that the module is unchanged."""
    before = copy.deepcopy(module.state_dict())
    engine = compile(module, **options)
    models.check_answers(engine, module, SOURCES, 1, 3, max_length=12, **IDS)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    return engine


@pytest.mark.parametrize("convention", ["post-norm", "embedding norm", "tied output"])
def test_compile_reads_the_training_twin(convention: str) -> None:
    spec = spec_of(convention)
    twin = Transformer(spec)
    twin.load_state_dict(random_weights(spec))
    assert check(twin).spec == spec


def test_compile_with_a_vocabulary_gives_a_smiles_model() -> None:
    module = PlainTransformer(seed=14)
    model = compile(module, models.VOCABULARY)
    assert isinstance(model, Model)
    assert torch.equal(
        decode(model, SOURCES, max_length=9, **IDS).sequences,
        decode(model.engine, SOURCES, max_length=9, **IDS).sequences,
    )
    source = [BOS, *model.vocabulary.encode("CC(=O)N"), EOS]
    expected = decode(module, [source], max_length=9, **IDS)
    answer = model.predict(["CC(=O)N"], max_length=9)[0].predictions[0]
    assert answer.smiles == model.vocabulary.decode(expected.sequences[0, 0].tolist())


def test_a_compiled_model_is_saved_and_loaded(tmp_path: Path) -> None:
    model = compile(PlainTransformer(seed=14), models.VOCABULARY, source_bos=False)
    model.save(tmp_path / "saved")
    saved = load(tmp_path / "saved")
    assert saved.identity == model.identity
    assert saved.spec == model.spec
    answers = [each.predict(["CC(=O)N"], max_length=9)[0].predictions for each in (model, saved)]
    assert answers[0] == answers[1]
    for other in (saved, copy.deepcopy(model)):
        refused(r"^save: expected a model of molspec\.compile", other.save, tmp_path / "again")


def test_options_set_bos_and_eos_of_sources() -> None:
    module = PlainTransformer(seed=14)
    ids = models.VOCABULARY.encode("CCO")
    assert compile(module, models.VOCABULARY).reader.source("CCO").encoder_ids == [BOS, *ids, EOS]
    options = {"source_bos": False, "source_eos": False, "target_bos": True}
    unwrapped = compile(module, models.VOCABULARY, **options)
    assert unwrapped.reader.source("CCO").encoder_ids == ids
    assert unwrapped.spec.target_bos
    assert not compile(module, source_bos=False).spec.source_bos
    wrong: Any = "no"
    refused("source_eos is 'no'", compile, module, source_eos=wrong)


def test_decoder_start_is_read_from_hugging_face_models() -> None:
    hugging_face = pytest.importorskip("tests.drop_in.hugging_face_models")
    module = hugging_face.bart(decoder_start_token_id=0).float()
    module.generation_config.min_length = 5
    vocabulary = Vocabulary(tuple(f"[{index}C]" for index in range(20)), 1, 19, 2)
    with pytest.warns(UserWarning, match=r"sets min_length: molspec.compile ranks by the") as seen:
        model = compile(module, vocabulary)
    assert seen[0].filename == __file__
    assert model.spec.decoder_start(vocabulary.bos_id) == 0


class Shifted(PlainTransformer):
    """Adds a constant to the output of the encoder's layers."""

    def encode_src(self, src: Tensor, src_pad_mask: Tensor) -> Tensor:
        return super().encode_src(src, src_pad_mask) + 0.01


class Separated(PlainTransformer):
    """Adds a vector to the tokens behind a separator."""

    def embedded(self, src: Tensor) -> Tensor:
        return super().embedded(src) + (src == 4).cumsum(dim=1).clamp(max=1)[:, :, None]


class Padding(PlainTransformer):
    """Its own padding is token 3; it takes no position in sources and targets."""

    def encode_src(self, src: Tensor, src_pad_mask: Tensor) -> Tensor:
        places = (src != 3).cumsum(dim=1) - 1
        hidden = self.src_token_featurizer(src) + self.positions[places.clamp(min=0)]
        lengths = (src != 3).sum(dim=1)  # of no row if padding stands in the longest, as OpenNMT
        padding = torch.arange(int(lengths.max())) >= lengths[:, None]
        return self.transformer.encoder(hidden, src_key_padding_mask=padding)

    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        hidden = self.tgt_token_featurizer(tgt)
        hidden = hidden + self.positions[((tgt != 3).cumsum(dim=1) - 1).clamp(min=0)]
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer.decoder(
            hidden,
            memory,
            tgt_mask=future,
            tgt_key_padding_mask=tgt == 3,
            memory_key_padding_mask=mask,
        )
        return self.next_token_classifier(hidden)


class CrossFirst(PlainTransformer):
    """Its decoder's layers see the memory before the target."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for layer in self.transformer.decoder.layers:
            layer.self_attn, layer.multihead_attn = layer.multihead_attn, layer.self_attn
            own, across = layer._sa_block, layer._mha_block
            layer._sa_block = lambda x, *_, of=across, **__: of(x, self._memory, None, None)
            layer._mha_block = lambda x, _, *__, of=own, **___: of(x, self._future, None)

    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        self._memory, self._future = memory, future
        return super()._decode(tgt, memory, mask, offset)


class Multiplied(PlainTransformer):
    """Its positions multiply the tokens."""

    def embedded(self, src: Tensor) -> Tensor:
        return self.src_token_featurizer(src) * self.positions[: src.shape[1]]


def mixed_norms() -> nn.Module:
    module = PlainTransformer()
    module.transformer.decoder.layers[1].norm_first = True
    return module


#: The id of each logit.
COLUMNS = torch.arange(15)

UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "a scripted module": (lambda: torch.jit.script(nn.Linear(2, 2)), "^module is scripted"),
    "no transformer": (lambda: nn.Linear(2, 2), "model is a Linear"),
    "functions": (lambda: (len, len), "module is a tuple"),
    "another output": (
        lambda: PlainTransformer(output=lambda logits, _: logits.tanh()),
        "the logits are not a linear layer over the decoder's output; the nea",
    ),
    "something more": (
        Shifted,
        "the encoder's result is not as in a post-norm model of layer norms, as 13 of 14 are; ",
    ),
    "a window": (WindowedTransformer, r"logits differ by .* from those of the layers found in it"),
    "a forbidden token": (
        lambda: PlainTransformer(
            output=lambda logits, _: logits.masked_fill(COLUMNS == BOS, -torch.inf)
        ),
        "^the decoder gives NaN or infinity",
    ),
    "probabilities": (lambda: PlainTransformer(output=models.softmax), "gives probabilities"),
    "a decoder that is not causal": (NotCausal, "not causal"),
    "a separator": (Separated, "^the encoder reads tokens differently beside the ids 4: it does"),
    "a grammar": (
        lambda: PlainTransformer(
            output=lambda logits, tgt: logits - 9 * ((tgt == 3)[..., None] & (COLUMNS == 5))
        ),
        "^the decoder reads tokens differently beside the ids 3: it does something else",
    ),
    "the memory first": (CrossFirst, "^the module's layers are not those of the engine: "),
    "another input": (
        Multiplied,
        "input of the encoder's layers is not the sum of a row a token and a",
    ),
    "layers differ": (
        mixed_norms,
        r"decoder\.layers\.1\.self_attention_norm is not as in a post-norm model of layer norms",
    ),
    "activation": (
        lambda: PlainTransformer(activation=nn.functional.tanh),
        r"activation of encoder\.layers\.0\.feed_forward is not relu, gelu, gelu_tanh or silu; the",
    ),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_errors_name_unsupported_modules(kind: str) -> None:
    make, message = UNSUPPORTED[kind]
    refused(message, compile, make())


def test_a_module_may_have_padding_of_its_own() -> None:
    module = Padding(seed=14)
    with torch.no_grad():
        module.next_token_classifier.bias[3] = -100.0
    given = {"encode": lambda ids: module.encode_src(ids, ids == 3), "decode": module.decode_tgt}
    engine = compile(module, max_positions=64, **given)
    found, expected = (
        decode(each, SOURCES[:2], pad_id=3, bos_id=1, eos_id=2, max_length=9, batch_size=1)
        for each in (engine, (given["encode"], given["decode"]))
    )
    assert torch.allclose(found.log_probs, expected.log_probs, atol=1e-4)


class FloatMasked(PlainTransformer):
    """Its masks are numbers of float32, also where the module holds another type."""

    def encode_src(self, src: Tensor, src_pad_mask: Tensor) -> Tensor:
        return super().encode_src(src, self._in_numbers(src_pad_mask))

    def _decode(self, tgt: Tensor, memory: Tensor, mask: Tensor, offset: Tensor) -> Tensor:
        return super()._decode(tgt, memory, self._in_numbers(mask), offset)

    def _attention_mask(self, tgt: Tensor, offset: Tensor) -> Tensor:
        return self._in_numbers(super()._attention_mask(tgt, offset))

    def _in_numbers(self, hidden: Tensor) -> Tensor:
        return torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)


def shared() -> nn.Module:
    module = PlainTransformer(seed=3)
    module.tgt_token_featurizer = module.src_token_featurizer
    return module


def normed_by_a_hook() -> nn.Module:
    module = PlainTransformer(seed=14)
    nn.utils.weight_norm(module.next_token_classifier)
    return module


COMPILED: dict[str, Callable[[], nn.Module]] = {
    "post-norm": lambda: PlainTransformer(seed=14),
    "pre-norm": lambda: PlainTransformer(seed=14, norm_first=True),
    "gelu": lambda: PlainTransformer(seed=14, activation="gelu"),
    "no biases": lambda: PlainTransformer(seed=14, activation=nn.functional.silu, bias=False),
    "another eps": lambda: PlainTransformer(seed=14, layer_norm_eps=1e-3),
    "position offsets": lambda: OffsetTransformer(seed=14),
    "a temperature and biases": lambda: PlainTransformer(
        seed=14, output=lambda logits, _: logits / 1.7 + COLUMNS
    ),
    "masks of numbers": lambda: FloatMasked(seed=14),
    "shared embeddings": shared,
    "weights made by a hook": normed_by_a_hook,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
@pytest.mark.parametrize("kind", COMPILED)
def test_modules_are_compiled(kind: str) -> None:
    module = COMPILED[kind]()
    state = torch.get_rng_state()
    spec = check(module, max_positions=64).spec
    assert torch.equal(torch.get_rng_state(), state)  # random numbers stay the caller's
    assert all(parameter.dtype == torch.float32 for parameter in module.parameters())
    assert spec.max_positions == 64
    assert spec.shared_embedding == (kind == "shared embeddings")


def test_a_wrapper_is_compiled_by_its_model() -> None:
    model = PlainTransformer(seed=14)
    assert compile(models.wrapping(model)).spec == compile(model).spec


@pytest.mark.parametrize("drafter", ["tree", "none"])
def test_errors_name_lengths_and_ids_out_of_range(drafter: Any) -> None:
    engine = compile(PlainTransformer(seed=14), max_positions=8)
    for source, length, message in (
        ([5], 9, "max_length is 9"),
        ([5] * 9, 8, r"source_ids\[1\] has 9 ids"),
        ([15], 8, r"source_ids\[1\] holds 15: expected source ids, 0 to 14$"),
        ([2**31 - 1], 8, rf"source_ids\[1\] holds {2**31 - 1}: expected source ids, 0 to 14$"),
    ):
        given: dict[str, Any] = {"max_length": length, "drafter": drafter, **IDS}
        refused(f"^{message}", decode, engine, [[BOS, 5, EOS], source], **given)


def test_errors_name_wrong_arguments() -> None:
    for value in (0, "a", 2.0):
        refused("^max_positions is .*", compile, PlainTransformer(), max_positions=value)
    refused("^vocabulary is a list", compile, PlainTransformer(), ["a"] * 15)


def test_compile_sets_the_dtype() -> None:
    module = PlainTransformer(seed=14)
    assert compile(module, dtype="bfloat16").dtype == torch.bfloat16
    device = torch.device("cpu")
    assert compile(module, dtype=torch.bfloat16, device=device).dtype == torch.bfloat16
    refused("dtype is 'float16'", compile, module, dtype="float16")
