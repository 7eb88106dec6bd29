"""The noise of samples: known bits, and logarithms that are the same on every machine."""

import math
import random

import numpy as np
import pytest

from molspec import _native
from tests.search import chance

FULL = 2**32 - 1
LOGS = ["-0x1.26bb1bbb55515p+1", "-0x1.6d3c324e13f4fp-2", "0x1.193ea7aad030ap+0"]
EXPS = ["0x1.cf46d99d52b3ap-1", "0x1.fc80db9dd5542p-2", "0x1.a56e0c2ac7f75p-44"]
TOKENS = [223, 320, 451, 18, 127, 145, 977, 142]


@pytest.mark.parametrize(
    ("counter", "key", "bits"),
    [
        ([0] * 4, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([FULL] * 4, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            0x299F31D0A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_generator_gives_the_published_bits(counter: list[int], key: int, bits: str) -> None:
    """The known-answer tests of Random123 (Salmon et al., SC 2011)."""
    assert " ".join(f"{word:08x}" for word in _native.philox(counter, key)) == bits


def test_fixed_log_and_exp_are_as_accurate_as_math() -> None:
    draw = random.Random(1)
    values = [draw.random() for _ in range(10_000)] + [10.0**-power for power in range(300)]
    values += [1 - 2.0**-power for power in range(1, 54)] + [1.0, 2.0, 1e300]
    for value in values:
        assert _native.fixed_log(value) == pytest.approx(math.log(value), rel=1e-15, abs=0)
    for value in (-800.0, *(draw.uniform(-690, 1) for _ in range(10_000))):
        assert _native.fixed_exp(value) == pytest.approx(math.exp(value), rel=1e-15, abs=1e-300)


def test_noise_has_the_same_bits_on_every_machine() -> None:
    """Uses only additions, multiplications and divisions, each rounded once: the bits are known."""
    assert [_native.fixed_log(x).hex() for x in (0.1, 0.7, 3.0)] == LOGS
    assert [_native.fixed_exp(x).hex() for x in (-0.1, -0.7, -30.0)] == EXPS
    sampling = _native.Sampling(seed=2**63 + 5)
    row = np.log(np.full(1000, 1e-3)).astype(np.float32)
    sampler = _native.Sampler(sampling=sampling, query_key=2**63 + 9, sample=3)
    assert [sampler.token(row, position) for position in range(8)] == TOKENS


@pytest.mark.parametrize("varied", ["seed", "query_key", "sample", "position"])
def test_neighbouring_draws_are_independent(varied: str) -> None:
    """All 64 pairs of tokens are equally likely in neighbouring draws from eight tokens."""
    row = np.full(8, -np.log(8), np.float32)

    def draw_token(number: int) -> int:
        keys = {"seed": 1, "query_key": 2, "sample": 3, "position": 4, varied: number}
        sampling, position = _native.Sampling(seed=keys.pop("seed")), keys.pop("position")
        return _native.Sampler(sampling=sampling, **keys).token(row, position)

    tokens = [draw_token(number) for number in range(20_000)]
    pairs = list(zip(tokens[::2], tokens[1::2], strict=True))
    uniform = {(a, b): 1 / 64 for a in range(8) for b in range(8)}
    assert chance.chi_square(pairs, uniform) < 3


def test_tokens_without_finite_log_probs_are_never_drawn() -> None:
    row = np.array([np.nan, -np.inf, -0.5, np.nan, -1.0], np.float32)
    for options in ({}, {"top_k": 2}, {"top_p": 0.9}):
        sampling = _native.Sampling(**options)  # type: ignore[arg-type]
        drawn = {
            _native.Sampler(sampling=sampling, query_key=1, sample=sample).token(row, 0)
            for sample in range(50)
        }
        assert drawn == {2, 4}
