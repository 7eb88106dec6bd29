"""`molspec.decode` leaves the user's model unchanged, and its errors name bad input."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from molspec import Hypotheses, compile, decode  # noqa: A004
from molspec.drafting import ModelDraft
from molspec.engine.torch.adapters import evaluating
from molspec.text import Vocabulary
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer, callables, copier
from tests.refusals import refused

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD, "max_length": 6}
SOURCES = [[BOS, 5, 6, 7, EOS], [BOS, 9, EOS]]


def same(left: Hypotheses, right: Hypotheses) -> bool:
    return torch.equal(left.sequences, right.sequences) and torch.allclose(
        left.log_probs, right.log_probs, atol=1e-5
    )


def test_decode_restores_the_mode_of_every_module() -> None:
    model = PlainTransformer(seed=14).train()
    model.transformer.encoder.eval()
    modes = [module.training for module in model.modules()]
    in_training = decode(model, SOURCES, **IDS)
    assert [module.training for module in model.modules()] == modes
    assert same(in_training, decode(model.eval(), SOURCES, **IDS))  # dropout was off
    assert all(parameter.grad is None for parameter in model.parameters())


def test_decode_restores_modes_after_errors() -> None:
    class Broken(PlainTransformer):
        def decode_tgt(self, tgt: Tensor, memory: Tensor, memory_pad_mask: Tensor) -> Tensor:
            assert not self.training
            assert not torch.is_grad_enabled()
            raise KeyError("mine")

    model = Broken().train()
    refused(KeyError, "mine", decode, model, SOURCES, **IDS)
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


def test_modules_of_bound_methods_decode_in_evaluation_mode() -> None:
    model = PlainTransformer(seed=14).train()

    def encode(source_ids: Tensor) -> Tensor:
        return model.encode_src(source_ids, source_ids == PAD)

    found = decode((encode, model.decode_tgt), SOURCES, **IDS)
    assert model.training
    model.eval()
    assert same(found, decode(callables(model), SOURCES, **IDS))


def test_module_stays_in_evaluation_mode_until_the_last_thread_ends() -> None:
    model = PlainTransformer(seed=14).train()
    model.transformer.encoder.eval()
    modes = [module.training for module in model.modules()]
    first_began, second_began, first_done = Event(), Event(), Event()

    def first() -> None:
        with evaluating(model):
            first_began.set()
            assert second_began.wait(20)
        first_done.set()

    def second() -> None:
        assert first_began.wait(20)
        with evaluating(model):
            second_began.set()
            assert first_done.wait(20)
            assert not any(module.training for module in model.modules())

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(first), threads.submit(second)]:
            done.result()
    assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize("options", [{}, {"n_best": 3}], ids=str)
def test_decode_works_inside_inference_mode(options: dict[str, Any]) -> None:
    model = PlainTransformer(seed=14)
    expected = decode(model, SOURCES, **IDS, **options)
    with torch.inference_mode():
        assert same(decode(model, SOURCES, **IDS, **options), expected)
        made_inside = PlainTransformer(seed=14)
        assert same(decode(made_inside, SOURCES, **IDS, **options), expected)


@pytest.mark.parametrize("finished", ["beam", "separate"])
def test_sequences_of_no_probability_are_no_answers(finished: str) -> None:
    """The model writes 5 or 6 and ends; its grammar excludes the rest."""

    def decode_rows(ids: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        logits = torch.full((*ids.shape, 15), -torch.inf)
        logits[:, 0, [5, 6]] = torch.tensor([1.0, 2.0])
        logits[:, 1:, EOS] = 1.0
        return logits

    model = (lambda ids: nn.functional.one_hot(ids, 15).float(), decode_rows)
    found = decode(model, SOURCES, n_best=4, finished=finished, **IDS)
    assert found.lengths.tolist() == [[2, 2, 0, 0]] * 2
    assert found.finished.tolist() == [[True, True, False, False]] * 2
    assert found.sequences[0, :2].tolist() == [[6, EOS], [5, EOS]]


def test_a_draft_model_may_be_loaded_and_have_fewer_positions() -> None:
    """It drafts as far as it can read; a longer source gets no drafts."""
    model = PlainTransformer(seed=14)
    sources = [*SOURCES, [BOS, *[5, 6, 7, 8] * 4, EOS]]
    options = {**IDS, "max_length": 24}
    expected = decode(model, sources, **options)
    short = compile(model, max_positions=12)
    tokens = ("<pad>", "<bos>", "<eos>", *"CNOFPSIBcnos")
    loaded = compile(model, vocabulary=Vocabulary(tokens), max_positions=600)
    for drafter in (short, loaded):
        found = decode(model, sources, drafter=ModelDraft(drafter, gamma=3), **options)
        assert same(found, expected)
        assert found.statistics.accepted_tokens > 0
    drafter = ModelDraft(PlainTransformer(9))
    message = "^the drafter, a PlainTransformer, has 9 target ids"
    refused(message, decode, model, [[BOS, 5, EOS]], drafter=drafter, **IDS)


def test_tensors_and_lists_give_the_same_answers() -> None:
    model = PlainTransformer(seed=14)
    padded = torch.tensor([SOURCES[0], [*SOURCES[1], PAD, PAD]])
    for dtype in (torch.int64, torch.int32, torch.uint8):
        assert same(decode(model, padded.to(dtype), **IDS), decode(model, SOURCES, **IDS))


def test_default_device_of_torch_does_not_change_answers() -> None:
    model = (
        lambda ids: nn.functional.one_hot(ids, 15).float(),
        lambda ids, memory, mask: nn.functional.one_hot((3 * ids + 2) % 15, 15).float(),
    )
    expected = decode(model, SOURCES, n_best=2, **IDS)
    with torch.device("meta"):
        found = decode(model, SOURCES, n_best=2, **IDS)
    assert same(found, expected)


def test_decode_accepts_numpy_integers() -> None:
    model = PlainTransformer(seed=14)
    options = {"n_best": 2, "batch_size": 2, "node_budget": 3, **IDS}
    numbers = {name: np.int64(value) for name, value in options.items()}
    assert same(
        decode(model, np.array(SOURCES[:1]), **numbers), decode(model, SOURCES[:1], **options)
    )


def test_source_to_target_maps_another_vocabulary() -> None:
    """The copier's source ids are its target ids plus 100; without a map they cannot be copied."""
    calls: list[tuple[int, ...]] = []
    encode, decode_rows = copier(20, calls)
    model = (lambda ids: encode(torch.where(ids >= 103, ids - 100, ids)), decode_rows)
    sources = [[BOS, *(103 + i % 15 for i in range(30)), EOS]]
    options = {**IDS, "max_length": 40}
    message = r"^source_ids\[0\] holds 117, but the target's ids end at"
    refused(message, decode, model, sources, **options)
    plain = decode(model, sources, drafter="none", **options)
    ids = {103 + i: 3 + i for i in range(15)}
    mapped = decode(model, sources, source_to_target=ids, drafter="tree", **options)
    assert torch.equal(mapped.sequences, plain.sequences)
    assert mapped.statistics.decoder_calls < 0.7 * plain.statistics.decoder_calls


