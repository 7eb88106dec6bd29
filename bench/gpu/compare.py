"""The first difference of two tensors, as a line of the results."""

import torch
from place import Row
from torch import Tensor


def compared(what: str, actual: Tensor, expected: Tensor, tolerance: float = 0.0) -> Row:
    """Whether all elements agree, within a tolerance; else the first that does not.

    NaN equals NaN. A tolerance of 0 means the same bits.
    """
    actual, expected = actual.cpu(), expected.cpu()
    if actual.shape != expected.shape:
        return {"what": what, "ok": False, "shapes": [list(actual.shape), list(expected.shape)]}
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    if tolerance:
        same |= (actual - expected).abs() <= tolerance
    row: Row = {"what": what, "ok": bool(same.all())}
    if tolerance and actual.numel():
        row["largest_difference"] = float((actual - expected).abs().nan_to_num(0.0).max())
    if not row["ok"]:
        wrong = (~same).nonzero()
        index = tuple(wrong[0].tolist())
        row["wrong"] = len(wrong)
        row["first_wrong"] = {
            "index": index,
            "actual": repr(actual[index].item()),
            "expected": repr(expected[index].item()),
        }
    return row


def all_equal(what: str, actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> Row:
    """The first difference of tuples of tensors."""
    pairs = zip(actual, expected, strict=True)
    rows = [compared(f"{what}, result {i}", *pair) for i, pair in enumerate(pairs)]
    return next((row for row in rows if not row["ok"]), {"what": what, "ok": True})


def joined(rows: list[Tensor]) -> Tensor:
    """Rows of equal length, one below the other."""
    return torch.stack([row.cpu() for row in rows])
