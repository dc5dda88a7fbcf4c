"""A limit of pages counts each page once, from its admission until it is closed."""

from __future__ import annotations

import pytest

from rlpanel.app.security import page_limit
from rlpanel.app.security.page_limit import PageLimit


def test_an_admitted_page_counts_once_when_it_is_open() -> None:
    pages: list[str] = []
    limit = PageLimit(3, lambda: pages)
    for name in ("a", "b", "c"):
        assert limit.admit()
        pages.append(name)
    assert not limit.admit()
    pages.remove("a")
    assert limit.admit()


def test_a_burst_is_counted_before_its_pages_are_open() -> None:
    limit = PageLimit(3, list)
    assert [limit.admit() for _ in range(5)] == [True, True, True, False, False]


def test_a_page_that_closes_while_another_is_built_makes_room_for_one() -> None:
    pages = ["a", "b"]
    limit = PageLimit(3, lambda: pages)
    assert limit.admit()
    pages.remove("a")
    assert [limit.admit(), limit.admit()] == [True, False]


def test_a_place_whose_page_never_opens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = PageLimit(1, list)
    assert limit.admit()
    assert not limit.admit()
    monkeypatch.setattr(page_limit, "HELD", -1.0)  # longer ago than a place is held
    assert limit.admit()


def test_no_limit_admits_all() -> None:
    limit = PageLimit(0, lambda: [str(number) for number in range(1000)])
    assert all(limit.admit() for _ in range(10))
