"""The dense operators against their twins."""

import pytest
import torch

from molspec.engine import ops
from tests import refused
from tests.engine import dense
from tests.engine.dense import long


def test_operators_equal_their_twins() -> None:
    dense.check(ops)


@pytest.mark.parametrize(("name", "arguments", "message"), dense.REFUSED)
def test_bad_arguments_are_refused(name: str, arguments: tuple[object, ...], message: str) -> None:
    refused(RuntimeError, f"^{message}", getattr(ops, name), *arguments)


@pytest.mark.filterwarnings("ignore")
def test_operators_pass_opcheck() -> None:
    tests = ("test_schema", "test_faketensor")
    library = torch.ops.molspec
    torch.library.opcheck(
        library.left_pad, (long([1, 2, 3]), long([1, 2]), 0), test_utils=("test_schema",)
    )
    expand = (long([[1, 2]]), long([0]), long([0]), long([[[3], [4]]]))
    torch.library.opcheck(library.expand_drafts, expand, test_utils=tests)
    accept = (long([[1, 2]]), long([2]), long([[1, 3]]))
    torch.library.opcheck(library.acceptance_length, accept, test_utils=tests)
