"""`molspec.decode` on modules and callables, compared with plain decoding loops."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import Hypotheses, decode
from molspec.drafting import TreeDraft
from molspec.text import tokenize
from tests.drop_in import models
from tests.drop_in.models import BOS, EOS, PAD, OffsetTransformer, PlainTransformer
from tests.search.plain import Hypothesis, NextLogProbs, beam_search, greedy

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
DRAFTERS = ("none", "windows", "tree")


def sources(count: int, vocab_size: int = 15, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    lengths = [rng.randint(1, 20) for _ in range(count)]
    return [[BOS, *(rng.randrange(3, vocab_size) for _ in range(n)), EOS] for n in lengths]


def plain_steps(model: PlainTransformer, source: list[int]) -> NextLogProbs:
    """Plain steps of the model: one source, no padding, no cache."""
    encode, decode_rows = models.callables(model.eval())
    no_offset = torch.zeros(1, dtype=torch.int64)
    return models.module_steps(encode, lambda *given: decode_rows(*given, no_offset), source)


def check(found: Hypotheses, expected: Sequence[Sequence[Hypothesis]], atol: float = 1e-4) -> None:
    """Checks hypotheses and their order against the loop's, and that the tensors agree."""
    assert found.sequences.shape[:2] == (len(expected), len(expected[0]))
    for index, hypotheses in enumerate(expected):
        for rank, hypothesis in enumerate(hypotheses):
            tokens = [*hypothesis.token_ids, *[EOS] * hypothesis.finished]
            length = int(found.lengths[index, rank])
            padding = [PAD] * (found.sequences.shape[2] - length)
            assert found.sequences[index, rank].tolist() == tokens + padding
            assert length == len(tokens)
            assert bool(found.finished[index, rank]) == hypothesis.finished
            log_prob = pytest.approx(hypothesis.log_prob, abs=atol)
            assert float(found.log_probs[index, rank]) == log_prob


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model_and_answers(
    request: pytest.FixtureRequest,
) -> tuple[PlainTransformer, list[list[Hypothesis]]]:
    """A model and its answers to `sources(6)` by a plain greedy loop."""
    model = OffsetTransformer(norm_first=request.param, seed=14).double()
    return model, [[greedy(plain_steps(model, q), 18)] for q in sources(6)]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("kind", ["plain", "offsets", "callables"])
def test_speculative_greedy_equals_a_plain_loop(
    model_and_answers: tuple[OffsetTransformer, list[list[Hypothesis]]], kind: str, drafter: str
) -> None:
    model, answers = model_and_answers
    plain = PlainTransformer(norm_first=model.transformer.encoder.layers[0].norm_first).double()
    plain.load_state_dict(model.state_dict())
    form = {"plain": plain, "offsets": model, "callables": [*models.callables(model.eval())]}[kind]
    found = decode(form, sources(6), max_length=18, drafter=drafter, batch_size=4, **IDS)
    check(found, answers)


@pytest.mark.parametrize("beam", ["standard", "exact"])
@pytest.mark.parametrize("kind", ["plain", "offsets"])
def test_beams_equal_a_plain_loop(kind: str, beam: str) -> None:
    model = (PlainTransformer if kind == "plain" else OffsetTransformer)(seed=14).double()
    queries = sources(4)
    found = decode(model, queries, max_length=10, n_best=4, beam=beam, batch_size=3, **IDS)
    check(found, [beam_search(plain_steps(model, q), 4, 10) for q in queries], 1e-5)


def test_missing_answers_have_length_zero() -> None:
    """The beam is wider than the number of answers: max_length 1 allows one per token."""
    found = decode(PlainTransformer(seed=14), sources(2), max_length=1, n_best=20, **IDS)
    assert found.sequences.shape == (2, 20, 1)
    assert found.lengths.tolist() == [[1] * 15 + [0] * 5] * 2
    assert torch.isneginf(found.log_probs[:, 15:]).all()
    assert torch.isfinite(found.log_probs[:, :15]).all()


def real_queries() -> tuple[list[str], list[list[int]]]:
    """A vocabulary made from SMILES, and the SMILES as its ids."""
    smiles = (Path(__file__).parents[1] / "data" / "smiles.txt").read_text().split()[:12]
    tokens = sorted({token for query in smiles for token in tokenize(query)})
    vocabulary = ["<PAD>", "<BOS>", "<EOS>", *tokens]
    ids = [[BOS, *map(vocabulary.index, tokenize(query)), EOS] for query in smiles]
    return vocabulary, ids


@pytest.mark.parametrize("drafter", ["none", "windows", TreeDraft(node_budget=16), None])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_drafts_save_calls_on_real_queries(
    drafter: str | TreeDraft | None, batch_size: int
) -> None:
    vocabulary, queries = real_queries()
    calls: list[tuple[int, ...]] = []
    encode, decode_rows = models.copier(len(vocabulary), calls)
    expected = [[greedy(models.module_steps(encode, decode_rows, q), 200)] for q in queries]
    loop_calls = len(calls)
    calls.clear()
    options: dict[str, Any] = {**IDS, "max_length": 200, "drafter": drafter, "tokens": vocabulary}
    found = decode((encode, decode_rows), queries, batch_size=batch_size, **options)
    check(found, expected)
    assert found.statistics.queries == len(queries)
    assert found.statistics.emitted_tokens == int(found.lengths.sum())
    if drafter == "none":
        assert found.statistics.query_calls == loop_calls
    else:
        share = 0.8 if drafter is None else 0.6  # few rows, or few calls
        assert found.statistics.query_calls < share * loop_calls
        assert found.statistics.accepted_per_emitted > 1 - share


def test_answers_begin_with_a_prefix_of_each_source_or_of_all() -> None:
    model, given = PlainTransformer(seed=5), sources(3)
    prefixes = [[7, 9], [], [4, 4, 8]]
    padded = torch.tensor([[*ids, *[PAD] * (3 - len(ids))] for ids in prefixes])
    options: dict[str, Any] = {**IDS, "max_length": 12, "n_best": 2}
    found, *others = (
        decode(model, given, target_prefix=each, **options)
        for each in (prefixes, padded, [7], [[7]] * 3)
    )
    assert torch.equal(found.sequences, others[0].sequences)
    assert torch.equal(others[1].log_probs, others[2].log_probs)
    assert (others[1].sequences[:, :, 0] == 7).all()
    for row, (source, prefix) in enumerate(zip(given, prefixes, strict=True)):
        steps = plain_steps(model, source)
        before = sum(float(steps([BOS, *prefix[:i]])[each]) for i, each in enumerate(prefix))
        assert found.sequences[row, 0, : len(prefix)].tolist() == prefix
        after = found.log_probs[row, 0] - found.log_probs_after_prefix[row, 0]
        assert float(after) == pytest.approx(before, abs=1e-4)
