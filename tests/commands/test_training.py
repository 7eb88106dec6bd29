"""The training commands, as the command line runs them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from molspec import checkpoints, load
from molspec.checkpoints import bundled
from molspec.commands import cli, training
from molspec.common.console import UsageError
from molspec.training import sample
from molspec.training.prepared import read
from molspec.training.sample import CONFIG, FILE
from tests import tiny
from tests.commands.conftest import write
from tests.training.tiny import sample_reactions


def printed(arguments: str, expected: int = 0) -> str:
    """What a command prints, in a line."""
    result = CliRunner().invoke(cli.app, arguments.split())
    if isinstance(result.exception, UsageError):  # of reading the arguments
        status, text = 2, str(result.exception)
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    else:
        status, text = result.exit_code, " ".join(result.output.split())
    assert status == expected, text
    return text


def write_config(**settings: object) -> None:
    model = {**CONFIG["model"], "d_model": 16, "feed_forward": 16}
    write("config.json", json.dumps({"model": model, "batch_tokens": 600, **settings}))


def test_prepared_data_trains_a_model_that_trains_further() -> None:
    write("reactions.smi", "\n".join([*sample_reactions(60), "junk"]))
    prepare = "prepare reactions.smi --task retro --validation-share 0.2 --output"
    told = printed(f"{prepare} data --variants 2")
    assert "rejected: 1 x not a reaction SMILES" in told
    assert "pairs of reactions.smi validation: " in told
    write_config(minutes=9.0)
    told = printed("train --data data --output first --steps 3 --config config.json --device cpu")
    assert ("3 steps in" in told, "tokens teach too little, tens of" in told) == (True, True)
    assert checkpoints.read("first/model").spec.d_model == 16
    printed(f"{prepare} other --vocabulary first/model")
    further = "--start first/model --steps 2 --batch-tokens 600"
    told = printed(f"train --data other --output second {further}")
    assert "token accuracy" in told
    assert "top-1" in told


def test_prepare_counts_unaligned_reactions() -> None:
    write("some.smi", "CCCl>>CCO\n[CH3:1]Cl.O>>[CH3:1]O")
    write("validation.smi", "CO>>COC")
    told = printed("prepare some.smi --output data --task product --validation validation.smi")
    assert "2 pairs of some.smi not aligned: 1 reactions without atom maps" in told
    told = printed("prepare some.smi --output retro --task retro --validation validation.smi")
    assert "1 reactions without atom maps: one pair each, whatever --variants is" in told


def test_a_judge_filters_data_and_train_reads_several_folders() -> None:
    rows = sample_reactions(40)
    write("validation.smi", "\n".join(rows[:8]))
    write("reactions.smi", "\n".join(rows[8:]))
    shared = "--task retro --validation validation.smi --variants 1 --vocabulary retro"
    prepare = f"prepare reactions.smi {shared} --output"
    printed(f"{prepare} all")
    told = printed(f"{prepare} good --max-nats 3 --judge retro")
    assert "x more than 3 nats to the judge" in told
    assert "reactions of validation.smi judge: kept " in told
    judge = read("good").description["judge"]
    assert judge["name"] == f"retro, {checkpoints.read(bundled.locate('retro')).fingerprint()}"
    told = printed(f"{prepare} no --max-nats 3 --judge product", 2)
    assert "--judge is a model of the task 'product'" in told
    counts = {name: len(read(name).train) for name in ("all", "good")}
    assert 0 < counts["good"] < counts["all"]
    write_config(steps=1)
    folders = "--data all --data good --device cpu"
    printed(f"train {folders} --output run --config config.json")
    card = str(checkpoints.read("run/model").card)
    assert f"reactions.smi, reactions.smi: {sum(counts.values())} reactions" in card


def test_a_judge_scores_molecules_in_the_models_spelling() -> None:
    """A canonical target, of a reaction without maps, is improbable to a model of aligned text.

    A target that maps aligned is judged as it is spelt.
    """
    pair = ("CCNC(=O)c1ccccc1", "CCN.O=C(Cl)c1ccccc1")
    pairs = [(*pair, False), (*pair, True), (*pair, False)]
    judged = list(training._judge("retro", "retro", 1).log_probs(pairs))
    model = load("retro")
    plain, aligned = (
        model.log_probs([pair[0]], [pair[1]], aligned=each)[0].predictions[0].log_prob
        for each in (False, True)
    )
    assert plain < aligned
    assert judged == [aligned, plain, aligned]


def test_average() -> None:
    for seed, name in enumerate(("first", "second")):
        checkpoints.write(tiny.checkpoint(seed), name)
    told = printed("average first second --output mean --share 3 --share 1")
    assert told == "the model is mean"
    assert "| first | 3 |" in str(checkpoints.read("mean").card)
    first, second, mean = (checkpoints.read(name).weights for name in ("first", "second", "mean"))
    for name, weight in mean.items():
        torch.testing.assert_close(weight, 0.75 * first[name] + 0.25 * second[name])
    told = printed("average first second --output other --share 3", 2)
    assert "shares has 1 items: expected 2, one a model" in told


def test_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "OPTIONS", replace(sample.OPTIONS, variants=1))
    write("config.json", '{"model": {"feed_forward": 96}}')
    printed("train --sample --output tiny --steps 1 --config config.json")
    description = json.loads(Path("tiny-data/prepared.json").read_text())
    assert description["train"]["reactions"] + description["validation"]["reactions"] > 1990
    spec = checkpoints.read("tiny/model").spec
    assert (spec.d_model, spec.feed_forward) == (CONFIG["model"]["d_model"], 96)


def test_an_interrupted_preparation_says_how_to_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("molspec.training.preparation.prepare", interrupt)
    told = printed(f"prepare {FILE} --output out --task retro", 130)
    assert "the same command resumes from the state that was saved last" in told
