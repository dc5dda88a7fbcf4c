"""Codes of integers in blocks against a dict, also of many pairs and of blocks that repeat what is known."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.store.snapshot.key_codes import FewCodes, ManyCodes


def blocks(seed: int) -> list[np.ndarray]:
    """Pairs of prompt and step in blocks of several sizes, partly known from the blocks before."""
    chance = np.random.default_rng(seed)
    sizes = [1, 400, 3, 900, 0, 50, 50, 2_000]
    return [chance.integers(0, 30, size) << 32 | chance.integers(0, 60, size) for size in sizes]


@pytest.mark.parametrize("seed", range(4))
def test_each_integer_has_one_code_that_never_changes(seed: int) -> None:
    codes, known = ManyCodes(), dict[int, int]()
    for block in blocks(seed):
        found = codes.each(block)
        for value, code in zip(block.tolist(), found.tolist(), strict=True):
            assert known.setdefault(value, code) == code
        assert len(codes) == len(known)
        assert sorted(known.values()) == list(range(len(known)))
    values, of_value = codes.sorted()
    assert dict(zip(values.tolist(), of_value.tolist(), strict=True)) == known
    assert (np.diff(values) > 0).all()
    assert [known[value] for value in codes.values.tolist()] == list(range(len(known)))


@pytest.mark.parametrize("seed", range(4))
def test_few_codes_are_those_of_the_first_sight(seed: int) -> None:
    codes, known = FewCodes(), dict[int, int]()
    for block in blocks(seed):
        expected = [known.setdefault(value, len(known)) for value in block.tolist()]
        assert codes.each(block).tolist() == expected
    assert codes.values.tolist() == list(known)


def test_nothing_has_no_codes() -> None:
    values, codes = ManyCodes().sorted()
    assert (len(values), len(codes), len(ManyCodes().values), len(FewCodes().values)) == (0, 0, 0, 0)
