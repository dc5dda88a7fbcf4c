"""A hash set keeps any number of keys."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.store.columns.related_rows import HashSet, has_key, mix


def test_a_key_is_new_once() -> None:
    draw, seen, known = np.random.default_rng(0), HashSet(max_recent=10), set[int]()
    for _ in range(40):
        keys = draw.integers(0, 200, 7).astype(np.uint64)
        before = []
        for key in keys.tolist():
            before.append(key in known)
            known.add(key)
        assert seen.add(keys).tolist() == before


def test_the_greatest_key_is_a_key_like_others() -> None:
    seen, keys = HashSet(max_recent=0), np.array([0, 2**64 - 1], np.uint64)
    assert (seen.add(keys).tolist(), seen.add(keys).tolist()) == ([False, False], [True, True])


def test_keys_that_are_added_later_are_known_when_others_come() -> None:
    seen, keys = HashSet(), np.arange(10, dtype=np.uint64)
    seen.add_later(lambda: keys)
    assert not seen.has_repeats
    assert np.flatnonzero(seen.add(keys[:3])).tolist() == [0, 1, 2]
    assert seen.has_repeats
    assert seen.add(keys).all()


def test_many_keys_at_once_are_told_apart_as_few_are() -> None:
    keys = mix(np.arange(100_000, dtype=np.uint64) % np.uint64(70_000))
    few, many = HashSet(), HashSet()
    slowly = np.concatenate([few.add(part) for part in np.array_split(keys, 1000)])
    assert many.add(keys[:10]).tolist() == slowly[:10].tolist()
    np.testing.assert_array_equal(many.add(keys[10:]), slowly[10:])
    assert many.add(keys[:70_000]).all()


@pytest.mark.parametrize("others", [[2**63 + 5], [2**63 + 5, 2**63 + 9], [7], []], ids=str)
def test_keys_beyond_half_of_64_bits_are_found_in_every_numpy(others: list[int]) -> None:
    keys = [2**63 + 5, 7, 2**64 - 1]
    found = has_key(np.array(keys, np.uint64), np.array(others, np.uint64))
    assert found.tolist() == [key in others for key in keys]
