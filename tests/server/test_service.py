"""What all contracts of the server share."""

import asyncio
import time

from molspec.server.limits import Limits
from molspec.server.service import Service


def test_the_event_loop_runs_between_two_pieces() -> None:
    """If pieces queued in the thread, the event loop could not run between them."""
    service = Service({}, Limits())

    def queue_size(_: int) -> int:
        time.sleep(0.001)
        return service.texts._work_queue.qsize()

    async def run_pieces() -> list[list[int]]:
        return await asyncio.gather(*(service.in_pieces(queue_size, [0, 1]) for _ in range(9)))

    assert asyncio.run(run_pieces()) == [[0, 0]] * 9
