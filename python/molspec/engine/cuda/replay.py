"""Captured steps, which searches on the host replay without Python."""

from __future__ import annotations

from functools import partial

import numpy as np

from molspec._native import LIMITS, Step
from molspec.engine.cuda.caches import FEWEST_NODES, MOST_REPLAYED, Caches

#: A row of a captured step without a node (csrc/ops/steps.h).
GAP = (0, 0, 0, -1)


def replayed_step(caches: Caches) -> Step:
    """Steps of up to MOST_REPLAYED nodes, each size by its graph.

    Valid until a buffer moves.
    """
    buffers = caches.nodes, caches.path_slots, caches.log_probs
    nodes, path_slots, log_probs = buffers
    # Kernels run once before they are captured: over no nodes, since others may have the slots.
    nodes.host.numpy()[:] = GAP
    nodes.upload(len(nodes.host))
    most = min(len(nodes.host), MOST_REPLAYED)
    sizes = [FEWEST_NODES << i for i in range((most // FEWEST_NODES).bit_length())]
    words = [
        caches.device.index or 0,
        0 if caches.stream is None else caches.stream.cuda_stream,
        *(each.data_ptr() for buffer in buffers for each in (buffer.host, buffer.device)),
        caches.workspace.data_ptr(),
        *(most, len(path_slots.host), log_probs.host.shape[1]),
        *(caches.graphs.handle(size, partial(caches.launch_step, size)) for size in sizes),
    ]
    # `Replay` of csrc/cuda/engine/replay.cpp.
    prepared = np.zeros(LIMITS["prepared_step_bytes"] // 8, dtype=np.int64)
    prepared[: len(words)] = words
    return Step(
        function=caches.library.replay_function(caches.model[0]),
        prepared=prepared.view(np.uint8),
        log_probs=log_probs.host.numpy()[:most],
        block_count=len(caches.kv_cache),
        tensors=[each for buffer in buffers for each in (buffer.host, buffer.device)],
    )
