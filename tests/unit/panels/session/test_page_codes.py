"""Codes by which an agent moves an open page: one page each, an hour, and few guesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rlpanel.errors import SettingError
from rlpanel.panels.session.page_addresses import (
    EXPIRES,
    MAX_WRONG,
    WINDOW,
    PageCodes,
    TooManyCodes,
    WrongCode,
)


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_code_moves_its_own_page_only() -> None:
    codes, shown = PageCodes(), list[tuple[str, Mapping[str, Any]]]()
    first = codes.give("a", lambda values: shown.append(("a", values)))
    second = codes.give("b", lambda values: shown.append(("b", values)))
    assert codes.show("?run=x&step=3&page=samples", first) == "?run=x&step=3&page=samples"
    assert codes.show("/?step=4", f" {second.lower().replace('-', ' ')} ") == "?step=4"
    assert [(page, values["step"]) for page, values in shown] == [("a", 3), ("b", 4)]


def test_a_code_ends_with_its_page_with_a_new_one_and_with_time() -> None:
    clock = Clock()
    codes = PageCodes(clock)
    old, new = codes.give("a", print), codes.give("a", lambda _: None)
    with pytest.raises(WrongCode):
        codes.show("?step=1", old)
    clock.now += EXPIRES - 1
    codes.show("?step=1", new)
    clock.now += 1
    with pytest.raises(WrongCode):
        codes.show("?step=1", new)
    newest = codes.give("a", lambda _: None)
    codes.end("a")
    with pytest.raises(WrongCode):
        codes.show("?step=1", newest)


def test_after_many_wrong_codes_all_are_refused_for_a_minute() -> None:
    clock = Clock()
    codes = PageCodes(clock)
    right = codes.give("a", lambda _: None)
    for at in range(MAX_WRONG):
        with pytest.raises(WrongCode):
            codes.show("?step=1", f"wrong{at}")
    with pytest.raises(TooManyCodes):
        codes.show("?step=1", right)
    clock.now += WINDOW
    codes.show("?step=1", right)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("?nosuch=1", "no key 'nosuch'"),
        ("?theme=dark", "no key 'theme'"),
        ("?step=many", "step has no valid value"),
        ("?page=admin", "page has no valid value"),
        ("?step", "without a value"),
        ("http://elsewhere/?step=1", "behind the host"),
        ("//elsewhere/?step=1", "behind the host"),
        ("?filter=" + "x" * 9000, "more than 8,192"),
    ],
)
def test_an_address_that_the_board_does_not_know_is_refused(address: str, said: str) -> None:
    codes, shown = PageCodes(), list[Mapping[str, Any]]()
    code = codes.give("a", shown.append)
    with pytest.raises(SettingError, match=said):
        codes.show(address, code)
    assert shown == []
