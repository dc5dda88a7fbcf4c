"""A limit of pages counts each page once, from its admission until it is closed."""

from __future__ import annotations

from rlpanel.app.security.page_sessions import PageLimit

HERE, THERE = "10.0.0.1", "10.0.0.2"


def test_an_admitted_page_counts_once_when_it_is_open() -> None:
    pages: list[str] = []
    limit = PageLimit(3, lambda: pages)
    for _ in range(3):
        assert limit.admit(HERE)
        pages.append(HERE)
        limit.settle(HERE)
    assert not limit.admit(HERE)
    pages.pop()
    assert limit.admit(HERE)


def test_a_burst_is_counted_before_its_pages_are_open() -> None:
    limit = PageLimit(3, list)
    assert [limit.admit(HERE) for _ in range(5)] == [True, True, True, False, False]


def test_a_page_that_closes_while_another_is_built_makes_room_for_one() -> None:
    pages = [HERE, HERE]
    limit = PageLimit(3, lambda: pages)
    assert limit.admit(HERE)
    pages.pop()
    assert [limit.admit(HERE), limit.admit(HERE)] == [True, False]


def test_a_place_whose_page_never_opens_is_given_up() -> None:
    limit = PageLimit(1, list)
    assert [limit.admit(HERE), limit.admit(HERE)] == [True, False]
    impatient = PageLimit(1, list, held=-1.0)  # each place was held longer ago
    assert [impatient.admit(HERE), impatient.admit(HERE)] == [True, True]


def test_a_place_is_given_up_by_the_address_that_holds_it() -> None:
    limit = PageLimit(2, list, shared=True)
    assert limit.admit(HERE)
    assert limit.admit(THERE)
    limit.settle(THERE)
    assert not limit.admit(HERE)
    assert limit.admit(THERE)


def test_one_address_gets_half_of_the_pages() -> None:
    limit = PageLimit(6, list, shared=True)
    assert [limit.admit(HERE) for _ in range(4)] == [True, True, True, False]
    assert [limit.admit(f"2001:db8::{number}") for number in range(4)] == [True, True, True, False]


def test_no_limit_admits_all() -> None:
    limit = PageLimit(0, lambda: [HERE] * 1000, shared=True)
    assert all(limit.admit(HERE) for _ in range(10))
