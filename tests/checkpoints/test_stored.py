"""Checkpoints of other libraries give the log-probs that their models gave."""

import pytest
import torch
from safetensors.torch import load_file

from molspec.checkpoints import read
from tests.checkpoints import stored, twin

#: A source and a target by the library; "lightning" is the model of Andronov et al.
TEXTS = {
    "chemformer": ("Cc1O(N)", "N(Cc)O"),
    "lightning": ("COcC", "OCc"),
    "opennmt": ("CcON1()", "cC1(O)"),
}
#: The tokens that the target has, whether the source has the same, and the positions.
SIZES = {
    "chemformer": (14, True, 40),
    "lightning": (7, True, 512),
    "lightning-separate": (7, False, 512),
    "opennmt-0.4.1": (12, True, 1024),
    "opennmt-2.3": (12, False, 1024),
    "opennmt-3.5": (12, True, 1024),
    "opennmt-3.5-gated": (12, False, 1024),
    "opennmt-3.5-rotary": (12, True, 1024),
}


@pytest.mark.parametrize("name", SIZES)
def test_log_probs_are_those_of_the_library(name: str) -> None:
    checkpoint = read(stored.file_of(stored.FOLDER / name))
    expected = load_file(stored.FOLDER / name / "expected.safetensors")["log_probs"]
    actual = twin.twin_log_probs(checkpoint, *TEXTS[name.partition("-")[0]])
    count, shared, positions = SIZES[name]
    assert expected.shape[1] == count
    torch.testing.assert_close(actual[:, :count], expected, atol=1e-4, rtol=1e-5)
    assert not actual[:, count:].exp().any()
    spec = checkpoint.spec
    assert (spec.shared_embedding, spec.max_positions) == (shared, positions)
