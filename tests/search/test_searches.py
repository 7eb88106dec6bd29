"""The native searches equal the plain ones, to the bit."""

from functools import cache

import pytest

from molspec._native import BeamSpec, NativeDrafter
from molspec.drafting import LookAhead, TreeDraft, WindowDrafts, native_options
from molspec.prediction.model import Model
from tests import tiny
from tests.search import plain
from tests.search.plain import answers, decode, model_with_ties, plain_answers

MAX_LENGTH = 40
SHORT = tiny.QUERIES[:-1]


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    """A model in float32, unless a test names another dtype or an ensemble."""
    kind = getattr(request, "param", "float32")
    if kind == "ensemble":
        return Model(tiny.checkpoint(), others=tiny.others())
    return tiny.model(dtype=kind)


#: Models, beam sizes and maximum lengths: a search does not know its model.
SIZES = (
    *(("float32", size, 14) for size in (1, 2, 5, 20)),
    *(("float32", 4, 1), ("float32", 4, 2), ("bfloat16", 3, 14), ("ensemble", 3, 14)),
)
sized = pytest.mark.parametrize(("model", "beam_size", "max_length"), SIZES, indirect=["model"])


@cache
def next_log_probs(model: Model, query: str) -> plain.NextLogProbs:
    return plain.model_of(model.engine, tiny.VOCABULARY.encode(query))


@pytest.mark.parametrize("model", ["float32", "bfloat16", "ensemble"], indirect=True)
def test_greedy_equals_the_argmax(model: Model) -> None:
    for max_length in (1, 2, MAX_LENGTH):
        results = model.predict(SHORT, drafter="none", max_length=max_length)
        for query, result in zip(SHORT, results, strict=True):
            expected = plain.greedy(next_log_probs(model, query), max_length)
            assert answers(result) == plain_answers([expected])
    assert len({result.predictions[0].smiles for result in results}) > 3


@sized
@pytest.mark.parametrize("length_penalty", [0.0, 0.7])
@pytest.mark.parametrize("finished", ["beam", "separate"])
def test_standard_and_exact_beams_equal_plain_beam_search(
    model: Model, beam_size: int, max_length: int, length_penalty: float, finished: str
) -> None:
    options = {"max_length": max_length, "length_penalty": length_penalty, "finished": finished}
    eager = LookAhead(node_budget=40, steps=5, min_confidence=0.0)
    limits = beam_size, max_length, length_penalty, finished == "separate"
    expected = [
        plain_answers(plain.beam_search(next_log_probs(model, query), *limits)) for query in SHORT
    ]
    choices = [{"beam": "standard"}, {"beam": "exact"}, {"beam": "exact", "drafter": eager}]
    if finished == "beam" and not length_penalty:
        choices.append({"beam": "sbs", "drafter": "none"})
    for choice in choices:
        results = model.predict(SHORT, beam_size, **choice, **options)
        assert list(map(answers, results)) == expected


@sized
@pytest.mark.parametrize(
    "windows",
    [
        WindowDrafts(draft_length=4, draft_count=6),
        WindowDrafts(draft_length=4, draft_count=3, choice="first"),
        WindowDrafts(draft_length=6, draft_count=4, smart=True),
    ],
    ids=str,
)
def test_sbs_equals_plain_sbs(
    model: Model, windows: WindowDrafts, beam_size: int, max_length: int
) -> None:
    results = model.predict(SHORT, beam_size, beam="sbs", drafter=windows, max_length=max_length)
    for query, result in zip(SHORT, results, strict=True):
        source_ids = tiny.VOCABULARY.encode(query)

        def drafts(last: int, source_ids: list[int] = source_ids) -> list[list[int]]:
            return paths(model, windows, source_ids, last)

        expected = plain.speculative_beam_search(
            next_log_probs(model, query), drafts, beam_size, max_length
        )
        assert answers(result) == plain_answers(expected)


def paths(model: Model, windows: WindowDrafts, source_ids: list[int], last: int) -> list[list[int]]:
    """The path to every node of the tree of drafts, in order, as a draft of its own."""
    drafter = NativeDrafter(native_options(windows), model.context.guess)
    drafter.start(source_ids)
    tree = drafter.propose([] if last == tiny.VOCABULARY.bos_id else [last])
    drafts: list[list[int]] = []
    for token_id, parent in zip(tree.token_ids, tree.parents, strict=True):
        drafts.append([*(drafts[parent] if parent >= 0 else []), token_id])
    return drafts


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_next_query_takes_the_row_of_a_finished_one_at_once(model: Model, batch_size: int) -> None:
    options = {"drafter": "none", "max_length": MAX_LENGTH}
    call_counts = [model.predict([query], **options)[0].statistics.decoder_calls for query in SHORT]
    assert len(set(call_counts)) > 2
    waiting, running, steps = call_counts[::-1], [], 0
    while waiting or running:
        running += [waiting.pop() for _ in range(min(batch_size - len(running), len(waiting)))]
        running = [left - 1 for left in running if left > 1]
        steps += 1
    batched = model.predict(SHORT, batch_size=batch_size, **options)
    assert batched.statistics.decoder_calls == steps


@pytest.mark.parametrize("options", [{}, {"n_best": 4}, {"n_best": 2, "beam": "sbs"}], ids=str)
def test_hypotheses_end_at_the_last_position(model: Model, options: dict[str, object]) -> None:
    longest = tiny.SPEC.max_positions
    results = model.predict(tiny.QUERIES, max_length=longest, **options)
    found = [prediction for result in results for prediction in result.predictions]
    assert len(found) == len(tiny.QUERIES) * int(str(options.get("n_best", 1)))
    unfinished = [each for each in found if not each.finished]
    assert {len(tiny.VOCABULARY.encode(each.smiles)) for each in unfinished} == {longest}
    assert {each.canonical for each in unfinished} == {None}


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (4, 1), (4, 3), (6, 6), (30, 4), (30, 30)])
def test_beams_with_ties_equal_plain_beam_search(sizes: tuple[int, int], separate: bool) -> None:
    beam_size, n_best = sizes  # 30 is more than the number of tokens
    for seed in range(20):
        model = model_with_ties(seed)
        spec = BeamSpec(beam_size=beam_size, n_best=n_best, max_length=5, finished_apart=separate)
        hypotheses = [(tuple(h.token_ids), h.log_prob, h.finished) for h in decode(spec, model)]
        expected = plain.beam_search(model, beam_size, 5, apart=separate)[:n_best]
        assert hypotheses == [(h.token_ids, h.log_prob, h.finished) for h in expected]


def test_statistics_count_calls_nodes_and_tokens(model: Model) -> None:
    plain_run = model.predict(SHORT, drafter="none", max_length=MAX_LENGTH, batch_size=1)
    counts = plain_run.statistics
    assert counts.queries == len(SHORT)
    assert counts.decoder_calls == counts.query_calls == counts.nodes == counts.emitted_tokens
    assert counts.drafted_tokens == counts.accepted_tokens == 0
    options = {"drafter": TreeDraft(), "max_length": MAX_LENGTH, "batch_size": 1}
    drafted = model.predict(SHORT, **options).statistics
    assert drafted.emitted_tokens == counts.emitted_tokens
    assert drafted.decoder_calls == counts.decoder_calls - drafted.accepted_tokens
    assert drafted.nodes == drafted.decoder_calls + drafted.drafted_tokens
    assert 0 < drafted.accepted_per_emitted < 1
    batched = model.predict(SHORT, drafter="none", max_length=MAX_LENGTH, batch_size=4).statistics
    assert batched.query_calls == counts.query_calls
    assert batched.decoder_calls < counts.decoder_calls
