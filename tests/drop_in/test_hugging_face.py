"""`molspec.decode` on Hugging Face models, compared with their `generate`."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from molspec import decode
from molspec.drafting import ModelDraft
from tests import refused
from tests.drop_in.hugging_face_models import MODELS, VOCAB_SIZE, bart, ids_of, sources

transformers = pytest.importorskip("transformers")
MAX_LENGTH = 16


def generate(model: Any, source_ids: Tensor, **options: Any) -> Any:
    """The answers and scores of `generate`."""
    mask = (source_ids != model.config.pad_token_id).long()
    return model.generate(
        source_ids,
        attention_mask=mask,
        max_new_tokens=MAX_LENGTH,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )


def cut_after_eos(sequence: list[int], eos_id: int) -> list[int]:
    """The sequence up to its EOS, inclusive."""
    return sequence[: sequence.index(eos_id) + 1] if eos_id in sequence else sequence


@pytest.fixture(scope="module", params=list(MODELS))
def greedy(request: pytest.FixtureRequest) -> tuple[Any, Tensor, list[list[int]], list[float]]:
    """A model, sources, and the answers of generate(num_beams=1)."""
    model = MODELS[request.param]()
    source_ids = sources(model)
    generated = generate(model, source_ids, num_beams=1)
    eos_id = model.config.eos_token_id
    sequences = [cut_after_eos(row, eos_id) for row in generated.sequences[:, 1:].tolist()]
    scores = torch.stack(generated.scores, dim=1).log_softmax(dim=-1)
    sums = [
        sum(float(row[position, token]) for position, token in enumerate(sequence))
        for row, sequence in zip(scores, sequences, strict=True)
    ]
    return model, source_ids, sequences, sums


@pytest.mark.parametrize("drafter", ["none", "windows", "tree"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_speculative_greedy_equals_generate(
    greedy: tuple[Any, Tensor, list[list[int]], list[float]], batch_size: int, drafter: str
) -> None:
    model, source_ids, sequences, sums = greedy
    given: dict[str, Any] = {**ids_of(model), "max_length": MAX_LENGTH, "drafter": drafter}
    found = decode(model, source_ids, batch_size=batch_size, **given)
    lengths = found.lengths[:, 0].tolist()
    assert [
        row[:length] for row, length in zip(found.sequences[:, 0].tolist(), lengths, strict=True)
    ] == sequences
    torch.testing.assert_close(
        found.log_probs[:, 0], torch.tensor(sums, dtype=torch.float64), atol=1e-4, rtol=0
    )
    assert max(map(len, map(set, sequences))) > 2  # answers are varied


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("kind", list(MODELS))
def test_beams_equal_generate(kind: str, length_penalty: float) -> None:
    model = MODELS[kind]()
    eos_id = model.config.eos_token_id

    def raise_eos_logit(_: nn.Module, __: Any, output: Any) -> None:
        output.logits[..., eos_id] += 4.0

    model.register_forward_hook(raise_eos_logit)
    source_ids = sources(model, 4)
    count = 5
    options = {"num_beams": count, "num_return_sequences": count, "length_penalty": length_penalty}
    generated = generate(model, source_ids, **options)
    sequences = [cut_after_eos(row, eos_id) for row in generated.sequences[:, 1:].tolist()]
    same: dict[str, Any] = {"n_best": count, "length_penalty": length_penalty}
    same |= {"max_length": MAX_LENGTH, "finished": "separate"}
    for beam, batch_size in (("standard", 3), ("exact", 1), ("exact", 3)):
        found = decode(model, source_ids, beam=beam, batch_size=batch_size, **ids_of(model), **same)
        lengths = found.lengths.flatten().tolist()
        rows = found.sequences.flatten(0, 1).tolist()
        assert [row[:length] for row, length in zip(rows, lengths, strict=True)] == sequences
        scores = found.log_probs.flatten() / found.lengths.flatten() ** length_penalty
        torch.testing.assert_close(scores.float(), generated.sequences_scores, atol=1e-4, rtol=0)
    assert bool(found.finished.any())  # so early that other hypotheses continue


def test_the_decoder_evaluates_only_new_tokens() -> None:
    model = bart()
    decode(model, sources(model, 1), max_length=1, **ids_of(model))  # tests the model
    lengths: list[int] = []
    handle = model.get_decoder().register_forward_pre_hook(
        lambda _, __, arguments: lengths.append(arguments["input_ids"].shape[1]), with_kwargs=True
    )
    found = decode(model, sources(model, 1), max_length=40, drafter="none", **ids_of(model))
    handle.remove()
    assert found.statistics.decoder_calls > 5
    assert set(lengths) == {1}


def test_decode_warns_of_ids_that_a_config_contradicts() -> None:
    model = bart()
    ids = ids_of(model)
    for name in ids:
        with pytest.warns(UserWarning, match=f"^{name} is 7, but the model's config has ") as seen:
            decode(model, sources(model)[:1], max_length=4, **{**ids, name: 7})
        assert seen[0].filename == __file__


def test_decode_warns_of_ignored_generation_settings() -> None:
    model = bart()
    model.generation_config.no_repeat_ngram_size = 3
    model.generation_config.forced_bos_token_id = 0
    with pytest.warns(UserWarning, match=r"forced_bos_token_id, no_repeat_ngram_size: mol") as seen:
        decode(model, sources(model, 1), max_length=2, **ids_of(model))
    assert seen[0].filename == __file__


@pytest.mark.parametrize("search", [{}, {"n_best": 3}, {"samples": 4, "seed": 5}], ids=str)
def test_a_draft_model_may_have_fewer_positions(search: dict[str, Any]) -> None:
    model, short = bart(), bart(max_position_embeddings=12)
    options: dict[str, Any] = {**ids_of(model), "max_length": 30, **search}
    ids = [[5] * 21, [5, 6, 7, 2]]
    expected = decode(model, ids, drafter="none", **options)
    for drafter in (short, bart()):
        found = decode(model, ids, drafter=ModelDraft(drafter, gamma=2), **options)
        assert torch.equal(found.sequences, expected.sequences)
    assert found.statistics.accepted_tokens > 0  # those of the same model


UNSUPPORTED = {
    "max_length": ({"max_length": 65}, "max_length is 65"),
    "source": ({"source_ids": [[5, 2], [5] * 65]}, r"source_ids\[1\] has 65 ids"),
    "no head": ({"model": bart().model}, "model is a BartModel"),
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_errors_name_unsupported_input(kind: str) -> None:
    changes, message = UNSUPPORTED[kind]
    arguments: dict[str, Any] = {"model": bart(), "source_ids": [[5, 2]], "max_length": 64}
    refused(message, decode, **{**arguments, **ids_of(bart()), **changes})


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_quantised_models_decode() -> None:
    model: Any = torch.ao.quantization.quantize_dynamic(bart().float())
    found = decode(model, sources(model), max_length=MAX_LENGTH, **ids_of(model))
    assert bool(torch.isfinite(found.log_probs).all())


_SIZES = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64}
_ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16}


def prophet_net() -> nn.Module:
    heads = {"num_encoder_attention_heads": 2, "num_decoder_attention_heads": 2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_size": 16}
    config = transformers.ProphetNetConfig(vocab_size=VOCAB_SIZE, **layers, **heads, **_SIZES)
    return transformers.ProphetNetForConditionalGeneration(config).eval()


def fsmt() -> nn.Module:
    sizes = {"src_vocab_size": VOCAB_SIZE, "tgt_vocab_size": VOCAB_SIZE, "langs": ["a", "b"]}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.FSMTConfig(**sizes, **heads, **_ONE_LAYER, **_SIZES)
    return transformers.FSMTForConditionalGeneration(config).eval()


@pytest.mark.parametrize("make", [prophet_net, fsmt])
def test_other_caches_are_refused_with_glue_that_works(make: Callable[[], nn.Module]) -> None:
    model: Any = make()
    config = model.config
    special = (config.decoder_start_token_id, config.eos_token_id, config.pad_token_id)
    ids = dict(zip(("bos_id", "eos_id", "pad_id"), special, strict=True))
    source_ids = [[5, 6, 7, 2], [9, 2]]
    with pytest.raises(ValueError, match="does not read several tokens on the usual") as refused:
        decode(model, source_ids, max_length=8, **ids)
    lines = str(refused.value).splitlines()
    names = {"model": model, "BaseModelOutput": BaseModelOutput}
    exec("\n".join(line.strip() for line in lines[1:3]), names)
    found = decode((names["encode"], names["decode"]), source_ids, max_length=8, **ids)
    assert bool(torch.isfinite(found.log_probs).all())


def test_a_cache_that_changes_answers_is_refused() -> None:
    model: Any = bart()
    forward = model.forward

    @wraps(forward)
    def shifted(*, decoder_input_ids: Tensor, use_cache: bool, **options: Any) -> Any:
        ids = decoder_input_ids.flip(1) if use_cache else decoder_input_ids
        return forward(decoder_input_ids=ids, use_cache=use_cache, **options)

    model.forward = shifted
    message = "log-probabilities change by"
    refused(message, decode, model, sources(model), max_length=MAX_LENGTH, **ids_of(model))
