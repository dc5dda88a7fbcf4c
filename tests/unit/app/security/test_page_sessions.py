"""A page counts as open from the moment at which its place is settled, even if the server builds it later."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from rlpanel.app.security.page_sessions import PageLimit, PageSessions

ADDRESS = "10.0.0.1"


def request() -> HTTPServerRequest:
    made = HTTPServerRequest(
        start_line=RequestStartLine("GET", "/", "HTTP/1.1"), headers=HTTPHeaders(host="a")
    )
    made.remote_ip = ADDRESS
    return made


def test_a_page_counts_while_it_is_built_and_the_server_does_not_know_it_yet() -> None:
    known: list[str] = []
    sessions = PageSessions(None, lambda: known)
    limit = PageLimit(1, sessions.addresses)
    assert limit.admit(ADDRESS)
    sessions.give("a", request())
    with sessions.building("a"):
        limit.settle(ADDRESS)
        assert (sessions.addresses(), sessions.is_open("a"), limit.admit(ADDRESS)) == ([ADDRESS], True, False)
        known.append("a")
        assert sessions.addresses() == [ADDRESS]
    assert not limit.admit(ADDRESS)
    known.clear()
    assert not sessions.is_open("a")
    assert limit.admit(ADDRESS)
