"""Calls of the dense operators, for every device that has them."""

from typing import Any

import torch

from tests import reference


def long(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def check(library: Any) -> None:
    """The operators equal their twins, for batches of any size."""
    for seed in range(150):
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int, high: int, generator: torch.Generator = generator) -> torch.Tensor:
            return torch.randint(0, high, shape, generator=generator)

        def sizes(*most: int, draw: Any = draw) -> list[int]:
            return [int(draw(1, high=each + 1)) for each in most]

        rows, queries, drafts = sizes(5, 3, 4)
        length, draft_length = sizes(*((6, 6) if seed % 10 else (200, 97)))
        lengths = draw(rows, high=8)
        drafted = draw(rows, draft_length, high=2 if seed % 2 else 50)
        differs = draw(rows, draft_length, high=12) == 0
        for name, *arguments in (
            ("left_pad", draw(int(lengths.sum()), high=4), lengths, int(draw(1, high=9))),
            (
                "expand_drafts",
                draw(rows, length, high=50),
                draw(rows, high=9),
                draw(rows, high=queries + 1),
                draw(queries + 1, drafts, draft_length, high=50),
            ),
            (
                "acceptance_length",
                drafted,
                draw(rows, high=draft_length + 1),
                drafted + differs if seed % 3 else draw(rows, draft_length, high=2),
            ),
        ):
            found, expected = (getattr(each, name)(*arguments) for each in (library, reference))
            torch.testing.assert_close(found, expected, atol=0, rtol=0)


ONE, NEW = long([[1]]), long([[[1]]])
ENDLESS = torch.empty(1, 2**62, 0, dtype=torch.int64)  # no token, any number of drafts
#: Operators with arguments that they refuse: the argument's name, its value, and what was expected.
REFUSED: tuple[tuple[str, tuple[object, ...], str], ...] = (
    ("left_pad", (long([1]), long([1, 1]), 0), "lengths add up to 2: "),
    ("left_pad", (long([1]), long([*[2**62] * 4, 1]), 0), rf"lengths\[0\] is {2**62}: "),
    ("left_pad", (long([1]), long([1, -1]), 0), r"lengths\[1\] is -1: "),
    ("left_pad", (ONE, long([1]), 0), "token_ids has 2 dimensions: "),
    ("expand_drafts", (ONE, ONE[0], long([2]), NEW), r"query_indices\[0\] is 2: "),
    ("expand_drafts", (ONE, ONE[0], ONE[0], ENDLESS), f"draft_ids has {2**62} drafts"),
    ("expand_drafts", (ONE, long([0, 0]), ONE[0], NEW), "position_offsets has 2 entries"),
    ("acceptance_length", (ONE, long([2]), ONE), r"draft_lengths\[0\] is 2: "),
    ("acceptance_length", (ONE, ONE[0], long([[1, 2]])), r"predicted_ids .* \[1, 2\]"),
    ("acceptance_length", (ONE, ONE[0], long([[1], [2]])), r"predicted_ids .* \[2, 1\]"),
    ("acceptance_length", (ONE.int(), ONE[0], ONE), "draft_ids is of int32: "),
)
