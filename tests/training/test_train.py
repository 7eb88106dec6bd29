"""Training learns, resumes exactly, and stops when it should; tests/faults kills it."""

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.model import transformer
from molspec.model.transformer import Transformer
from molspec.training import PrepareOptions, TrainingError, prepare, prepared, train, trainer
from molspec.training.batches import Batches
from molspec.training.prepared import EncodedPairs, read
from molspec.training.torchrun import Ranks
from molspec.training.trainer import ModelTrainer
from molspec.training.validation import Validator
from tests import refused
from tests.training.tiny import CONFIG, assert_equal, column, weights


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training without interruption."""
    output = tmp_path_factory.mktemp("unbroken") / "run"
    train(data, output, CONFIG)
    return output


Before = Callable[[Callable[[ModelTrainer], object]], None]


@pytest.fixture
def before_steps(monkeypatch: pytest.MonkeyPatch) -> Before:
    """Calls a function with the trainer before each step."""
    step = ModelTrainer.step

    def patch(function: Callable[[ModelTrainer], object]) -> None:
        def stepped(self: ModelTrainer, progress: float) -> tuple[Tensor, float]:
            function(self)
            return step(self, progress)

        monkeypatch.setattr(ModelTrainer, "step", stepped)

    return patch


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What a training logs."""
    caplog.set_level("INFO", "molspec.training")
    return caplog


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_step_and_training_resumes_there(
    data: Path,
    unbroken: Path,
    tmp_path: Path,
    before_steps: Before,
    told: pytest.LogCaptureFixture,
    number: signal.Signals,
) -> None:
    """The caller's handler of the signal is called, and the training is interrupted."""
    received: list[int] = []
    before = signal.signal(number, lambda number, _: received.append(number))
    before_steps(lambda self: self.step_count == 10 and os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "run", CONFIG)
    assert received == [number]
    signal.signal(number, before)
    assert f"{number.name}: stopped at step 11 of 24" in told.text
    train(data, tmp_path / "run", CONFIG)
    assert f"{tmp_path / 'run'}: resumed at step 11 of 24" in told.text
    assert_equal(weights(tmp_path / "run"), weights(unbroken))
    for name in ("step", "tokens", "loss", "token_accuracy"):
        expected = column(unbroken, "validation.csv", name)
        assert column(tmp_path / "run", "validation.csv", name) == expected


