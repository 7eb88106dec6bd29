"""Trains a Spec-Drafter (Xia et al. 2023), which guesses k tokens of its target model at once."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from molspec.checkpoints import Checkpoint
from molspec.common.fields import wrong
from molspec.model.spec import ModelSpec
from molspec.model.spec_drafter import SpecDrafterWeights
from molspec.model.transformer import Transformer
from molspec.training import drafters, prepared, trainer
from molspec.training.batches import Batches
from molspec.training.config import SpecDrafterConfig
from molspec.training.optimizers import optimizers
from molspec.training.spec_drafter_layout import Lay, Layout, causal, lengths_of, published

#: With a smaller share, glancing reveals too little to be worth its decoder pass.
_LEAST_SHARE = 0.05
#: Validation answers on which iterations are counted.
_TRIED = 200


class SpecDrafterTrainer(drafters.DrafterTrainer):
    """Steps of training a Spec-Drafter on the answers of a model."""

    name = "spec"

    config: SpecDrafterConfig

    @staticmethod
    def check(config: SpecDrafterConfig, checkpoint: Checkpoint) -> None:
        """Raise ValueError if a drafter of this config does not fit the model."""
        drafter_spec(config, checkpoint.spec)

    def _begin(self, checkpoint: Checkpoint) -> tuple[nn.Module, list[Optimizer]]:
        config = self.config
        #: The layout of a decoder's input on which it is trained.
        self._lay = published if config.published else causal
        spec = drafter_spec(config, checkpoint.spec)
        self.model = Transformer(spec, 0.0, checkpoint.vocabulary.pad_id)
        shapes = spec.weight_shapes()
        fitting = {
            name: weight.float()
            for name, weight in checkpoint.weights.items()
            if tuple(weight.shape) == shapes.get(name)
        }
        self.model.load_state_dict(fitting, strict=False)
        return self.model, optimizers(self.model, config)

    def grown(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The model with the drafter, in half precision; None of the published form."""
        if self.config.published:
            return None
        weights = {name: weight.half() for name, weight in self.model.state_dict().items()}
        made = SpecDrafterWeights(self.config.k, self.model.spec, weights)
        return replace(checkpoint, spec_drafter=made)

    def summary(self, checkpoint: Checkpoint, validation: prepared.EncodedPairs) -> str:
        """The tokens of validation answers that an iteration confirms, in words."""
        tried = validation.spread(_TRIED)
        tokens, iterations = accepted(self.model, self._lay, checkpoint, tried, self.config.k)
        return (
            f"{super().summary(checkpoint, validation)}\n"
            f"tokens of validation answers that an iteration confirms: {tokens / iterations:.2f}"
        )

    def _guess(self, source_ids: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        config, pad_id = self.config, self.model.pad_id
        seed = (config.seed * 1_000_003 + self.step_count) % 2**64
        chance = torch.Generator().manual_seed(seed)
        prefixes = _prefixes(lengths_of(target_ids, pad_id), config.prefixes, chance)
        layout = self._lay(target_ids, prefixes, config.k, pad_id)
        with trainer.autocast(target_ids.device, config.precision):
            padding = source_ids == pad_id
            memory = self.model.encode(source_ids, padding)
            if (share := config.glancing * (1 - self.progress)) > _LEAST_SHARE:
                layout = self._glance(layout, memory, padding, share, chance)
            logits = guesses(self.model, layout, memory, padding)
        there = layout.wanted != pad_id
        rows, wanted, ahead = logits[there].float(), layout.wanted[there], layout.ahead[there]
        right = (rows.argmax(-1) == wanted).float()
        counts = torch.bincount(ahead, minlength=config.k).clamp(min=1)
        hits = torch.bincount(ahead, right, config.k) / counts
        return F.cross_entropy(rows, wanted), hits

    def _glance(
        self, layout: Layout, memory: Tensor, padding: Tensor, share: float, chance: torch.Generator
    ) -> Layout:
        """Reveal a number of true tokens in proportion to the mistakes without them."""
        pad_id = self.model.pad_id
        with torch.no_grad():
            guessed = guesses(self.model, layout, memory, padding).argmax(-1)
        there = layout.masks & (layout.wanted != pad_id)
        wrong = (there & (guessed != layout.wanted)).sum(1) / there.sum(1).clamp(min=1)
        drawn = torch.rand(layout.ids.shape, generator=chance) < share * wrong[:, None]
        return layout.revealed(drawn & layout.masks & (layout.truth != pad_id), pad_id)


def drafter_spec(config: SpecDrafterConfig, target: ModelSpec) -> ModelSpec:
    """Describe the drafter of a model. Raises ValueError if its sizes do not fit together."""
    width = config.width or target.d_model
    if width % target.head_count:
        raise wrong("width", width, f"a multiple of the model's {target.head_count} heads")
    return replace(
        target,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        d_model=width,
        # MASKs are anywhere in a row
        positions="sinusoidal" if target.positions in ("relative", "none") else target.positions,
        rotary_columns=None,
    )


def guesses(model: Transformer, layout: Layout, memory: Tensor, padding: Tensor) -> Tensor:
    """Logits [row, position, vocab] of a layout, given the pairs' memories."""
    memory, padding = memory[layout.pairs], padding[layout.pairs]
    places = layout.places.clamp(max=model.spec.max_positions - 1)
    hidden = model.hidden_states(layout.ids, memory, padding, layout.visible, places)
    return model.logits(hidden)


@torch.inference_mode()
def accepted(
    model: Transformer, lay: Lay, checkpoint: Checkpoint, pairs: prepared.EncodedPairs, k: int
) -> tuple[int, int]:
    """The tokens of some answers, EOS counted, and the iterations of k guesses that confirm them.

    An iteration confirms the guesses before the first wrong one, and the model's own token.
    """
    vocabulary, pad_id = checkpoint.vocabulary, model.pad_id
    batches = Batches(pairs, checkpoint.spec, vocabulary, 8192, torch.device("cpu"))
    epoch = batches.epoch(0, 0)
    tokens = iterations = 0
    for index in range(len(epoch)):
        source_ids, targets = batches.take(epoch, index)
        padding = source_ids == pad_id
        memory = model.encode(source_ids, padding)
        lengths = lengths_of(targets, pad_id)
        tokens += int(lengths.sum()) - len(lengths)
        prefixes = torch.ones_like(lengths)
        while bool((live := prefixes < lengths).any()):
            iterations += int(live.sum())
            padding_of, memory_of = padding[live], memory[live]
            layout = lay(targets[live], prefixes[live, None], k, pad_id)
            guessed = guesses(model, layout, memory_of, padding_of).argmax(-1)
            counted = layout.masks | (layout.places == prefixes[live, None] - 1)
            wrong = counted & (guessed != layout.wanted)
            first = torch.where(wrong, layout.ahead, k).amin(1)
            prefixes[live] += first + 1
    return tokens, iterations


def _prefixes(lengths: Tensor, count: int, chance: torch.Generator) -> Tensor:
    """Lengths [pair, prefix] of random prefixes, with BOS, shorter than the targets.

    In a batch, whose targets have similar lengths, they are similar too: there is little padding.
    """
    shares = (torch.arange(count) + torch.rand(count, generator=chance)) / count
    return 1 + (shares * (lengths[:, None] - 1)).long().clamp(max=lengths[:, None] - 2)
