"""External drafters: their methods, and the paths that they get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from molspec._native import AdmittedTree, DraftTree, GuessModel, Sampler
from molspec.common.console import told


class DrafterError(RuntimeError):
    """A drafter failed for a query: it raised, or did not return one tree for each path."""


@contextmanager
def failing(drafter: object, method: str) -> Iterator[None]:
    """Turn a drafter's exception into a DrafterError that names the drafter."""
    try:
        yield
    except DrafterError:  # of a part, which it names
        raise
    except Exception as error:
        # Of a RuntimeError that StopIteration causes, contextlib raises the cause.
        cause = None if isinstance(error, StopIteration) else error
        said = f"drafter {type(drafter).__name__} failed in {method}: {told(error)}"
        raise DrafterError(said) from cause


def propose(drafter: Drafter, paths: Sequence[Path], guess: GuessModel) -> list[AdmittedTree]:
    """Draft after every path; return what is valid of the trees, one for each path.

    Raises DrafterError, naming the drafter, if it fails or a tree is wrong.
    """
    with failing(drafter, "propose"):
        trees = drafter.propose(paths)
        if len(trees) != len(paths):
            raise ValueError(f"gave {len(trees)} trees: expected {len(paths)}, one a path")
        return [guess.admitted(tree) for tree in trees]


@dataclass(frozen=True)
class Path:
    """A live hypothesis, which a draft may extend."""

    #: The query, as given to `Drafter.start`.
    row: int
    #: After BOS, in the target's vocabulary.
    token_ids: list[int]
    #: Natural log of the model's probability of them; 0 until a given prefix is evaluated.
    log_prob: float
    #: float32 [d_model]: the model's last hidden state, from which it chose the last token. None
    #: before the first token or a given prefix is evaluated, and for drafters without
    #: `wants_hidden_states`.
    hidden_state: Tensor | None = None
    #: For a sample, draws its next tokens: `sampler.token(log_probs, position)` is its token for
    #: these log-probs. A drafter that uses it agrees with the model more often.
    sampler: Sampler | None = None


def wants_hidden_states(drafter: object) -> bool:
    """Whether a drafter needs the model's last hidden states, which molspec's engines store."""
    with failing(drafter, "wants_hidden_states"):
        return bool(getattr(drafter, "wants_hidden_states", False))


@runtime_checkable
class Drafter(Protocol):
    """Proposes tokens that may come next, for all live queries together.

    Its drafts change the time, never an answer, except that SBS and relaxed and rejection
    verification depend on them. A decode loop calls it in one thread at a time. Loops in several
    threads may share it only if its methods are thread-safe.

    If its attribute `wants_hidden_states` is true, its paths have the model's hidden states.
    """

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin a query. `row` is a number that no other live query has.

        source_ids: in the target's vocabulary, without BOS and EOS.
        """

    def propose(self, paths: Sequence[Path]) -> Sequence[DraftTree]:
        """Return one tree for each path, in their order.

        A query has one path in greedy decoding, and one for each live hypothesis in a beam.
        `DraftTree(token_ids, parents, log_probs)` lists nodes, parents before children; parent -1
        is the end of the path. log_probs are natural logs of the probability that the model
        confirms the path up to the node. Nodes after EOS, BOS, PAD or UNK are ignored.
        """

    def release(self, row: int) -> None:
        """End a query: it is answered or cancelled."""


@runtime_checkable
class EncoderDrafter(Drafter, Protocol):
    """A drafter that encodes the model's encoder ids."""

    def read(self, row: int, source_ids: Sequence[int], encoder_ids: Sequence[int]) -> None:
        """Take the encoder ids of a query that has begun."""