def test_progress_is_logged_without_a_terminal(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("molspec.training.loop._REPORT_SECONDS", 0.0)
    train(data, tmp_path / "run", replace(CONFIG, steps=16))
    pace, first, second = told.messages
    assert "tokens/s; 16 steps are about 0." in pace
    assert first.startswith("step 8 of 16, 0.")
    assert "loss 3." in first
    assert "tokens/s" in first
    assert "accuracy" in second


def test_training_learns_and_writes_a_model(data: Path, unbroken: Path) -> None:
    losses = column(unbroken, "validation.csv", "loss")
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.95 * losses[0]
    assert column(unbroken, "validation.csv", "step") == [8, 16, 24]
    checkpoint = checkpoints.read(unbroken / "model")
    assert checkpoint.spec.d_model == 16
    assert checkpoint.vocabulary == read(data).vocabulary
    assert checkpoint.aligned == read(data).description["aligned"] is True
    assert checkpoint.card is not None
    # Accuracies of 11 reactions are sometimes equal; the first of the best models is written.
    accuracies = column(unbroken, "validation.csv", "token_accuracy")
    best = 8 * (1 + accuracies.index(max(accuracies)))
    assert f"{best} steps" in checkpoint.card


def test_settings_and_seed_decide_the_weights(data: Path, unbroken: Path, tmp_path: Path) -> None:
    state = torch.get_rng_state()
    train(data, tmp_path / "same", CONFIG)
    assert torch.equal(torch.get_rng_state(), state)  # random numbers stay the caller's
    assert_equal(weights(tmp_path / "same"), weights(unbroken))
    train(data, tmp_path / "other", replace(CONFIG, seed=1))
    other = weights(tmp_path / "other")
    assert not torch.equal(other["source_embedding"], weights(unbroken)["source_embedding"])


def test_finished_training_is_unchanged_and_can_be_extended(data: Path, tmp_path: Path) -> None:
    """A model that was removed is written again."""
    short = replace(CONFIG, steps=4)
    first = train(data, tmp_path / "run", short)
    before = weights(tmp_path / "run")
    assert train(data, tmp_path / "run", short) == first
    assert_equal(weights(tmp_path / "run"), before)
    shutil.rmtree(first.model)
    assert train(data, tmp_path / "run", short).step_count == 5  # the rate is 0 by then
    assert weights(tmp_path / "run").keys() == before.keys()
    assert train(data, tmp_path / "run", replace(CONFIG, steps=6)).step_count == 6


def test_a_budget_used_up_before_the_first_validation_ends_with_a_model(
    data: Path, tmp_path: Path, before_steps: Before
) -> None:
    def interrupt(self: ModelTrainer) -> None:
        if self.step_count == 5:
            before_steps(lambda _: None)
            raise KeyboardInterrupt

    config = replace(CONFIG, save_minutes=0.0)
    before_steps(interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "run", config)
    outcome = train(data, tmp_path / "run", replace(config, steps=4))
    assert outcome.step_count == 6
    assert checkpoints.read(outcome.model).task == "retro"


def test_minutes_limit_a_training_whose_pace_leaves_out_the_first_step(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: pytest.LogCaptureFixture
) -> None:
    """It allocates memory."""
    readings = chain((0.0,), count(40.0))  # then a second a step
    monkeypatch.setattr("molspec.training.loop.monotonic", lambda: next(readings))
    outcome = train(data, tmp_path / "run", replace(CONFIG, steps=None, minutes=1.1))
    assert "tokens/s; 1.1 minutes are about 27 steps here" in told.text
    assert (outcome.step_count, outcome.minutes) == (27, 1.1)
    rates = column(tmp_path / "run", "log.csv", "learning_rate")
    assert rates[-1] == pytest.approx(CONFIG.learning_rate / 66 / 0.96, 1e-5)


def test_number_of_threads_holds_during_the_training(
    data: Path, tmp_path: Path, before_steps: Before
) -> None:
    before, seen = torch.get_num_threads(), []
    before_steps(lambda _: seen.append(torch.get_num_threads()))
    for number in (before + 1, None):
        train(data, tmp_path / str(number), replace(CONFIG, steps=1), threads=number)
        assert torch.get_num_threads() == before
    assert seen == [before + 1, before]
    refused("threads is 0", train, data, tmp_path / "none", CONFIG, threads=0)


def test_a_second_training_in_one_folder_is_refused(
    data: Path, tmp_path: Path, before_steps: Before
) -> None:
    def train_beside(_: ModelTrainer) -> None:
        before_steps(lambda _: None)
        refused(OSError, "config.json", train, data, tmp_path / "run", CONFIG)

    before_steps(train_beside)
    assert train(data, tmp_path / "run", CONFIG).step_count == CONFIG.steps
    train(data, tmp_path / "run", CONFIG)  # it may be opened again


def test_top_1_is_measured_with_the_decoder(data: Path, tmp_path: Path) -> None:
    prepared = read(data)
    validation = prepared.validation.spread(CONFIG.decoded_pairs)
    truth = {
        prepared.vocabulary.decode(source): prepared.vocabulary.decode(target)
        for source, target in validation.pairs()
    }
    calls: list[int] = []

    def decode(model: Checkpoint, sources: Sequence[str]) -> list[str]:
        assert model.vocabulary == prepared.vocabulary
        calls.append(len(sources))
        reversed_targets = [".".join(reversed(truth[source].split("."))) for source in sources]
        return ["", *reversed_targets[1:]]

    outcome = train(data, tmp_path / "run", replace(CONFIG, steps=2), decode=decode)
    assert calls == [4]
    assert outcome.best.top_1 == 0.75
    assert column(tmp_path / "run", "validation.csv", "top_1") == [0.75]
    undecoded = replace(CONFIG, steps=2, decoded_pairs=0)
    assert train(data, tmp_path / "none", undecoded, decode=decode).best.top_1 is None
    assert calls == [4]


def test_gradients_of_a_split_batch_equal_those_of_the_batch(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, device = read(data), torch.device("cpu")
    config = replace(CONFIG, dropout=0.0, precision="float32", label_smoothing=0.1)
    torch.manual_seed(5)
    model = Transformer(config.spec(prepared.vocabulary.size), 0.0, prepared.vocabulary.pad_id)
    batches = Batches(prepared.train, model.spec, prepared.vocabulary, 800, device)
    training = trainer.ModelTrainer(model, batches, config, Ranks())
    gradients = []
    for token_limit in (10_000, 100, 1):  # whole, in parts of pairs, pair by pair
        monkeypatch.setattr(trainer, "_CPU_TOKENS", token_limit)
        model.zero_grad()
        loss, _ = training._backward(0, slice(None))
        gradients.append([loss, *(w.grad for w in model.parameters() if w.grad is not None)])
    for parts in gradients[1:]:
        for split, whole in zip(parts, gradients[0], strict=True):
            torch.testing.assert_close(split, whole, rtol=1e-4, atol=1e-6)


def test_further_training_begins_with_the_model(data: Path, unbroken: Path, tmp_path: Path) -> None:
    start = checkpoints.read(unbroken / "model")
    still = replace(CONFIG, steps=2, model={}, learning_rate=1e-30)
    run, other = tmp_path / "run", tmp_path / "other"
    train(data, run, still, start=start)
    found = checkpoints.read(run / "model")
    assert found.spec == start.spec
    assert_equal(found.weights, start.weights)
    assert found.task == start.task == "retro"
    assert f"Began with | the weights {start.fingerprint()[:8]} of another" in str(found.card)
    state = torch.load(run / "state.pt", weights_only=True)
    assert state["start"] == start.fingerprint()
    train(data, run, still, start=start)
    for first in (None, start.to("float16")):
        refused("^start is ", train, data, run, still, start=first)
    product = replace(start, task="product")
    refused("start is a model of the task 'product'", train, data, other, still, start=product)
    sizes = replace(CONFIG, steps=2)
    refused(r"config\.model is given with start", train, data, other, sizes, start=start)
    words = replace(start.vocabulary, tokens=(*start.vocabulary.tokens[:-1], "[Xe]"))
    changed = replace(start, vocabulary=words)
    refused("start has another vocabulary", train, data, other, still, start=changed)


def test_failed_write_of_a_state_leaves_no_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(state: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("unexpected pos 18240 vs 18134")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="unexpected pos") as caught:
        train(data, tmp_path / "run", replace(CONFIG, steps=1))
    assert caught.value.filename == str(tmp_path / "run" / "state.pt")
    assert not list((tmp_path / "run").iterdir())


def test_other_folders_and_devices_are_refused(data: Path, unbroken: Path, tmp_path: Path) -> None:
    occupied, other, damaged = (tmp_path / name for name in ("occupied", "prepared", "damaged"))
    occupied.mkdir()
    (occupied / "thesis.tex").touch()
    refused("it holds something else than a training", train, data, occupied, CONFIG)
    (tmp_path / "one.smi").write_text("CCO>>CC=O")
    of_data = {"validation": [data.parent / "reactions.smi"], "vocabulary": read(data).vocabulary}
    prepare([tmp_path / "one.smi"], other, PrepareOptions("retro", variants=1), **of_data)
    refused("^data is ", train, other, unbroken, CONFIG)
    refused(r"dropout is 0\.5", train, data, unbroken, replace(CONFIG, dropout=0.5))
    damaged.mkdir()
    for content in (b"", b"junk", b"PK\x03\x04", b"\x80\x02."):
        (damaged / "state.pt").write_bytes(content)
        refused(r"state\.pt: damaged", train, data, damaged, CONFIG)
    torch.save({"of": {}}, damaged / "state.pt")
    refused("holds the training of a drafter", train, data, damaged, CONFIG)
    torch.save({"config": {**CONFIG.to_json(), "schedule": 1}}, damaged / "state.pt")
    refused("another version: .*schedule", train, data, damaged, CONFIG)
    for device in ("tpu", "cpu:x", "cpu:"):
        refused(f"device is '{device}'", train, data, tmp_path / "run", CONFIG, device=device)


def test_nan_loss_leaves_the_state_before_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = ModelTrainer._loss

    def breaking(self: Any, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        found = loss(self, source_ids, target_ids)
        return found * torch.nan if self.step_count >= 3 else found

    monkeypatch.setattr(ModelTrainer, "_loss", breaking)
    with pytest.raises(TrainingError, match="the loss is nan at step 4"):
        train(data, tmp_path / "run", replace(CONFIG, save_minutes=0))
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)["trainer"]
    assert state["step_count"] == 3
    assert all(bool(weight.isfinite().all()) for weight in state["model"].values())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_sources_without_padding_give_the_same_without_a_mask(
    data: Path, monkeypatch: pytest.MonkeyPatch, precision: Literal["float32", "bfloat16"]
) -> None:
    """On a CPU to the bit; as a GPU takes them, by other kernels, where no mask is made at all."""
    made = read(data)
    source = made.train.pairs()[0][0]
    alike = EncodedPairs.pack([(source, target) for _, target in made.train.spread(9).pairs()])
    torch.manual_seed(0)
    config = replace(CONFIG, precision=precision, dropout=0.0, batch_tokens=4000)
    spec = config.spec(made.vocabulary.size)
    batches = Batches(alike, spec, made.vocabulary, 4000, torch.device("cpu"))
    trained = ModelTrainer(Transformer(spec, 0.0), batches, config, Ranks())
    assert trained._epoch.padded == [False]
    found = []
    for padded, on_cpu in ((True, True), (False, True), (False, False)):
        monkeypatch.setattr(transformer, "_on_cpu", lambda _, on_cpu=on_cpu: on_cpu)
        trained._epoch.padded[0] = padded
        loss = trained._loss(*batches.take(trained._epoch, 0))
        found.append((loss, *torch.autograd.grad(loss, list(trained.model.parameters()))))
    masked, bare, elsewhere = found
    assert all(map(torch.equal, bare, masked))
    tolerance = 1e-5 if precision == "float32" else 2e-2
    torch.testing.assert_close(elsewhere, masked, rtol=tolerance, atol=tolerance)


def test_first_layers_learn_to_answer_alone_and_are_cut_out(data: Path, tmp_path: Path) -> None:
    model = {**CONFIG.model, "decoder_layers": 2}
    config = replace(CONFIG, model=model, exit_layers=1, exit_share=0.5, decoded_pairs=0)
    outcome = train(data, tmp_path / "run", config)
    losses = column(tmp_path / "run", "validation.csv", "exit_loss")
    assert losses[-1] < losses[0]
    for alone in (0, 2):
        refused(
            f"decoder_layers is {alone}: expected at least 1, and less than the model's 2 ",
            *(checkpoints.convert, outcome.model, tmp_path / "half", None, None, None, None, alone),
        )
    whole = checkpoints.read(outcome.model)
    half = checkpoints.convert(outcome.model, tmp_path / "half", decoder_layers=1)
    ids = torch.tensor([[1, 5, 6, 7, 2]])
    states = []
    for each in (whole, half):
        twin = Transformer(each.spec).eval()
        twin.load_state_dict(dict(each.weights))
        states.append(twin.logits_after([1, each.spec.decoder_layers], ids, ids[:, :-1], None))
    assert torch.equal(states[0][0], states[1][0])
    assert not torch.equal(states[0][0], states[0][1])
    made = read(data)
    given = (made.validation, half.spec, made.vocabulary, CONFIG, torch.device("cpu"))
    assert Validator(*given)(twin).loss == outcome.best.exit_loss
    deep = data, tmp_path / "x", replace(config, exit_layers=2)
    refused("exit_layers is 2: expected at least 1, and less than the model's 2", train, *deep)


def test_a_state_beyond_the_end_of_an_epoch_goes_to_the_next(data: Path, tmp_path: Path) -> None:
    """Another device may have had more batches an epoch."""
    train(data, tmp_path / "run", replace(CONFIG, steps=2))
    file = tmp_path / "run" / "state.pt"
    state = torch.load(file, weights_only=True)
    epoch = state["trainer"]["epoch_number"]
    state["trainer"]["batch_index"] = 10**6
    torch.save(state, file)
    train(data, tmp_path / "run", replace(CONFIG, steps=3))
    state = torch.load(file, weights_only=True)["trainer"]
    assert (state["epoch_number"], state["batch_index"]) == (epoch + 1, 1)


def test_a_model_without_bos_is_trained_further(data: Path, unbroken: Path, tmp_path: Path) -> None:
    """T5 and Marian start a target with PAD."""
    other = tmp_path / "data"
    made = prepared.read(data)
    vocabulary = replace(made.vocabulary, bos_id=None)
    other.mkdir()
    prepared.write(replace(made, vocabulary=vocabulary), other)
    start = checkpoints.read(unbroken / "model")
    spec = replace(start.spec, start_id=vocabulary.pad_id, source_bos=False, target_bos=False)
    start = replace(start, spec=spec, vocabulary=vocabulary, ngram=None)
    train(other, tmp_path / "run", replace(CONFIG, steps=1, model={}), start=start)
    assert checkpoints.read(tmp_path / "run" / "model").ngram is not None
