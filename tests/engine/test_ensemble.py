"""The mean of several models' probabilities: its bits, and the session that averages."""

import numpy as np
import numpy.typing as npt
import pytest

from molspec import _native
from molspec.engine.devices import make_engine
from molspec.engine.ensemble import EnsembleEngine
from tests import refused, tiny

Rows = npt.NDArray[np.float32]


def rows(seed: int, shape: tuple[int, int] = (40, 13)) -> Rows:
    drawn = np.random.default_rng(seed).normal(scale=9, size=shape)
    return (drawn - np.logaddexp.reduce(drawn, axis=1, keepdims=True)).astype(np.float32)


def average(*parts: Rows) -> Rows:
    copies = [part.copy() for part in parts]
    _native.average_log_probs(copies, len(copies[0]))
    for copy, part in zip(copies[1:], parts[1:], strict=True):
        np.testing.assert_array_equal(copy, part)
    return copies[0]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_it_is_the_arithmetic_mean(count: int) -> None:
    parts = [rows(seed) for seed in range(count)]
    exact = np.log(np.mean(np.exp(np.array(parts, dtype=np.longdouble)), axis=0))
    found = average(*parts)
    np.testing.assert_allclose(found, exact.astype(np.float32), rtol=1.2e-7, atol=1e-15)
    assert (found == exact.astype(np.float32)).mean() > 0.99


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_equal_parts_give_their_own_bits(count: int) -> None:
    part = rows(1)
    np.testing.assert_array_equal(average(*[part] * count), part)


def test_an_entry_does_not_depend_on_its_place() -> None:
    """Compilers add a rest of entries otherwise than whole vectors of them."""
    parts = [rows(seed) for seed in (1, 2, 3)]
    together = average(*parts)
    for place in range(len(together)):
        alone = average(*[part[place : place + 1] for part in parts])
        np.testing.assert_array_equal(alone[0], together[place])
        for entry in range(0, 13, 4):
            one = average(*[part[place : place + 1, entry : entry + 1].copy() for part in parts])
            assert one[0, 0] == together[place, entry]


def test_extremes() -> None:
    parts = [[[-0.0, -1e4, -3e38, -0.0]], [[-3e38, -2e4, -3e38, -1e-30]]]
    found = average(*[np.array(part, dtype=np.float32) for part in parts])
    half = np.log(np.float32(2))
    np.testing.assert_allclose(found, [[-half, -1e4, -3e38, 0]], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_number_in_a_part_is_none_in_the_mean(place: int, value: float) -> None:
    parts = [rows(seed) for seed in (1, 2, 3)]
    parts[place][5, 7] = value
    found = average(*parts)
    assert np.isnan(found[5, 7])
    assert np.isfinite(found).sum() == found.size - 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_entry_is_impossible_only_if_it_is_so_in_every_part(count: int) -> None:
    parts = [rows(seed) for seed in (1, 2, 3)]
    for part in parts[:count]:
        part[5, 7] = -np.inf
    found = average(*parts)
    assert np.isneginf(found[5, 7]) == (count == 3)
    assert np.isfinite(np.delete(found.ravel(), 5 * 13 + 7)).all()


def test_rows_beyond_the_count_stay() -> None:
    parts = [rows(1), rows(2)]
    first = parts[0].copy()
    _native.average_log_probs(parts, 3)
    np.testing.assert_array_equal(parts[0][3:], first[3:])
    assert not np.array_equal(parts[0][:3], first[:3])


def test_bad_parts_are_refused() -> None:
    refused("^parts is empty", _native.average_log_probs, [], 0)
    for wrong in (rows(1, (3, 13)), rows(1, (40, 12))):
        refused("^parts", _native.average_log_probs, [rows(1), wrong], 40)
    with pytest.raises(TypeError):  # a copy would get the mean
        _native.average_log_probs([rows(1)[:, ::2]], 1)


def test_vocabularies_of_other_sizes_are_refused() -> None:
    checkpoints = [tiny.checkpoint(), *tiny.others()]
    engines = [make_engine(each.spec, each.weights, "cpu", "float32") for each in checkpoints]
    assert EnsembleEngine(engines).spec.max_positions == tiny.SPEC.max_positions == 256
    vocabulary = type(tiny.VOCABULARY)((*tiny.TOKENS, "S"), unk_id=3)
    larger = tiny.checkpoint(vocabulary=vocabulary)
    engines.append(make_engine(larger.spec, larger.weights, "cpu", "float32"))
    refused("^engines have vocabularies of .*", EnsembleEngine, engines)
