"""Trees over independently guessed positions, compared with a simple reference version."""

import heapq
import math

import numpy as np
import numpy.typing as npt
import pytest

from molspec import _native
from molspec.drafting import guess_model
from tests import refused, tiny

GUESS = guess_model(tiny.VOCABULARY, None)
SPECIAL = set(tiny.VOCABULARY.special_ids)
Nodes = list[tuple[int, int, float]]


def expected_nodes(
    positions: npt.NDArray[np.float32], node_budget: int, min_log_prob: float
) -> Nodes:
    """(token, parent, log_prob) of the likeliest paths, parents before children."""
    nodes: Nodes = []
    queue: list[tuple[float, int, int, int]] = []

    def add(parent: int, position: int) -> None:
        if position == len(positions):
            return
        before = nodes[parent][2] if parent >= 0 else 0.0
        log_probs = positions[position]
        for token in sorted(range(positions.shape[1]), key=lambda token: -log_probs[token])[:8]:
            if token not in SPECIAL:
                # The order of ties does not matter: no two paths are equally likely here.
                log_prob = before + float(log_probs[token])
                heapq.heappush(queue, (-log_prob, parent, position, token))

    add(-1, 0)
    while queue and len(nodes) < node_budget:
        cost, parent, position, token = heapq.heappop(queue)
        if -cost < min_log_prob:
            break
        nodes.append((token, parent, -cost))
        add(len(nodes) - 1, position + 1)
    return nodes


def random_positions(seed: int, count: int, sharpness: float) -> npt.NDArray[np.float32]:
    logits = sharpness * np.random.default_rng(seed).normal(size=(count, len(tiny.TOKENS)))
    return (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("sharpness", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("node_budget", [1, 6, 40])
@pytest.mark.parametrize("min_probability", [0.0, 0.05])
def test_trees_match_reference(sharpness: float, node_budget: int, min_probability: float) -> None:
    min_log_prob = math.log(min_probability) if min_probability else -math.inf
    rows = np.stack([random_positions(seed, 6, sharpness) for seed in range(20)])
    trees = _native.position_trees(
        guess_model=GUESS, log_probs=rows, node_budget=node_budget, min_log_prob=min_log_prob
    )
    found = 0
    for row, tree in zip(rows, trees, strict=True):
        expected = expected_nodes(row, node_budget, min_log_prob)
        assert list(zip(tree.token_ids, tree.parents, strict=True)) == [n[:2] for n in expected]
        assert tree.log_probs == pytest.approx([log_prob for *_, log_prob in expected], abs=1e-4)
        found += len(tree)
    assert found >= 20 or sharpness < 1  # else every likeliest token may be special


def test_paths_contain_no_special_token() -> None:
    row = np.full((1, 3, len(tiny.TOKENS)), -9.0, np.float32)
    row[0, :, tiny.VOCABULARY.eos_id] = 0.0
    (tree,) = _native.position_trees(
        guess_model=GUESS, log_probs=row, node_budget=50, min_log_prob=-10.0
    )
    assert len(tree) == 4  # the other four of the eight likeliest tokens are special
    assert not SPECIAL & set(tree.token_ids)


def test_log_probs_of_another_vocabulary_are_refused() -> None:
    rows, options = np.zeros((1, 2, 5), np.float32), {"node_budget": 3, "min_log_prob": 0.0}
    message = r"log_probs: expected \[row, position, 13\]"
    refused(message, _native.position_trees, guess_model=GUESS, log_probs=rows, **options)
