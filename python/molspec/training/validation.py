"""Validates a model on pairs outside its training data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from molspec.checkpoints import Checkpoint
from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer
from molspec.text import Vocabulary
from molspec.training import batches, prepared, trainer
from molspec.training.config import TrainConfig

#: (model, sources) -> the best target of each source as SMILES, "" if there is none.
Decode = Callable[[Checkpoint, Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class Validation:
    """Shares are of 1; `loss` is in nats a token."""

    loss: float
    #: Tokens, EOS counted, that are the most probable ones after the true earlier tokens.
    token_accuracy: float
    #: Targets of which that is true for all tokens.
    sequence_accuracy: float
    #: Targets that a decoder finds, compared as canonical SMILES; None if none decoded.
    top_1: float | None = None
    #: `loss` and `sequence_accuracy` of the first layers alone; None if they do not learn that.
    exit_loss: float | None = None
    exit_sequence_accuracy: float | None = None


class Validator:
    """Validates models on fixed pairs, evenly spread over a table."""

    def __init__(
        self,
        table: prepared.EncodedPairs,
        spec: ModelSpec,
        vocabulary: Vocabulary,
        config: TrainConfig,
        device: torch.device,
        decode: Decode | None = None,
    ) -> None:
        chosen = table.spread(config.validation_pairs)
        self._decoded = [
            (vocabulary.decode(source), vocabulary.decode(target))
            for source, target in table.spread(config.decoded_pairs).pairs()
        ]
        self._batches = batches.Batches(chosen, spec, vocabulary, config.batch_tokens, device)
        self._epoch = self._batches.epoch(0, 0)
        self._vocabulary = vocabulary
        self._precision, self._answering = config.precision, config.answering(spec)
        self._decode = decode

    @torch.no_grad()
    def __call__(self, model: Transformer) -> Validation:
        """Validate a model that is in evaluation mode."""
        answering, device = self._answering, self._batches.device
        losses = torch.zeros(len(answering), dtype=torch.float64, device=device)
        hits, whole = (torch.zeros_like(losses, dtype=torch.int64) for _ in range(2))
        tokens = torch.zeros((), dtype=torch.int64, device=device)
        for index in range(len(self._epoch)):
            source_ids, target_ids = self._batches.take(self._epoch, index)
            padding, wanted = source_ids == model.pad_id, target_ids[:, 1:]
            with trainer.autocast(device, self._precision):
                every = model.logits_after(answering, source_ids, target_ids[:, :-1], padding)
            counted = wanted != model.pad_id
            tokens += counted.sum()
            for at, logits in enumerate(each.float() for each in every):
                hit = (logits.argmax(-1) == wanted) | ~counted
                losses[at] += F.cross_entropy(logits[counted], wanted[counted], reduction="sum")
                hits[at] += hit[counted].sum()
                whole[at] += hit.all(1).sum()
        *early_losses, loss = (losses / tokens).tolist()
        *early_whole, all_right = (whole.double() / len(self._epoch.order)).tolist()
        accuracy = int(hits[-1]) / int(tokens)
        early = (*early_losses, *early_whole)
        return Validation(loss, accuracy, all_right, self._top_1(model), *early)

    def _top_1(self, model: Transformer) -> float | None:
        if self._decode is None or not self._decoded:
            return None
        from molspec.text import canonicalise  # RDKit: losses are validated without it

        weights = {name: weight.cpu() for name, weight in model.state_dict().items()}
        checkpoint = Checkpoint(model.spec, weights, self._vocabulary)
        found = self._decode(checkpoint, [source for source, _ in self._decoded])
        if len(found) != len(self._decoded):
            raise ValueError(f"decode gave {len(found)} targets: expected {len(self._decoded)}")
        hits = sum(
            canonicalise(text) == canonicalise(target) is not None
            for text, (_, target) in zip(found, self._decoded, strict=True)
        )
        return hits / len(found)
