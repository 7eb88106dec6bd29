"""Greedy decoding whose rounds run on a CUDA device (csrc/cuda/rounds/greedy_rows.h)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from molspec import _native
from molspec._native import GuessModel, Hypothesis, SequenceSpec, TreeOptions
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.executor import LIVE, GraphExecutor
from molspec.engine.packing import BLOCK_POSITIONS

_HEAD = _native.LAYOUTS["GreedyAnswer"]


@dataclass(frozen=True)
class GreedySizes:
    """The sizes of greedy search, and the numbers in its captured graphs."""

    #: Token ids in a row of answers: an even number.
    capacity: int
    special_ids: tuple[int, int]
    #: The trees that are drafted, if any, and the model that guesses them.
    tree: TreeOptions | None
    guess: GuessModel | None

    @property
    def limit(self) -> int:
        """The most nodes of a tree."""
        return 0 if self.tree is None else self.tree.node_budget

    @property
    def blocks(self) -> int:
        """The blocks of a query's path and drafts."""
        return -(-(self.capacity + 1 + self.limit) // BLOCK_POSITIONS)

    def needs(self, caches: Caches) -> tuple[int, int]:
        """The blocks of the cache; the bytes of drafts, paths and log-probs."""
        of_node = 2 + self.capacity + caches.spec.target_vocab_size
        of_query = (1 + self.limit) * of_node
        return caches.query_count * self.blocks, 4 * caches.query_count * of_query


class GreedyExecutor(GraphExecutor[SequenceSpec]):
    """Greedy search on a device."""

    sizes: GreedySizes
    spec_type = SequenceSpec
    settings = frozenset({"max_length", "drafter"})
    #: In which a tree grows; later ones cost more than they save (decision 76).
    MAX_TURNS: ClassVar = 3

    @staticmethod
    def _sizes_of(spec: SequenceSpec, guess: GuessModel, caches: Caches) -> GreedySizes | None:
        """The sizes of greedy search whose drafts can be made on the device.

        A guess there needs its n-gram model.
        """
        tree = spec.drafter if isinstance(spec.drafter, TreeOptions) else None
        if tree is not None:
            guesses = 0 < guess.ngram_alphabet <= _native.LIMITS["ngram_symbols"]
            if not guesses or tree.node_budget > _native.LIMITS["tree_nodes"]:
                return None
        elif not isinstance(spec.drafter, _native.NoDraftOptions):
            return None
        capacity, special_ids = -(-spec.max_length // 2) * 2, (guess.bos, guess.eos)
        sizes = GreedySizes(capacity, special_ids, tree, None if tree is None else guess)
        most_nodes = caches.step_size(caches.query_count * (1 + sizes.limit))
        return sizes if most_nodes * sizes.capacity < 2**31 else None

    def _make_buffers(self, spec: SequenceSpec, guess: GuessModel) -> np.dtype[Any]:
        caches, sizes = self._caches, self.sizes
        rows, limit = caches.query_count, sizes.limit
        self._guessed = None if sizes.tree is None else DeviceGuess(caches, guess, sizes.tree)
        slots = torch.arange(rows * sizes.blocks * BLOCK_POSITIONS, dtype=torch.int32)
        self._slots = slots.to(caches.device).view(rows, -1)
        self._drafts = self._zeros(rows, 1 + 2 * limit)
        self._kv_cache = caches.cache(rows * sizes.blocks)
        self._path_slots = self._zeros(0)
        return np.dtype([("head", _HEAD), ("token_ids", "<i4", (sizes.capacity,))])

    def _new_head(self) -> npt.NDArray[np.void]:
        head = np.zeros((), dtype=_HEAD)
        head["state"], head["max_length"] = LIVE, self.spec.max_length
        return head

    def _start(self, row: int, source_ids: Sequence[int]) -> int:
        if self._guessed is not None:
            self._guessed.start(row, source_ids)
        return 1 + self.sizes.limit

    def _grow(self, size: int) -> None:
        self._path_slots = self._path_slots.new_zeros(size * self.sizes.capacity)

    def _launch(self, size: int) -> None:
        library, bos = self._caches.library, self._guess.bos
        answers, slots, drafted = self._answers, self._slots, self._drafts
        nodes, log_probs = self._nodes[:size], self._log_probs[:size]
        if self._guessed is not None:
            tree = self._guessed.tree
            limits = tree.max_depth, self.MAX_TURNS, tree.min_log_prob
            library.propose_tree(answers, drafted, *self._guessed.tensors, *limits)
        library.stage_nodes(answers, slots, drafted, nodes, self._path_slots, bos)
        self._caches.launch(nodes, self._path_slots, self._kv_cache, log_probs)
        library.verify_nodes(answers, slots, drafted, log_probs, self._guess.eos)

    def _hypotheses(self, answer: np.void) -> list[Hypothesis]:
        head = answer["head"]
        token_ids = answer["token_ids"][: head["token_count"]].tolist()
        return [
            Hypothesis(
                token_ids=token_ids,
                log_prob=float(head["log_prob"]),
                finished=bool(head["finished"]),
            )
        ]


class DeviceGuess:
    """The data of guesses on a device (csrc/drafting/guess_rows.h), for trees of some options."""

    def __init__(self, caches: Caches, model: GuessModel, tree: TreeOptions) -> None:
        self._caches, self._model, self.tree = caches, model, tree
        text, state = model.row_limits(caches.spec.max_positions)
        states = tree.node_budget + _native.LIMITS["tree_states"]
        rows, device = caches.query_count, caches.device
        tables = caches.outbox.send(_bytes(model.tables_row()))
        self._texts = torch.zeros(rows, text, dtype=torch.uint8, device=device)
        #: In the order of the operators' argument.
        self.tensors = (
            tables,
            self._texts,
            torch.zeros(rows, states, state, dtype=torch.uint8, device=device),
        )

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Send the copy text of a query."""
        text = _bytes(self._model.text_row(source_ids))
        self._caches.outbox.put(text, self._texts[row, : len(text)])


def _bytes(row: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(row, dtype=np.uint8)
