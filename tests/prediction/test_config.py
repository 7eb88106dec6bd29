"""Options resolved for a model: equal ones are one, and files name all that decides answers."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import molspec
from molspec.decoding.drafter import EncoderDrafter
from molspec.drafting import DraftContext, ModelDraft, TreeDraft
from molspec.prediction.cache import AnswerCache
from molspec.prediction.config import DecodeConfig, Identity
from molspec.prediction.decoder import Decoder
from molspec.prediction.options import PredictOptions
from tests import refused, tiny

CPU, GPU = Identity("f00d", "cpu", "float32", 1000), Identity("f00d", "cuda", "bfloat16", 1000)
#: The settings that every case has.
SHARED = (
    {"molspec": molspec.__version__, "model": "product", "weights": "f00d"}
    | {"device": "cpu", "dtype": "float32", "batch_size": 32}
    | {"n_best": 1, "beam_size": 1, "beam": "greedy", "length_penalty": 0.0, "finished": "beam"}
    | {"min_length": 1, "max_length": None, "target_prefix": None, "token_log_probs": False}
    | {"canonical_queries": True, "augmentations": 1, "augment_below": None}
    | {"merge_duplicates": False, "drop_invalid": False, "drop_unchanged": False}
    | {"drop_impossible": False, "max_beam_factor": 4}
    | {"samples": None, "temperature": 1.0, "top_k": None, "top_p": None, "seed": 0}
    | {"verification": "strict", "beta": 3, "tau": 1.0, "judge": "model"}
)
EVEN = {"choice": "even", "dilution": False, "smart": False}
WINDOWS = {"kind": "WindowDrafts", "draft_length": 5, "draft_count": 23} | EVEN
SMALL = {"kind": "ModelDraft", "model": "small", "gamma": 3, "drafter": "none", "width": None}
#: Options, and their settings as journals hold them.
WRITTEN: dict[str, tuple[Identity, dict[str, Any], dict[str, Any]]] = {
    "greedy": (
        CPU,
        {},
        {"drafter": {**vars(TreeDraft(16, 64, 1 / (2 + 2 / 32))), "kind": "TreeDraft"}},
    ),
    "sbs": (
        CPU,
        {"n_best": 2, "beam": "sbs", "draft_length": 5},
        {"n_best": 2, "beam_size": 2, "beam": "sbs", "drafter": WINDOWS},
    ),
    "samples": (
        CPU,
        {"samples": 3, "temperature": 0.5, "verification": "rejection", "canonical_queries": False},
        (
            {"samples": 3, "temperature": 0.5, "verification": "rejection"}
            | {"beam": "sampling", "canonical_queries": False}
            | {"drafter": {**vars(TreeDraft(16, 64, 1 / 4)), "kind": "TreeDraft"}}
        ),
    ),
    "a smaller model": (
        GPU,
        {"n_best": 12, "drafter": ModelDraft(Path("small"), gamma=3)},
        (
            {"device": "cuda", "dtype": "bfloat16"}
            | {"n_best": 12, "beam_size": 12, "beam": "exact"}
            | {"drafter": {**SMALL, "dtype": "float32"}}
        ),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_settings_name_all_that_decides_answers(name: str) -> None:
    identity, given, differing = WRITTEN[name]
    options = PredictOptions(**given)
    config = DecodeConfig(options, identity, options.canonical_queries is not False, 200)
    expected = {**SHARED, **differing}
    assert config.settings("product") == expected
    assert list(config.settings("product"))[-1] == "drafter"
    if not config.options.drafts_decide:
        del expected["batch_size"], expected["drafter"]
    assert config.answer_settings("product") == expected


@pytest.mark.parametrize("drafter", [None, "windows", TreeDraft(7), ModelDraft("small")])
def test_equal_configs_are_one_key_and_pickle(drafter: Any) -> None:
    model = tiny.model()
    config, again = (
        model.decode_config(PredictOptions(n_best=1, drafter=drafter)) for _ in range(2)
    )
    config.settings("tiny")
    if not isinstance(drafter, ModelDraft):
        config.strategy(model.context)  # a native object, which stays in this process
    copy = pickle.loads(pickle.dumps(config))
    assert len({config, again, copy, replace(config)}) == 1
    assert copy != replace(config, max_length=1)
    assert copy.drafter == config.drafter
    if not isinstance(drafter, ModelDraft):
        queries = list(tiny.QUERIES)
        assert list(model.predict_stream(queries, copy)) == model.predict(queries, drafter=drafter)


def test_a_config_of_another_model_is_refused() -> None:
    model, config = tiny.model(1), tiny.model(2).decode_config()
    for use in (
        lambda: model.predict_stream(["CCO"], config),
        lambda: Decoder(model).submit("CCO", config),
        lambda: AnswerCache().predict(model, ["CCO"], config),
    ):
        refused(r"^options are of Identity\(.*", use)


def test_searches_that_a_model_chose_are_used_again() -> None:
    model = tiny.model()
    for options in (PredictOptions(), PredictOptions(n_best=3), PredictOptions(drafter="windows")):
        plans = [model.decode_config(replace(options)).plan(8) for _ in range(2)]
        assert plans[0] is plans[1]


def test_queries_with_equal_drafters_share_one(tmp_path: Path) -> None:
    """It drafts for all of them in one call, whatever else their options are."""
    built: list[int] = []

    class Maker:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Maker)

        __hash__ = None  # type: ignore[assignment]

        def build(self, context: DraftContext) -> Any:
            built.append(context.width)
            drafter = context.build(TreeDraft(4))
            assert not isinstance(drafter, EncoderDrafter)
            return drafter

    model = tiny.model()
    decoder = Decoder(model, 4)
    for options in ({}, {"max_length": 9}, {"n_best": 2}, {"n_best": 2, "max_length": 9}):
        made = PredictOptions(drafter=Maker(), **options)
        for _ in range(2):
            decoder.submit("CCO", made)
    assert built == [1, 2]
    answers = [result for _, result in sorted(decoder.finish())]
    assert answers[6:] == list(model.predict(["CCO"] * 2, 2, max_length=9, drafter="none"))