def nan_logits(*_: Tensor) -> Tensor:
    return torch.full((1, 1, 5), float("nan"))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no ids": ({"source_ids": []}, "source_ids is empty"),
    "empty": ({"source_ids": [[5], []]}, r"source_ids\[1\] is empty"),
    "padding inside": ({"source_ids": [[5, 0, 6]]}, r"source_ids\[0\] is \[5, 0, 6\]"),
    "only padding": ({"source_ids": [[0, 0]]}, r"source_ids\[0\] is empty"),
    "below 0": ({"source_ids": [[5, -3]]}, r"source_ids\[0\] is \[5, -3\]"),
    "numbers": (
        {"source_ids": torch.rand(2, 3)},
        r"a torch.float32 tensor of shape \(2, 3\): expe",
    ),
    "truth": ({"source_ids": [[True, False, True]]}, r"source_ids\[0\] is \[True, False, True\]"),
    "a row of truth": (
        {"source_ids": [torch.tensor([True])]},
        r"source_ids\[0\] is tensor\(\[True\]\)",
    ),
    "one row": ({"source_ids": torch.tensor([5, 6])}, r"of shape \(2,\)"),
    "pad_id": ({"pad_id": -1}, "pad_id is -1"),
    "padding that is EOS": ({"pad_id": EOS}, "pad_id is 2, as eos_id is"),
    "bos_id": ({"bos_id": 15}, "bos_id is 15: expected a target id, 0 to 14"),
    "eos_id": ({"eos_id": True}, "eos_id is True"),
    "a bool of NumPy": ({"eos_id": np.True_}, "eos_id is .*True.*"),
    "max_length": ({"max_length": 0}, "max_length is 0"),
    **{
        name: ({name: True}, f"{name} is True: expected")
        for name in (
            *("merge_duplicates", "canonical_queries"),
            *("drop_invalid", "drop_unchanged", "drop_impossible"),
        )
    },
    "augmentations": ({"augmentations": 2}, "augmentations is 2: expected 1"),
    "tokens": ({"tokens": ["C"] * 14}, "tokens has 14 strings"),
    "no list": ({"tokens": 5}, "tokens is a int"),
    "one string": ({"tokens": "C" * 15}, "tokens is a str"),
    "no strings": ({"tokens": list(range(15))}, r"tokens\[0\] is 0"),
    "a map of text": ({"source_to_target": {5: "a"}}, r"an id of source_to_target\[5\] is 'a'"),
    "a map from text": ({"source_to_target": {"a": 5}}, r"an id of source_to_target\['a'\] is 'a'"),
    "a map": ({"source_to_target": {5: 15}}, r"source_to_target\[5\] is 15"),
    "a model": ({"model": nn.Linear(2, 2)}, "model is a Linear"),
    "one callable": ({"model": (len,)}, "model is a tuple"),
    "memory": (
        {"model": (lambda ids: None, nan_logits)},
        r"encode gave a NoneType for source_ids of sh",
    ),
    "memory shape": (
        {"model": (lambda ids: torch.zeros(ids.shape[1], 1, 4), nan_logits)},
        r"encode gave a tensor of shape \(5, 1, 4\) for source_ids of shape \(1, 5\)",
    ),
    "one source": ({"source_ids": [1, 5, 2]}, r"source_ids\[0\] is 1"),
    "fractions": ({"source_ids": [[1, 5.5]]}, r"source_ids\[0\] is \[1, 5.5\]"),
    "text": ({"source_ids": ["CCO"]}, r"source_ids\[0\] is 'CCO'"),
    "a large id": (
        {"source_ids": [[BOS, 2**31, EOS]], "drafter": "none"},
        r"source_ids\[0\] is \[1, 2147483648, 2\]",
    ),
    "a prefix of one id": ({"target_prefix": 5}, "^target_prefix is 5"),
    "a prefix of text": ({"target_prefix": "CC"}, r"^target_prefix\[0\] is 'C'"),
    "a prefix of fractions": ({"target_prefix": [1.5]}, r"^target_prefix is \[1\.5\]"),
    "a prefix of truth": ({"target_prefix": [True]}, r"^target_prefix is \[True\]"),
    "too many prefixes": ({"target_prefix": [[4]] * 3}, "^target_prefix has 3 lists"),
    "a prefix with BOS": ({"target_prefix": [BOS, 5]}, f"^target_prefix begins with BOS {BOS}"),
    "a prefix out of range": ({"target_prefix": [99]}, "^a token of target_prefix is 99"),
    "none": ({"source_ids": None}, "source_ids is a NoneType"),
    "no length": ({"max_length": None}, "max_length is None"),
    "an endless length": ({"max_length": 2**40}, "max_length is 1099511627776"),
    "logits": (
        {"model": (lambda ids: torch.zeros(*ids.shape, 4), lambda *_: torch.zeros(3))},
        r"decode gave a tensor of shape \(3,\) for target_ids of shape \(1, 1\)",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_errors_name_bad_input(kind: str) -> None:
    changes, message = BAD[kind]
    arguments = {"model": PlainTransformer(seed=14), "source_ids": SOURCES, **IDS, **changes}
    refused(message, decode, **arguments)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (slice(None), "^decode gives NaN for a source without padding: padding masks are True"),
        (5, r"^source_ids\[\d\]: the model's log-probabilities are not"),
    ],
)
def test_nan_log_probs_are_refused(where: Any, message: str) -> None:
    model = PlainTransformer(seed=14)
    model.next_token_classifier.bias.data[where] = float("nan")
    refused(message, decode, model, SOURCES, **IDS)
