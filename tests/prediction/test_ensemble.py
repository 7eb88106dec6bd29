"""Several models answer as one, whose probabilities are their mean."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import molspec
from molspec import checkpoints
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.checkpoints.bundled import locate
from molspec.checkpoints.ensemble import members
from molspec.drafting import LookAhead, ModelDraft
from molspec.model.spec import HeadsSpec
from molspec.model.transformer import Transformer
from molspec.prediction.model import Model
from molspec.prediction.results import Prediction
from molspec.text import Vocabulary
from tests import refused, tiny
from tests.search import plain

SHORT = tiny.QUERIES[:-1]
MAX_LENGTH = 20
MEMBERS = tiny.checkpoint(), *tiny.others()
EAGER = LookAhead(node_budget=40, steps=5, min_confidence=0.0)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(MEMBERS[0], others=MEMBERS[1:])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("members")
    for name, checkpoint in zip("abc", MEMBERS, strict=True):
        checkpoints.write(replace(checkpoint, card=name, task="product"), folder / name)
    return [str(folder / name) for name in "abc"]


def by_torch(members: Sequence[Checkpoint], source_ids: Sequence[int]) -> plain.NextLogProbs:
    """The log of the mean probability, by PyTorch modules that recompute each prefix."""
    source = torch.tensor([[plain.VOCABULARY.bos_id, *source_ids, plain.EOS]])
    twins = [Transformer(each.spec, dropout=0.0).double().eval() for each in members]
    for twin, each in zip(twins, members, strict=True):
        twin.load_state_dict(dict(each.weights))

    @cache
    @torch.inference_mode()
    def mean(prefix: tuple[int, ...]) -> list[float]:
        parts = [twin(source, torch.tensor([prefix]))[0, -1].softmax(dim=-1) for twin in twins]
        found: list[float] = torch.stack(parts).mean(dim=0).log().tolist()
        return found

    return lambda prefix: mean(tuple(prefix))


def check(found: Sequence[Prediction], expected: Sequence[plain.Hypothesis]) -> None:
    assert [e.smiles for e in found] == [plain.VOCABULARY.decode(e.token_ids) for e in expected]
    for each, one in zip(found, expected, strict=True):
        assert each.log_prob == pytest.approx(one.log_prob, abs=1e-4)


def test_answers_are_those_of_a_plain_loop_in_pytorch(model: Model) -> None:
    """No search knows its engine, so one token a step and several show the means of all."""
    greedy = model.predict(SHORT, token_log_probs=True, max_length=MAX_LENGTH)
    beams = model.predict(SHORT, 4, drafter=EAGER, max_length=MAX_LENGTH)
    for at, query in enumerate(SHORT):
        mean = by_torch(MEMBERS, plain.VOCABULARY.encode(query))
        expected = plain.greedy(mean, MAX_LENGTH)
        check(greedy[at].predictions, [expected])
        ids = [plain.VOCABULARY.bos_id, *expected.token_ids, *[plain.EOS] * expected.finished]
        values = [mean(ids[:end])[ids[end]] for end in range(1, len(ids))]
        assert greedy[at].predictions[0].token_log_probs == pytest.approx(values, abs=1e-4)
        check(beams[at].predictions, plain.beam_search(mean, 4, MAX_LENGTH))
    assert len({result.predictions[0].smiles for result in greedy}) > 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_the_mean_of_copies_has_the_bits_of_the_model(dtype: str) -> None:
    one, three = (Model(MEMBERS[0], dtype, others=[MEMBERS[0]] * count) for count in (0, 2))
    for options in ({}, {"n_best": 5}, {"samples": 3}):
        found, expected = three.predict(SHORT, **options), one.predict(SHORT, **options)
        assert list(found) == list(expected)
        # A pass of the ensemble is one of each member.
        assert found.statistics.decoder_calls == expected.statistics.decoder_calls
        assert found.statistics.nodes == expected.statistics.nodes


@pytest.mark.parametrize("drafter", ["heads", "spec"])
def test_the_drafters_are_those_of_the_first(drafter: Any) -> None:
    first = replace(tiny.with_heads(HeadsSpec("low-rank", 3, 8)), ngram=None)
    first = replace(first, spec_drafter=tiny.with_spec_drafter(2).spec_drafter)
    model = Model(first, others=tiny.others())
    found = model.predict(SHORT, 2, drafter=drafter, max_length=12, batch_size=3)
    assert found.statistics.drafted_tokens > 0
    without = Model(tiny.checkpoint(), others=[first])
    refused(rf"^drafter is '{drafter}': the model has no ", without.predict, SHORT, drafter=drafter)


def test_a_query_is_as_long_as_the_shortest_member_reads() -> None:
    short = replace(tiny.SPEC, max_positions=40)
    other = replace(MEMBERS[0], spec=short)
    model = Model(MEMBERS[0], others=[other])
    results = model.predict(["C" * 38, "C" * 39, "CCO"])
    assert [result.error is None for result in results] == [True, False, True]
    assert results[1].error == "39 tokens: expected at most 38, the model's longest source"
    assert model.decode_config().max_length == 40


def test_a_list_or_a_joined_name_is_an_ensemble(folders: list[str]) -> None:
    models = [molspec.load(folders), molspec.load("+".join(folders))]
    one = molspec.load(folders[:1])
    assert [each.member_count for each in (*models, one)] == [3, 3, 1]
    assert models[0].identity == models[1].identity
    assert repr(models[0]).startswith("<Model product: 3 averaged, 0.1 million parameters")
    assert (one.card, models[0].card) == ("a", None)
    assert list(models[0].predict(SHORT)) == list(models[1].predict(SHORT))


def test_the_identity_covers_all_members_in_their_order(folders: list[str]) -> None:
    a, b, c = folders
    lists = ([a], [a, a], [a, b], [b, a], [a, b, c], [a, c, b])
    assert len({molspec.load(names).identity.weights for names in lists}) == len(lists)
    answers = molspec.AnswerCache()
    answers.predict(molspec.load([a, b]), SHORT)
    for names, hits in (([a, b], len(SHORT)), ([b, a], len(SHORT)), ([a, c], len(SHORT))):
        answers.predict(molspec.load(names), SHORT)
        assert answers.hits == hits


VARIANTS: dict[str, Checkpoint] = {
    "token 12 is '#' of 13 there": tiny.checkpoint(
        vocabulary=Vocabulary((*tiny.TOKENS[:-1], "#"), unk_id=3)
    ),
    "token 13 is 'S' of 14 there": tiny.checkpoint(
        vocabulary=Vocabulary((*tiny.TOKENS, "S"), unk_id=3)
    ),
    "unk_id is None there": tiny.checkpoint(vocabulary=Vocabulary(tiny.TOKENS)),
    "start_id is 2 there": tiny.checkpoint(start_id=2),
    "source_bos is False there": tiny.checkpoint(source_bos=False),
    "target_bos is True there": tiny.checkpoint(target_bos=True),
    "task is 'retro' there": replace(tiny.checkpoint(), task="retro"),
    "template is 'C{}' there": replace(tiny.checkpoint(), template="C{}"),
    "canonical_queries is True there": replace(tiny.checkpoint(), canonical_queries=True),
}


@pytest.mark.parametrize("message", VARIANTS)
def test_models_that_differ_are_refused(message: str, tmp_path: Path) -> None:
    paths = [tmp_path / folder for folder in "abc"]
    for path, checkpoint in zip(paths, (*MEMBERS[:2], VARIANTS[message]), strict=True):
        checkpoints.write(checkpoint, path)
    expected = f"{paths[2]} (there) and {paths[0]} (here) cannot be averaged: {message}"
    refused(CheckpointError, f"^{re.escape(expected)}", molspec.load, paths)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ([], "name_or_path is empty"),
        ("product+gone", "no model 'gone'"),
        ("product+", "no model ''"),
        (["product", 7], "name_or_path is 7"),
        (None, "name_or_path is None: expected product or retro, or the path of a checkpoint"),
        ({"retro"}, "name_or_path is {'retro'}"),
        (b"product", "name_or_path is b'product'"),
        (
            "product+retro",
            r"retro (there) and product (here) cannot be averaged: task is 'retro' there",
        ),
    ],
)
def test_a_wrong_member_is_named(name: Any, message: str) -> None:
    refused(CheckpointError, f"^{re.escape(message)}", molspec.load, name)


def test_one_model_is_expected_elsewhere() -> None:
    message = r"^no model 'a\+b': .*; here several cannot be averaged$"
    refused(message, locate, "a+b")
    refused(message, tiny.model().predict, ["C"], drafter=ModelDraft("a+b"))


def test_an_ensemble_drafts_for_a_model_and_answers_again_without_its_caches(model: Model) -> None:
    options: dict[str, Any] = {"bos_id": 1, "eos_id": 2, "pad_id": 0, "max_length": 9}
    drafter = ModelDraft(model, gamma=3)
    drafted = molspec.decode(tiny.model(), [[1, 4, 5, 7, 2]], drafter=drafter, **options)
    assert drafted.statistics.accepted_tokens > 0
    expected = model.predict(SHORT, 2, max_length=9)
    model.free_caches()
    assert model.predict(SHORT, 2, max_length=9) == expected


def test_a_path_with_a_plus_sign_is_one_model(tmp_path: Path) -> None:
    path = tmp_path / "a+b"
    path.mkdir()
    assert members(f"{path}") == [str(path)]
    assert members(f"{path}+product+{path}") == [str(path), "product", str(path)]
