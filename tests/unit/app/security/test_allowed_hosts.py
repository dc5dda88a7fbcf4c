"""Host and Origin headers: names are compared as a whole, and malformed ones are refused."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from rlpanel.app.security.http_headers import AllowedHosts, host_name, is_loopback


def request(**headers: str) -> HTTPServerRequest:
    line = RequestStartLine("GET", "/", "HTTP/1.1")
    return HTTPServerRequest(start_line=line, headers=HTTPHeaders(headers))


@pytest.mark.parametrize(
    ("netloc", "name"),
    [
        ("LocalHost:5006", "localhost"),
        ("localhost.", "localhost"),
        ("[::1]:5006", "::1"),
        ("board.lab", "board.lab"),
        ("localhost:x", ""),
        ("a@localhost", ""),
        ("localhost/x", ""),
        ("localhost?x", ""),
        ("localhost#x", ""),
        ("[::1", ""),
        ("", ""),
        ("localhost:99999", ""),
    ],
)
def test_the_name_of_a_host_header(netloc: str, name: str) -> None:
    assert host_name(netloc) == name


@pytest.mark.parametrize(
    ("address", "is_it"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("10.0.0.1", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback_addresses(address: str, is_it: bool) -> None:
    assert is_loopback(address) is is_it


def test_names_come_from_the_address_and_from_origins() -> None:
    hosts = AllowedHosts("10.0.0.7", ("board.lab:443", "Other.Lab:8443"))
    allowed = ["10.0.0.7", "10.0.0.7:80", "localhost:1", "board.lab", "other.lab"]
    assert [name for name in allowed if not hosts.allows_host(request(Host=name))] == []
    assert not hosts.allows_host(request(Host="lab"))
    assert not hosts.allows_host(request(Host=""))


def test_loopback_has_no_name_in_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "trainer")
    assert not AllowedHosts("127.0.0.1").allows_host(request(Host="trainer"))
    everywhere = AllowedHosts("0.0.0.0")
    assert [everywhere.allows_host(request(Host=name)) for name in ("trainer:5006", "0.0.0.0:5006")] == [
        True,
        True,
    ]


@pytest.mark.parametrize("origin", ["https://board.lab", "https://board.lab:443", "http://localhost:7"])
def test_an_origin_is_the_host_or_a_named_one(origin: str) -> None:
    hosts = AllowedHosts("127.0.0.1", ("board.lab:443",))
    assert hosts.allows_origin(request(Host="localhost:7", Origin=origin))


@pytest.mark.parametrize("origin", ["null", "http://localhost:8", "https://board.lab:444", "localhost:7", ""])
def test_another_origin_is_refused(origin: str) -> None:
    hosts = AllowedHosts("127.0.0.1", ("board.lab:443",))
    assert not hosts.allows_origin(request(Host="localhost:7", Origin=origin))
