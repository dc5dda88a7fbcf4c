"""Which addresses a viewer chose."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders

from rlpanel.app.security.http_headers import after_login, comes_from_elsewhere


@pytest.mark.parametrize(
    ("site", "foreign"),
    [("none", False), ("same-origin", False), (None, False), ("same-site", True), ("cross-site", True)],
)
def test_the_browser_says_who_led_to_the_board(site: str | None, foreign: bool) -> None:
    headers = HTTPHeaders({"sec-fetch-site": site} if site else {})
    assert comes_from_elsewhere(headers, "?run=a&filter=x") is foreign


def test_the_login_hides_who_led_there() -> None:
    marked = after_login("/?run=a&filter=x")
    assert comes_from_elsewhere({"Sec-Fetch-Site": "same-origin"}, marked.partition("?")[2])
    assert after_login("/") == "/"
