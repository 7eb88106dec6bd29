"""Workers that use torch, forked after torch's own threads have run in this process."""

from collections.abc import Iterator

import torch

from molspec import Model, PredictOptions
from molspec.common.workers import in_processes
from tests import tiny


def multiplied(items: Iterator[int]) -> Iterator[float]:
    """Products of matrices for which torch starts its threads.

    All sums are of whole numbers, and exact: threads add them in an order of their own.
    """
    for item in items:
        yield float((torch.ones(600, 600) @ torch.full((600, 600), float(item))).double().sum())


def main() -> None:
    """Work with torch's operators, and with draft heads, in this process and then in two."""
    expected = list(multiplied(iter([1, 2])))
    assert expected == [600.0**3, 2 * 600.0**3]
    assert list(in_processes(multiplied, [1, 2], 2, float)) == expected
    model = Model(tiny.with_heads())
    options = PredictOptions(drafter="heads", max_length=20)
    answers = list(model.predict_stream(tiny.QUERIES, options))
    assert list(model.predict_stream(tiny.QUERIES, options, processes=2)) == answers


if __name__ == "__main__":
    main()
