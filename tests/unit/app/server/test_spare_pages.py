"""Which requests may get the same spare page, and what of a request enters it."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from rlpanel.app.page.page_template import SYSTEM_COOKIE, THEME_COOKIE
from rlpanel.app.server.spare_pages import MAX_QUERY, PageKey
from rlpanel.panels.language.preference import LANGUAGE_COOKIE


def request(uri: str = "/?run=a", method: str = "GET", **headers: str) -> HTTPServerRequest:
    """A request with headers."""
    return HTTPServerRequest(
        headers=HTTPHeaders({"Host": "here"} | headers), start_line=RequestStartLine(method, uri, "HTTP/1.1")
    )


def test_requests_share_a_page_if_address_language_and_theme_are_equal() -> None:
    key = PageKey.of(request(Cookie=f"session=one; {THEME_COOKIE}=dark", **{"Accept-Language": "en"}))
    assert key is not None
    assert key == PageKey.of(request(Cookie=f"{THEME_COOKIE}=dark; session=two"))
    assert key != PageKey.of(request("/?run=b", Cookie=f"{THEME_COOKIE}=dark"))
    assert key != PageKey.of(request(Cookie=f"{THEME_COOKIE}=light"))
    assert key == PageKey.of(request(Cookie=f"{SYSTEM_COOKIE}=dark"))
    assert key == PageKey.of(request())  # a first visit
    assert key != PageKey.of(request(Cookie=f"{THEME_COOKIE}=dark", **{"Accept-Language": "zh-CN"}))
    assert key != PageKey.of(request(Cookie=f"{THEME_COOKIE}=dark; {LANGUAGE_COOKIE}=zh-CN"))


def test_nothing_else_of_a_request_enters_the_spare_page() -> None:
    cookie = f"rlpanel-session=secret; {THEME_COOKIE}=dark"
    key = PageKey.of(request(Cookie=cookie, Authorization="Bearer secret", Host="secret"))
    assert key is not None
    built = key.request()
    assert PageKey.of(built) == key
    assert "secret" not in repr(built.headers)
    assert set(built.headers) == {"Host", "Cookie"}
    assert set(built.cookies) == {THEME_COOKIE, LANGUAGE_COOKIE}


@pytest.mark.parametrize(
    "other",
    [
        request("/ws?run=a"),
        request(method="POST"),
        request("/?run=" + "a" * MAX_QUERY),
    ],
    ids=["websocket", "method", "long"],
)
def test_other_requests_get_no_spare_page(other: HTTPServerRequest) -> None:
    assert PageKey.of(other) is None


def test_a_link_of_another_site_gets_a_page_of_its_own() -> None:
    own, foreign = (PageKey.of(request(**{"Sec-Fetch-Site": site})) for site in ("none", "cross-site"))
    assert own is not None
    assert foreign is not None
    assert own != foreign
    assert PageKey.of(foreign.request()) == foreign
    assert PageKey.of(own.request()) == own
