"""Models that draft for other models: calls and invalid options."""

from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pytest

from molspec import _native
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.checkpoints.folder import write
from molspec.drafting import LookAhead, ModelDraft, NoDraft, Path, native_options
from molspec.prediction.model import Model
from molspec.text import Vocabulary
from tests import refused, tiny
from tests.laws import cases

SHORT = tiny.QUERIES[:-1]
MAX_LENGTH = 30


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.drafting_model()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> FilePath:
    folder = tmp_path_factory.mktemp("models")
    cases.write_models(folder)
    return folder


@pytest.mark.parametrize("kind", ["adaptive", "model and tree", "hierarchy"])
@pytest.mark.parametrize(
    ("n_best", "ahead"), [(1, None), (3, None), (4, LookAhead(30, min_confidence=0.1))]
)
def test_drafts_of_the_model_itself_save_calls(
    model: Model, folder: FilePath, kind: str, n_best: int, ahead: LookAhead | None
) -> None:
    drafter = cases.drafters(folder)[kind]()
    drafter = drafter if ahead is None else replace(ahead, drafter=drafter)
    plain = model.predict(SHORT, n_best, drafter="none", max_length=MAX_LENGTH)
    drafted = model.predict(SHORT, n_best, drafter=drafter, max_length=MAX_LENGTH)
    assert drafted.statistics.query_calls < 0.75 * plain.statistics.query_calls


def test_drafts_of_identical_model_are_accepted(model: Model, folder: FilePath) -> None:
    drafter = ModelDraft(str(folder / "same"), gamma=4)
    results = model.predict(SHORT, drafter=drafter, max_length=MAX_LENGTH)
    plain = model.predict(SHORT, drafter="none", max_length=MAX_LENGTH)
    calls = sum(-(-result.statistics.emitted_tokens // 5) for result in plain)
    assert results.statistics.query_calls == calls
    rejected = results.statistics.drafted_tokens - results.statistics.accepted_tokens
    assert rejected <= len(SHORT)  # at most the tokens that EOS or max_length cuts off


def test_drafter_does_not_evaluate_tokens_twice(model: Model, folder: FilePath) -> None:
    """With one query, no step evaluates more than two nodes, whatever the path's length."""
    drafter = model.context.build(ModelDraft(str(folder / "same"), gamma=4))
    node_counts = []
    step = drafter._session.step

    def counting_step(nodes: Any, *arguments: Any) -> Any:
        node_counts.append(len(nodes))
        return step(nodes, *arguments)

    drafter._session.step = counting_step  # type: ignore[method-assign]
    (result,) = model.predict(SHORT[:1], drafter=drafter, max_length=MAX_LENGTH)
    # First BOS; later the model's added token, and the last drafted token if not yet evaluated.
    assert max(node_counts) <= 2
    assert drafter._rows == {}
    assert result.statistics.decoder_calls < MAX_LENGTH


def continuations(model: Model, rows: int) -> _native.Continuations:
    drafts, guess = native_options(NoDraft()), model.context.guess
    return _native.Continuations(row_count=rows, guess_model=guess, drafts=drafts, width=1)


def test_trees_are_not_changed_by_later_requests(model: Model) -> None:
    paths = continuations(model, 2)
    trees = []
    for row, token_id in enumerate((4, 6)):
        paths.start(row, [4, 6])
        paths.request([_native.Path(row=row, token_ids=[], log_prob=0.0)], [1])
        paths.plan([])
        log_probs = np.full((len(paths.nodes), tiny.VOCABULARY.size), -9.0, np.float32)
        log_probs[:, token_id] = -0.1
        assert paths.advance(log_probs)
        trees.append(paths.trees[0])
    assert [tree.token_ids for tree in trees] == [[4], [6]]


def test_a_refused_request_leaves_no_path(model: Model) -> None:
    paths = continuations(model, 1)
    paths.start(0, [4, 6])
    known, unknown = (_native.Path(row=0, token_ids=ids, log_prob=0.0) for ids in ([4], [99]))
    refused("^token id is 99", paths.request, [known, unknown], [1, 1])
    paths.plan([])
    assert len(paths.nodes) == 0


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_failed_pass_of_a_draft_model_is_evaluated_anew(
    model: Model, folder: FilePath, fails_at: int
) -> None:
    """Drafts after it are those of a drafter that never failed."""

    def proposals(fails: bool) -> list[list[int]]:
        drafter = model.context.build(ModelDraft(folder / "same", gamma=3))
        drafter.start(0, [4, 6])
        drafter.read(0, [4, 6], [1, 4, 6, 2])
        step, count = drafter._session.step, 0

        def failing_step(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if fails and count == 1 + fails_at:
                raise MemoryError
            return step(*arguments)

        drafter._session.step = failing_step  # type: ignore[method-assign]
        found = []
        for token_ids in ([], [4], [4, 4, 6]):
            paths = [Path(0, token_ids, 0.0)]
            try:
                (tree,) = drafter.propose(paths)
            except MemoryError:
                (tree,) = drafter.propose(paths)
            found.append(list(tree.token_ids))
        return found

    assert proposals(fails=True) == proposals(fails=False)


@pytest.mark.parametrize("kind", ["continuations", "spec_drafter"])
def test_advance_needs_a_plan(model: Model, kind: str) -> None:
    paths: Any = continuations(model, 1)
    if kind == "spec_drafter":
        limits = {"guess_model": model.context.guess, "node_budget": 3, "min_log_prob": -9.0}
        paths = _native.SpecDrafterPaths(row_count=1, **limits)
    paths.start(0, [4, 6])
    paths.request([_native.Path(row=0, token_ids=[], log_prob=0.0)], [2])
    with pytest.raises(ValueError, match=r"^nothing is staged: expected plan\(\) after request"):
        paths.advance(np.zeros((0, tiny.VOCABULARY.size), np.float32))


def test_error_names_drafter_with_another_vocabulary(model: Model, folder: FilePath) -> None:
    tokens = (*tiny.TOKENS[:6], "S", *tiny.TOKENS[7:])
    path = folder / "other"
    weights = tiny.checkpoint().weights
    write(Checkpoint(tiny.SPEC, weights, Vocabulary(tokens, unk_id=3)), path)
    message = (
        r"^drafter '.*other' has another vocabulary than the model that it drafts for: "
        r"token 6 is 'S' of 13 there and 'N' of 13 here; expected the same tokens"
    )
    refused(message, model.predict, SHORT, drafter=ModelDraft(str(path)))
    refused(message, model.context.build, ModelDraft(folder / "same", drafter=ModelDraft(path)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0}, "gamma is 0: expected a whole number of at least 1"),
        ({"gamma": "some"}, "gamma is 'some': expected 'adaptive' or a whole number"),
        ({"gamma": 1.5}, "gamma is 1.5: expected a whole number of at least 1"),
        ({"width": 0}, "width is 0: expected a whole number of at least 1"),
        ({"drafter": "fast"}, "drafter is 'fast': expected one of none, windows, tree"),
        ({"drafter": LookAhead(3)}, "drafter is LookAhead"),
        ({"drafter": "heads"}, "drafter is HeadsDraft"),
    ],
)
def test_invalid_options_are_refused(options: Any, message: str) -> None:
    refused(f"^{message}", ModelDraft, "product", **options)


def test_refuses_invalid_drafter_models(model: Model) -> None:
    refused(CheckpointError, "nowhere", model.predict, SHORT, drafter=ModelDraft("nowhere"))
    with pytest.raises(ValueError, match=r"^model is a int: expected the name or the path"):
        model.predict(SHORT, drafter=ModelDraft(3))
