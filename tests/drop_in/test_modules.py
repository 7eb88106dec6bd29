"""`molspec.decode` on modules and callables against the loops that people have."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from molspec import Hypotheses, decode
from molspec._native import tokenize
from molspec.drafting import TreeDraft
from tests.drop_in.loops import Found, NextTokens, beam_search, greedy, module_steps
from tests.drop_in.models import (
    BOS,
    EOS,
    PAD,
    OffsetTransformer,
    PlainTransformer,
    callables,
    copier,
)

# What torch says about its own encoder when it meets padding.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
DRAFTERS = ("none", "windows", "tree")


def sources(count: int, vocab_size: int = 15, seed: int = 0) -> list[list[int]]:
    chance = random.Random(seed)
    lengths = [chance.randint(1, 20) for _ in range(count)]
    return [[BOS, *(chance.randrange(3, vocab_size) for _ in range(n)), EOS] for n in lengths]


def own_steps(model: PlainTransformer, source: list[int]) -> NextTokens:
    """What the model's owner has: one source, no padding, no cache."""
    encode, decode_rows = callables(model.eval())
    nothing = torch.zeros(1, dtype=torch.int64)
    return module_steps(encode, lambda *arguments: decode_rows(*arguments, nothing), source)


def check(found: Hypotheses, own: Sequence[Sequence[Found]], atol: float = 1e-4) -> None:
    """Every hypothesis is the loop's, in its order, and the tensors agree with one another."""
    assert found.sequences.shape[:2] == (len(own), len(own[0]))
    for index, hypotheses in enumerate(own):
        for rank, (tokens, log_prob) in enumerate(hypotheses):
            length = int(found.lengths[index, rank])
            padding = [PAD] * (found.sequences.shape[2] - length)
            assert found.sequences[index, rank].tolist() == tokens + padding
            assert length == len(tokens)
            assert bool(found.finished[index, rank]) == (tokens[-1] == EOS)
            assert float(found.log_probs[index, rank]) == pytest.approx(log_prob, abs=atol)


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def own(request: pytest.FixtureRequest) -> tuple[PlainTransformer, list[list[Found]]]:
    """A model and its own greedy answers to `sources(6)`."""
    model = OffsetTransformer(norm_first=request.param, seed=14).double()
    return model, [[greedy(own_steps(model, q), BOS, EOS, 18)] for q in sources(6)]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("kind", ["plain", "offsets", "callables"])
def test_speculative_greedy_is_the_models_own(
    own: tuple[OffsetTransformer, list[list[Found]]], kind: str, drafter: str
) -> None:
    model, answers = own
    plain = PlainTransformer(norm_first=model.transformer.encoder.layers[0].norm_first).double()
    plain.load_state_dict(model.state_dict())
    given = {"plain": plain, "offsets": model, "callables": [*callables(model.eval())]}[kind]
    found = decode(given, sources(6), max_length=18, drafter=drafter, batch_size=4, **IDS)
    check(found, answers)


@pytest.mark.parametrize("beam", ["standard", "exact"])
@pytest.mark.parametrize("kind", ["plain", "offsets"])
def test_beams_are_those_of_a_plain_loop(kind: str, beam: str) -> None:
    model = (PlainTransformer if kind == "plain" else OffsetTransformer)(seed=14).double()
    queries = sources(4)
    found = decode(model, queries, max_length=10, n_best=4, beam=beam, batch_size=3, **IDS)
    check(found, [beam_search(own_steps(model, q), BOS, EOS, 10, 4) for q in queries], 1e-5)


def test_the_papers_beams() -> None:
    """Without drafts, SBS is standard beam search; with drafts it is another search."""
    model = PlainTransformer(seed=14).double()
    options = {**IDS, "max_length": 10, "n_best": 3}
    standard = decode(model, sources(4), beam="standard", **options)
    plain = decode(model, sources(4), beam="sbs", drafter="none", **options)
    assert torch.equal(plain.sequences, standard.sequences)
    torch.testing.assert_close(plain.log_probs, standard.log_probs, atol=1e-5, rtol=0)
    drafted = decode(model, sources(4), beam="sbs", draft_length=4, draft_count=3, **options)
    assert drafted.statistics.drafted_tokens > 0
    assert torch.isfinite(drafted.log_probs).all()


def test_fewer_answers_than_beams() -> None:
    model = PlainTransformer(seed=14).double()
    wide = decode(model, sources(2), max_length=8, n_best=5, **IDS)
    best = decode(model, sources(2), max_length=8, n_best=2, beam_size=5, **IDS)
    assert torch.equal(best.log_probs, wide.log_probs[:, :2])
    assert torch.equal(best.lengths, wide.lengths[:, :2])


def test_a_beam_that_finds_too_few_says_so() -> None:
    """Wider than all there is to say: max_length 1 leaves as many answers as tokens."""
    found = decode(PlainTransformer(seed=14), sources(2), max_length=1, n_best=20, **IDS)
    assert found.sequences.shape == (2, 20, 1)
    assert found.lengths.tolist() == [[1] * 15 + [0] * 5] * 2
    assert torch.isneginf(found.log_probs[:, 15:]).all()
    assert torch.isfinite(found.log_probs[:, :15]).all()


def real_queries() -> tuple[list[str], list[list[int]]]:
    """SMILES as ids of a vocabulary made from them."""
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
    encode, decode_rows = copier(len(vocabulary), calls)
    own = [[greedy(module_steps(encode, decode_rows, q), BOS, EOS, 200)] for q in queries]
    loop_calls = len(calls)
    calls.clear()
    found = decode(
        (encode, decode_rows),
        queries,
        max_length=200,
        drafter=drafter,
        batch_size=batch_size,
        tokens=vocabulary,
        **IDS,
    )
    check(found, own)
    assert found.statistics.queries == len(queries)
    assert found.statistics.emitted_tokens == int(found.lengths.sum())
    if drafter == "none":
        assert found.statistics.query_calls == loop_calls
    else:
        share = 0.8 if drafter is None else 0.6  # few rows, or few calls
        assert found.statistics.query_calls < share * loop_calls
        assert found.statistics.accepted_per_emitted > 1 - share
