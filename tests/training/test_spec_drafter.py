"""Training Spec-Drafters: interrupted runs end with the same weights; no MASK sees its token."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from molspec.model.transformer import Transformer
from molspec.prediction.model import load
from molspec.training.config import SpecDrafterConfig
from molspec.training.spec_drafter import SpecDrafterTrainer, accepted, drafter_spec, guesses
from molspec.training.spec_drafter_layout import Lay, causal, published
from tests import conftest, tiny
from tests.training.tiny import answers, assert_equal, write_teacher

SIZES = {"encoder_layers": 1, "decoder_layers": 1, "seed": 20251125201700}  # a time
CONFIG = SpecDrafterConfig(k=4, steps=40, batch_tokens=400, learning_rate=5e-3, **SIZES)


def test_training_begins_with_the_weights_of_the_model(tmp_path: Path) -> None:
    trainer = SpecDrafterTrainer(tiny.checkpoint(), answers(), CONFIG, tmp_path / "state.pt")
    weights = tiny.checkpoint().weights
    assert_equal(trainer.model.state_dict(), {n: weights[n] for n in trainer.model.state_dict()})


def test_drafters_of_models_without_added_positions_have_sinusoids() -> None:
    """A narrow drafter has no room for the model's turned columns."""
    target = replace(tiny.SPEC, positions="none", rotary_columns=tiny.SPEC.head_dim)
    spec = drafter_spec(replace(CONFIG, width=tiny.SPEC.d_model // 2), target)
    assert (spec.positions, spec.rotary_columns) == ("sinusoidal", None)


def twin() -> Transformer:
    model = Transformer(tiny.SPEC, 0.0, tiny.VOCABULARY.pad_id).eval()
    model.load_state_dict(dict(tiny.checkpoint().weights))
    return model


TARGETS = torch.tensor([[1, 4, 5, 6, 7, 8, 4, 2], [1, 6, 6, 9, 2, 0, 0, 0]])
PREFIXES = torch.tensor([[2, 5], [1, 3]])


@pytest.mark.parametrize("lay", [causal, published])
def test_tokens_after_a_prefix_are_guessed_unseen(lay: Lay) -> None:
    """The k tokens after a prefix are guessed; changing them does not change the guesses."""
    model, k = twin(), 4
    layout = lay(TARGETS, PREFIXES, k, 0)
    guessed: dict[int, set[tuple[int, ...]]] = {0: set(), 1: set()}
    for row, pair in enumerate(layout.pairs.tolist()):
        masks = layout.masks[row].nonzero().flatten().tolist()
        for start in (mask for mask in masks if layout.ahead[row, mask] == 1):
            chain = [mask for mask in masks if mask >= start][: k - 1]
            chain = [mask for n, mask in enumerate(chain) if layout.ahead[row, mask] == n + 1]
            guessed[pair].add(tuple(layout.wanted[row, chain].tolist()))
    assert (6, 7, 8) in guessed[0]
    assert (2, 0) in {chain[:2] for chain in guessed[1]}  # EOS, and nothing after it
    memory = model.encode(TARGETS, TARGETS == 0)
    with torch.inference_mode():
        before = guesses(model, layout, memory, TARGETS == 0)
        other = TARGETS.clone()
        other[0, 5:7] = 9  # after all prefixes of the first target
        after = guesses(model, lay(other, PREFIXES, k, 0), memory, TARGETS == 0)
    first_masks = layout.masks & (layout.pairs == 0)[:, None]
    assert torch.equal(before[first_masks], after[first_masks])


def test_only_the_published_layout_sees_later_masks() -> None:
    model, prefixes = twin(), torch.ones(2, 1, dtype=torch.long)
    memory = model.encode(TARGETS, TARGETS == 0)

    def after_bos(lay: Lay, k: int) -> torch.Tensor:
        return guesses(model, lay(TARGETS, prefixes, k, 0), memory, TARGETS == 0)[:, 0]

    without_masks = after_bos(causal, 1)
    torch.testing.assert_close(after_bos(published, 1), without_masks)
    torch.testing.assert_close(after_bos(causal, 3), without_masks)
    assert not torch.allclose(after_bos(published, 3), without_masks)


@pytest.mark.parametrize("lay", [causal, published])
def test_revealed_tokens_are_not_counted_if_visible(lay: Lay) -> None:
    layout = lay(TARGETS, PREFIXES, 4, 0)
    revealed = layout.revealed(layout.masks & (layout.truth != 0), 0)
    assert torch.equal(revealed.ids[layout.masks], layout.truth[layout.masks])
    counted = int((revealed.wanted != 0).sum())
    assert (counted == int((layout.wanted != 0).sum())) == (lay is causal)


def test_iterations_count_confirmed_tokens() -> None:
    """A model that drafts one token for itself confirms two tokens an iteration."""
    tokens, iterations = accepted(twin(), causal, tiny.checkpoint(), answers(), 1)
    pairs = answers().pairs()
    assert tokens == sum(len(target) + 1 for _, target in pairs)
    finished = [target for _, target in pairs if len(target) < 29]
    assert iterations >= sum(-(-(len(target) + 1) // 2) for target in finished)
    assert iterations <= sum(-(-(len(target) + 1) // 2) for _, target in pairs) + len(pairs)


def test_command_trains_a_spec_drafter(data: Path, tmp_path: Path, run: conftest.Run) -> None:
    write_teacher(data, tmp_path / "small")
    sizes = "--pairs 8 --steps 3 --k 4 --encoder-layers 1 --width 16"

    def trained(output: str, data: Path = data, more: str = "") -> int:
        files = f"{tmp_path / 'small'} --data {data} --output {tmp_path / output}"
        return run(f"train-drafter {files} {sizes} {more}")

    written = []
    # A finished training is unchanged, and data that are distilled already are used unchanged.
    for output, source in (("run", data), ("run", data), ("again", tmp_path / "run" / "data")):
        assert trained(output, source) == 0
        weights = tmp_path / output / "model" / "spec" / "model.safetensors"
        written.append(weights.read_bytes())
    assert written[0] == written[1] == written[2]
    assert not (tmp_path / "again" / "data" / "answers.jsonl").exists()
    results = load(tmp_path / "run" / "model").predict(["CCO"], drafter="spec", max_length=9)
    assert results.statistics.drafted_tokens > 0
    assert trained("other", more="--glancing 2") == 2
    # Sizes that do not fit are refused before the model answers anything.
    assert run(f"train-drafter {tmp_path / 'small'} --data {data} --output wide --width 15") == 2
    assert not Path("wide").exists()
    # No engine runs the published layout.
    assert trained("published", tmp_path / "run" / "data", "--published") == 0
    assert not (tmp_path / "published" / "model").exists()
