"""The rounds on a device run only searches whose settings they know."""

from typing import Any

import pytest
import torch

from molspec._native import BeamSpec, ForcedSpec, NoDraftOptions, SearchSpec, SequenceSpec
from molspec.decoding import Source, Strategy
from molspec.engine.cuda import beams, greedy
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.executor import GraphExecutor
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import EmulatedEngine, Recorder, train_guess

LIST: dict[str, Any] = {"beam_size": 2, "n_best": 2, "max_length": 9}
REQUIRED: dict[type[GraphExecutor[Any]], dict[str, Any]] = {
    greedy.GreedyExecutor: {"max_length": 9, "drafter": NoDraftOptions()},
    beams.BeamExecutor: LIST,
}
#: More positions than a 32-bit number can count.
TOO_LONG = {"max_length": 2**29}
#: Changes that leave the sizes of buffers.
SIMILAR = {greedy.GreedyExecutor: {"max_length": 10}, beams.BeamExecutor: {"n_best": 1}}


class NewSequences(SequenceSpec):
    given = ("max_length", "drafter", "new_setting")


class NewBeams(BeamSpec):
    given = (*LIST, "new_setting")


@pytest.mark.parametrize(
    ("kind", "later"), list(zip(REQUIRED, (NewSequences, NewBeams), strict=True))
)
def test_the_host_runs_searches_with_a_setting_that_a_device_does_not_know(
    cuda: Emulator, kind: type[GraphExecutor[Any]], later: type[Any]
) -> None:
    engine, guess = EmulatedEngine(cuda, torch.float32), train_guess(False)
    known: SearchSpec = kind.spec_type(**REQUIRED[kind])
    caches = Caches(engine.packed, 1, cuda.ops, Recorder())
    assert set(known.given) <= kind.settings
    assert kind.sizes_of(known, guess, caches) is not None
    assert kind.sizes_of(later(**REQUIRED[kind]), guess, caches) is None
    for other in (ForcedSpec(max_length=9), kind.spec_type(**REQUIRED[kind] | TOO_LONG)):
        assert kind.sizes_of(other, guess, caches) is None
    session = engine.session(1)
    source = Source([], [])
    assert session.executor(Strategy(later(**REQUIRED[kind])), source, guess) is None
    assert session.executor(Strategy(known), Source([], [], [3]), guess) is None
    executor = session.executor(Strategy(known), source, guess)
    assert isinstance(executor, kind)
    assert session.executor(Strategy(kind.spec_type(**REQUIRED[kind])), source, guess) is executor
    similar = kind.spec_type(**REQUIRED[kind] | SIMILAR[kind])
    assert session.executor(Strategy(similar), source, guess) is executor
    assert executor.spec == similar
