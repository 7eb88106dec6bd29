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
from tests.training.tiny import sample_reactions

TINY = {**CONFIG["model"], "d_model": 16, "feed_forward": 16}


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if isinstance(result.exception, UsageError):  # of reading the arguments
        return 2, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


def test_prepared_data_trains_a_model_that_trains_further(tmp_path: Path) -> None:
    rows = sample_reactions(60)
    reactions = tmp_path / "reactions.smi"
    reactions.write_text("\n".join([*rows, "junk"]))
    data, first = tmp_path / "data", tmp_path / "first"
    shares = ("--task", "retro", "--validation-share", 0.2)
    status, printed = run("prepare", reactions, "--output", data, *shares, "--variants", 2)
    assert status == 0
    assert "rejected: 1 x not a reaction SMILES" in printed
    assert "pairs of reactions.smi validation: " in printed
    settings = tmp_path / "config.json"
    settings.write_text(json.dumps({"minutes": 9.0, "model": TINY, "batch_tokens": 600}))
    budget = ("--steps", 3, "--config", settings, "--device", "cpu")
    status, printed = run("train", "--data", data, "--output", first, *budget)
    assert status == 0
    assert "3 steps in" in printed
    assert checkpoints.read(first / "model").spec.d_model == 16

    same_vocabulary = ("--vocabulary", first / "model")
    other = tmp_path / "other"
    assert run("prepare", reactions, "--output", other, *shares, *same_vocabulary)[0] == 0
    further = ("--start", first / "model", "--steps", 2, "--batch-tokens", 600)
    status, printed = run("train", "--data", other, "--output", tmp_path / "second", *further)
    assert status == 0
    assert "token accuracy" in printed
    assert "top-1" in printed


def test_prepare_counts_unaligned_reactions(tmp_path: Path) -> None:
    reactions, validation = tmp_path / "some.smi", tmp_path / "validation.smi"
    reactions.write_text("CCCl>>CCO\n[CH3:1]Cl.O>>[CH3:1]O")
    validation.write_text("CO>>COC")
    rest = ("--output", tmp_path / "data", "--task", "product", "--validation", validation)
    status, printed = run("prepare", reactions, *rest)
    assert status == 0
    assert "2 pairs of some.smi not aligned: 1 reactions without atom maps" in printed


def test_a_judge_filters_data_and_train_reads_several_folders(tmp_path: Path) -> None:
    rows = sample_reactions(40)
    held_out, reactions = tmp_path / "validation.smi", tmp_path / "reactions.smi"
    held_out.write_text("\n".join(rows[:8]))
    reactions.write_text("\n".join(rows[8:]))
    shared = ("--task", "retro", "--validation", held_out, "--variants", 1, "--vocabulary", "retro")
    prepare = ("prepare", reactions, *shared, "--output")
    assert run(*prepare, tmp_path / "all")[0] == 0
    judged = ("--max-nats", 3, "--judge")
    status, printed = run(*prepare, tmp_path / "good", *judged, "retro")
    assert status == 0
    assert "x more than 3 nats to the judge" in printed
    assert "reactions of validation.smi judge: kept " in printed
    judge = read(tmp_path / "good").description["judge"]
    retro = checkpoints.read(bundled.locate("retro"))
    assert judge["name"] == f"retro, {retro.fingerprint()}"
    status, printed = run(*prepare, tmp_path / "no", *judged, "product")
    assert (status, "judge is a model of the task 'product'" in printed) == (2, True)
    counts = {name: len(read(tmp_path / name).train) for name in ("all", "good")}
    assert 0 < counts["good"] < counts["all"]
    settings = tmp_path / "config.json"
    settings.write_text(json.dumps({"steps": 1, "model": TINY, "batch_tokens": 600}))
    folders = ("--data", tmp_path / "all", "--data", tmp_path / "good", "--device", "cpu")
    assert run("train", *folders, "--output", tmp_path / "run", "--config", settings)[0] == 0
    card = checkpoints.read(tmp_path / "run" / "model").card
    assert f"reactions.smi, reactions.smi: {sum(counts.values())} reactions" in str(card)


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


def test_average(tmp_path: Path) -> None:
    for seed, name in enumerate(("first", "second")):
        checkpoints.write(tiny.checkpoint(seed), tmp_path / name)
    command = ("average", tmp_path / "first", tmp_path / "second")
    shares = ("--share", 3, "--share", 1)
    status, printed = run(*command, "--output", tmp_path / "mean", *shares)
    assert (status, printed) == (0, f"the model is {tmp_path / 'mean'}")
    assert f"| {tmp_path / 'first'} | 3 |" in str(checkpoints.read(tmp_path / "mean").card)
    first, second, mean = (
        checkpoints.read(tmp_path / name).weights for name in ("first", "second", "mean")
    )
    for name, weight in mean.items():
        torch.testing.assert_close(weight, 0.75 * first[name] + 0.25 * second[name])
    status, printed = run(*command, "--output", tmp_path / "other", "--share", 3)
    assert status == 2
    assert "shares has 1 items: expected 2, one a model" in printed


def test_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "OPTIONS", replace(sample.OPTIONS, variants=1))
    output = tmp_path / "tiny"
    config = tmp_path / "config.json"
    config.write_text('{"model": {"feed_forward": 96}}')
    status, _ = run("train", "--sample", "--output", output, "--steps", 1, "--config", config)
    assert status == 0
    description = json.loads((tmp_path / "tiny-data" / "prepared.json").read_text())
    assert description["train"]["reactions"] + description["validation"]["reactions"] > 1990
    spec = checkpoints.read(output / "model").spec
    assert (spec.d_model, spec.feed_forward) == (CONFIG["model"]["d_model"], 96)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train", "give either --data FOLDER or --sample"),
        ("train --data . --steps 1", "prepared.json is missing"),
        ("train --data . --steps 1 --start x", "no model 'x'"),
        ("train --sample --start retro", "leave --start out"),
        ("train --sample --config list.json", "list.json holds a list"),
        ("prepare list.json --task both", "task is 'both'"),
        ("prepare none --task retro", "No such file"),
    ],
)
def test_wrong_arguments_print_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[1]")
    status, printed = run(*arguments.split(), "--output", "out")
    assert status == 2
    assert message in printed


def test_an_interrupted_preparation_says_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("molspec.training.preparation.prepare", interrupt)
    status, printed = run("prepare", FILE, "--output", tmp_path / "out", "--task", "retro")
    assert status == 130
    assert "the same command resumes from the state that was saved last" in printed
