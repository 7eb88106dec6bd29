"""Optimiser steps: of any training, and those of a model with its averaged weights."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from molspec.model.transformer import Transformer
from molspec.training.batches import Batches, Passes
from molspec.training.config import StepConfig, TrainConfig
from molspec.training.optimizers import optimizers, set_learning_rate
from molspec.training.torchrun import Ranks

#: Padded tokens a thread whose activations fit in a CPU's caches: larger batches are split.
_CPU_TOKENS = 2048


def learning_rate_factor(progress: float, warm_up: float) -> float:
    """Share of the peak learning rate at `progress` of the budget: up to 1 at `warm_up`.

    >>> [learning_rate_factor(progress, 0.2) for progress in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if progress < warm_up:
        return progress / warm_up
    return max(1.0 - progress, 0.0) / (1.0 - warm_up)


class Trainer(ABC):
    """Takes optimiser steps that train `module`, on batches in an order that the seed decides.

    With a restored state a trainer resumes exactly: to the bit on a CPU with the same number of
    threads and processes.

    Several processes take each step together: each computes the gradients of its share of the
    batch's pairs, and they are averaged, weighted by target tokens. Except for rounding and random
    dropout, that is the step of one process.
    """

    #: Whether a CPU calls `_loss` for parts of a batch and sums their gradients.
    _in_parts: ClassVar[bool] = False

    def __init__(
        self,
        module: nn.Module,
        optimizers: Sequence[Optimizer],
        batches: Batches,
        config: StepConfig,
        processes: Ranks,
    ) -> None:
        self.step_count = 0
        self.token_count = 0
        self.epoch_number = 0
        self._batch_index = 0
        self._module, self._optimizers = module, optimizers
        self._batches, self._device = batches, batches.device
        self.config, self._processes = config, processes
        self._passes = Passes(batches, config.seed)
        self._epoch = self._passes.take(0)

    @abstractmethod
    def _loss(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """The loss of a batch, a mean over its target tokens, of shape []."""

    def step(self, progress: float) -> tuple[Tensor, float]:
        """Learn from the next batch; return the loss in nats a token and the learning rate.

        It does not wait for a GPU. `progress` is the used share of the budget.
        """
        config = self.config
        if self._batch_index >= len(self._epoch):  # more if resumed on another device
            self.epoch_number += 1
            self._batch_index = 0
            self._epoch = self._passes.take(self.epoch_number)
        elif 2 * self._batch_index >= len(self._epoch):
            self._passes.plan(self.epoch_number + 1)
        learning_rate = config.learning_rate * learning_rate_factor(progress, config.warm_up)
        set_learning_rate(self._optimizers, learning_rate)
        self._processes.draw_apart(config.seed, self.step_count)
        share = self._backward(self._batch_index, self._processes.share)
        loss = self._processes.average(list(self._module.parameters()), *share)
        torch.nn.utils.clip_grad_norm_(self._module.parameters(), config.gradient_norm)
        for optimizer in self._optimizers:
            optimizer.step()
        self._module.zero_grad(set_to_none=True)
        self.token_count += self._epoch.token_counts[self._batch_index]
        self._batch_index += 1
        self.step_count += 1
        return loss, learning_rate

    def _backward(self, index: int, pairs: slice) -> tuple[Tensor, Tensor]:
        """Compute the gradients of some pairs of a batch; return their loss and target tokens."""
        source_ids, target_ids = self._batches.take(self._epoch, index, pairs)
        loss, token_count = torch.zeros((), device=self._device), self._count(target_ids)
        size = max(len(target_ids), 1)  # a batch may have fewer pairs than there are processes
        if self._in_parts and self._device.type == "cpu":
            tokens = _CPU_TOKENS * torch.get_num_threads()
            size = max(tokens // (source_ids.shape[1] + target_ids.shape[1]), 1)
        for start in range(0, len(target_ids), size):
            targets = target_ids[start : start + size]
            mean: Tensor = self._loss(source_ids[start : start + size], targets)
            part = mean * (self._count(targets) / token_count)
            torch.autograd.backward(part)
            loss += part.detach()
        return loss, token_count

    def _count(self, target_ids: Tensor) -> Tensor:
        return (target_ids[:, 1:] != self._batches.pad_id).sum()

    def state(self) -> dict[str, Any]:
        """Everything that decides the next steps."""
        return {
            "model": self._module.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "step_count": self.step_count,
            "token_count": self.token_count,
            "epoch_number": self.epoch_number,
            "batch_index": self._batch_index,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state that `state` gave."""
        self._module.load_state_dict(state["model"])
        for optimizer, stored in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        self.step_count = state["step_count"]
        self.token_count = state["token_count"]
        if state["epoch_number"] != self.epoch_number:
            self.epoch_number = state["epoch_number"]
            self._epoch = self._passes.take(self.epoch_number)
        self._batch_index = state["batch_index"]


class ModelTrainer(Trainer):
    """Trains a model. Its result is `averaged`, the mean of the last weights."""

    config: TrainConfig
    _in_parts = True

    def __init__(
        self, model: Transformer, batches: Batches, config: TrainConfig, processes: Ranks
    ) -> None:
        self.model = model.to(batches.device).train()
        self.averaged = Transformer(model.spec, 0.0, model.pad_id).to(batches.device).eval()
        self.averaged.load_state_dict(model.state_dict())
        self.averaged.requires_grad_(False)
        made = optimizers(self.model, config)
        super().__init__(self.model, made, batches, config, processes)

    def step(self, progress: float) -> tuple[Tensor, float]:
        """Learn from the next batch, and average the weights."""
        taken = super().step(progress)
        self._average()
        return taken

    def _loss(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        model, config, targets = self.model, self.config, target_ids[:, :-1]
        is_padded = self._epoch.padded[self._batch_index]
        padding = source_ids == model.pad_id if is_padded else None
        with autocast(self._device, config.precision):
            every = model.logits_after(config.answering(model.spec), source_ids, targets, padding)
        *early, logits = (each.flatten(0, 1).float() for each in every)
        wanted = target_ids[:, 1:].flatten()
        loss = F.cross_entropy(
            logits, wanted, ignore_index=model.pad_id, label_smoothing=config.label_smoothing
        )
        return loss + config.exit_share * sum(self._exit_loss(e, logits, wanted) for e in early)

    def _exit_loss(self, early: Tensor, late: Tensor, wanted: Tensor) -> Tensor:
        """Half by the record, half by the whole model, which it does not teach (Kim, Rush 2016)."""
        recorded = F.cross_entropy(early, wanted, ignore_index=self.model.pad_id)
        counted = wanted != self.model.pad_id
        by_token = F.cross_entropy(early, late.detach().softmax(-1), reduction="none")
        return 0.5 * (recorded + (by_token * counted).sum() / counted.sum())

    @torch.no_grad()
    def _average(self) -> None:
        """Polyak averaging; in the first steps over fewer, so that the start counts less."""
        decay = min(self.config.averaging, self.step_count / (self.step_count + 10))
        averages: list[Tensor] = list(self.averaged.parameters())
        weights: list[Tensor] = list(self.model.parameters())
        torch._foreach_lerp_(averages, weights, 1.0 - decay)

    def state(self) -> dict[str, Any]:
        """Everything that decides the next steps, with averages and random numbers."""
        own = {"averaged": self.averaged.state_dict(), "generators": self._generators()}
        return {**super().state(), **own}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state that `state` gave."""
        super().restore(state)
        self.averaged.load_state_dict(state["averaged"])
        self._set_generators(state["generators"])

    def _generators(self) -> dict[str, Tensor]:
        """The states of dropout's random number generators."""
        states = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self._device)
        return states

    def _set_generators(self, states: dict[str, Tensor]) -> None:
        torch.set_rng_state(states["cpu"].cpu())
        if "cuda" in states and self._device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"].cpu(), self._device)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Compute matrix products in bfloat16 if that is the `precision`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
