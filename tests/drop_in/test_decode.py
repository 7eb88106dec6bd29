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
from tests import refused
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer, callables, copier

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
    expected = decode(model, SOURCES[:1], **options)
    assert same(decode(model, np.array(SOURCES[:1]), **numbers), expected)


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
