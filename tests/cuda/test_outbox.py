"""Page-locked memory is filled again only when the device has read it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from molspec.engine.cuda.outbox import Outbox

CPU = torch.device("cpu")


class LateCopies(Outbox):
    """Copies run only when the host waits for them: what was overwritten before is lost."""

    def __init__(self, half: int) -> None:
        super().__init__(CPU, half)
        self.queued: list[Callable[[], object]] = []
        self.waits = 0

    def _mark(self) -> Callable[[], object]:
        until = len(self.queued)

        def wait() -> None:
            self.waits += 1
            for copy in self.queued[:until]:
                copy()

        return wait

    def finish(self) -> None:
        for copy in self.queued:
            copy()


@pytest.mark.parametrize("half", [64, 100, 256])
def test_late_copies_find_their_values(half: int, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = LateCopies(half)
    copy_now = torch.Tensor.copy_

    def copy_later(target: torch.Tensor, image: torch.Tensor, non_blocking: bool) -> None:
        assert non_blocking
        done: list[bool] = []

        def run() -> None:
            if not done:
                copy_now(target, image)
                done.append(True)

        outbox.queued.append(run)

    monkeypatch.setattr(torch.Tensor, "copy_", copy_later)
    draw = np.random.default_rng(half)
    sent = []
    for _ in range(60):
        values = draw.integers(0, 99, draw.integers(0, 40)).astype(
            draw.choice([np.int32, np.uint8])
        )
        target = torch.zeros(len(values), dtype=torch.from_numpy(values).dtype)
        outbox.put(values, target)
        sent.append((values.copy(), target))
    outbox.finish()
    assert outbox.waits > 3
    for values, target in sent:
        assert target.tolist() == values.tolist()


def test_values_larger_than_a_half_go_alone() -> None:
    outbox = Outbox(CPU, 64)
    values = np.arange(100.0)
    assert outbox.send(values).tolist() == values.tolist()


def test_shapes_and_types_are_kept() -> None:
    sent = Outbox(CPU).send(np.array([[1, 2], [3, 4]], dtype=np.int32))
    assert sent.dtype == torch.int32
    assert sent.tolist() == [[1, 2], [3, 4]]
