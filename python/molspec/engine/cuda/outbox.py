"""Page-locked memory through which values go to a device."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec.engine.packing import round_up

#: Numbers begin at multiples of it.
_ALIGNMENT = 16


class Outbox:
    """Copies values to a device in stream order; a copy neither allocates nor waits.

    Of the two halves of its memory one is filled while copies from the other may be under way. All
    work is on one stream, torch's current one at every call.
    """

    def __init__(self, device: torch.device, half: int = 1 << 18) -> None:
        self._device, self._half = device, half
        pinned = device.type == "cuda"
        self._memory = torch.empty(2 * half, dtype=torch.uint8, device="cpu", pin_memory=pinned)
        self._halves, self._bytes = self._memory.split(half), self._memory.numpy().reshape(2, half)
        self._filled, self._at = 0, 0  # the half, and the place in it
        #: Waits for the copies from the half that is not being filled.
        self._wait: Callable[[], object] = bool

    def put(self, values: npt.NDArray[np.generic], target: Tensor) -> None:
        """Queue a copy of values into a tensor of their type and shape."""
        size = values.nbytes
        if size > self._half:
            self._put_alone(values, target)
            return
        if self._at + size > self._half:
            self._turn()
        end = self._at + size
        self._bytes[self._filled, self._at : end] = values.reshape(-1).view(np.uint8)
        image = self._halves[self._filled][self._at : end].view(target.dtype)
        target.copy_(image if values.ndim == 1 else image.view(target.shape), non_blocking=True)
        self._at = round_up(end, _ALIGNMENT)

    def send(self, values: npt.NDArray[np.generic]) -> Tensor:
        """Queue a copy of values into a new tensor."""
        kind = torch.from_numpy(np.empty(0, values.dtype)).dtype
        target = torch.empty(values.shape, dtype=kind, device=self._device)
        self.put(values, target)
        return target

    def _put_alone(self, values: npt.NDArray[np.generic], target: Tensor) -> None:
        """The same with memory of their own, which torch keeps until the copy is done."""
        pinned = self._memory.is_pinned()
        image = torch.empty(target.shape, dtype=target.dtype, device="cpu", pin_memory=pinned)
        image.numpy()[:] = values
        target.copy_(image, non_blocking=True)

    def _turn(self) -> None:
        """Go on in the other half, as soon as all copies from it are done."""
        wait, self._wait = self._wait, self._mark()
        wait()
        self._filled, self._at = 1 - self._filled, 0

    def _mark(self) -> Callable[[], object]:
        """A function that waits for all copies so far."""
        if self._device.type != "cuda":
            return bool
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        return event.synchronize
