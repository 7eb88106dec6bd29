"""Batches of pairs: packed on the device, bucketed by length, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from molspec.common.fields import wrong
from molspec.model.spec import ModelSpec
from molspec.text import Vocabulary
from molspec.training.prepared import EncodedPairs

#: Sources whose lengths differ by less are shuffled together.
_SOURCE_BUCKET = 2
#: Lengths on a GPU are padded to a multiple, for kernels that read a mask, and for fewer shapes.
_GPU_MULTIPLE = 8


@dataclass(frozen=True, eq=False)
class Epoch:
    """The batches of one pass: batch i has the pairs order[bounds[i] : bounds[i + 1]].

    Its sources are padded to source_lengths[i], its targets to target_lengths[i]; both together
    have token_counts[i] tokens without padding. `padded[i]`: some source is padded.
    """

    order: Tensor
    bounds: list[int]
    source_lengths: list[int]
    target_lengths: list[int]
    token_counts: list[int]
    padded: list[bool]

    def __len__(self) -> int:
        return len(self.source_lengths)


class Batches:
    """All pairs of a table on a device, with BOS and EOS; nothing is read or copied afterwards.

    A batch is (source_ids [batch, source_length], target_ids [batch, target_length]), int64,
    padded on the right with PAD. `token_budget` bounds batch * (source_length + target_length).

    Raises ValueError if there is no pair, or if one exceeds the budget or the model's positions.
    """

    def __init__(
        self,
        table: EncodedPairs,
        spec: ModelSpec,
        vocabulary: Vocabulary,
        token_budget: int,
        device: torch.device,
    ) -> None:
        self._budget = token_budget
        self._multiple = _GPU_MULTIPLE if device.type == "cuda" else 1
        self.pad_id = vocabulary.pad_id
        eos = vocabulary.eos_id
        bos = [] if vocabulary.bos_id is None else [vocabulary.bos_id]
        before, after = spec.source_frame(vocabulary.bos_id, eos)
        source = _wrap(table.source_ids, table.source_lengths, before, after)
        start = [spec.decoder_start(vocabulary.bos_id), *bos * spec.target_bos]
        target = _wrap(table.target_ids, table.target_lengths, start, [eos])
        self._lengths = source[1].numpy(), target[1].numpy()
        self._check(spec)
        self._source = _Packed.on(device, *source)
        self._target = _Packed.on(device, *target)
        self.device = device

    def _check(self, spec: ModelSpec) -> None:
        source_lengths, target_lengths = self._lengths
        if not len(source_lengths):
            raise ValueError("the data have no pairs for training, or none for validation")
        if (longest := int(max(source_lengths.max(), target_lengths.max()))) > spec.max_positions:
            least = f"at least {longest}, the longest source or target with BOS and EOS"
            raise wrong("max_positions", spec.max_positions, least)
        largest = int((self._padded(source_lengths) + self._padded_targets(target_lengths)).max())
        if largest > self._budget:
            raise wrong("batch_tokens", self._budget, f"at least {largest}, the longest pair")

    def _padded(self, lengths: np.ndarray) -> np.ndarray:
        return -(-lengths // self._multiple) * self._multiple

    def _padded_targets(self, lengths: np.ndarray) -> np.ndarray:
        """Pad the decoder's input, the target without its last token."""
        return self._padded(lengths - 1) + 1

    def epoch(self, seed: int, number: int) -> Epoch:
        """Plan pass `number`: like lengths together, alike ones in random order, batches shuffled.

        Depends on its arguments and the lengths alone.
        """
        random = np.random.Generator(np.random.PCG64([seed, number]))
        source_lengths, target_lengths = self._lengths
        tie = random.permutation(len(source_lengths))
        alike = source_lengths if self._multiple > 1 else source_lengths // _SOURCE_BUCKET
        order = np.lexsort((tie, target_lengths, alike))
        cuts = list(self._cuts(source_lengths[order], target_lengths[order]))
        shuffled = [cuts[index] for index in random.permutation(len(cuts))]
        pieces = [order[begin:end] for begin, end, _, _ in shuffled]
        return Epoch(
            torch.from_numpy(np.concatenate(pieces)).to(self.device),
            np.cumsum([0, *map(len, pieces)]).tolist(),
            [source_length for _, _, source_length, _ in shuffled],
            [target_length for _, _, _, target_length in shuffled],
            [int((source_lengths + target_lengths)[piece].sum()) for piece in pieces],
            [bool(source_lengths[order[cut[0] : cut[1]]].min() < cut[2]) for cut in shuffled],
        )

    def _cuts(
        self, source_lengths: np.ndarray, target_lengths: np.ndarray
    ) -> Iterator[tuple[int, int, int, int]]:
        """Cut sorted pairs into batches (begin, end, source_length, target_length).

        On a GPU a batch that is half full ends with its first source length, for want of a mask.
        """
        begin = 0
        while begin < len(source_lengths):
            reach = begin + self._budget // int(source_lengths[begin] + target_lengths[begin]) + 1
            sources = np.maximum.accumulate(source_lengths[begin:reach])
            targets = np.maximum.accumulate(target_lengths[begin:reach])
            alike = int(np.searchsorted(sources, sources[0], side="right"))
            count = self._fitting(sources[:alike], targets[:alike])
            tokens = count * int(sources[0] + targets[count - 1])
            if self._multiple == 1 or 2 * tokens < self._budget:
                sources, targets = self._padded(sources), self._padded_targets(targets)
                count = self._fitting(sources, targets)
            yield begin, begin + count, int(sources[count - 1]), int(targets[count - 1])
            begin += count

    def _fitting(self, sources: np.ndarray, targets: np.ndarray) -> int:
        tokens = (sources + targets) * np.arange(1, len(sources) + 1)
        return max(int(np.searchsorted(tokens, self._budget, side="right")), 1)

    def take(self, epoch: Epoch, index: int, share: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Batch `index` of a planned pass, or the `share` of its pairs."""
        pairs = epoch.order[epoch.bounds[index] : epoch.bounds[index + 1]][share]
        return (
            self._source.take(pairs, epoch.source_lengths[index], self.pad_id),
            self._target.take(pairs, epoch.target_lengths[index], self.pad_id),
        )


class Passes:
    """The passes of a training, of which the next is planned in a thread: it may take seconds."""

    def __init__(self, batches: Batches, seed: int) -> None:
        self._plan = partial(batches.epoch, seed)
        self._thread = ThreadPoolExecutor(1, "molspec-passes")
        self._planned: dict[int, Future[Epoch]] = {}

    def take(self, number: int) -> Epoch:
        """Pass `number`, planned now if not before."""
        planned = self._planned.pop(number, None)
        return self._plan(number) if planned is None else planned.result()

    def plan(self, number: int) -> None:
        """Begin to plan pass `number`, unless that has begun."""
        if number not in self._planned:
            self._planned[number] = self._thread.submit(self._plan, number)


@dataclass(frozen=True, eq=False)
class _Packed:
    """Rows of ids end to end."""

    ids: Tensor
    starts: Tensor
    lengths: Tensor

    @classmethod
    def on(cls, device: torch.device, ids: Tensor, lengths: Tensor) -> _Packed:
        starts = lengths.long().cumsum(0) - lengths
        return cls(ids.to(device), starts.to(device), lengths.to(device))

    def take(self, rows: Tensor, length: int, pad_id: int) -> Tensor:
        columns = torch.arange(length, device=rows.device)
        inside = columns < self.lengths[rows, None]
        places = torch.where(inside, self.starts[rows, None] + columns, 0)
        return torch.where(inside, self.ids[places].long(), pad_id)


def _wrap(
    ids: Tensor, lengths: Tensor, before: Sequence[int], after: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Put `before` and `after` around every row of packed ids."""
    if not (before or after):
        return ids, lengths
    ends = lengths.long().cumsum(0)
    places = torch.stack([ends - lengths] * len(before) + [ends] * len(after), 1).flatten()
    tokens = np.tile([*before, *after], len(lengths))
    wrapped = np.insert(ids.numpy(), places.numpy(), tokens)
    return torch.from_numpy(wrapped), lengths + (len(before) + len(after))
