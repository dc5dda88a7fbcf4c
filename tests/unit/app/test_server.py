"""The server's doors: who gets in, what every answer forbids, and what it says of itself."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import pytest

from docs.generate import FOLDER
from rlpanel.app.server import Access
from rlpanel.store.opening import reader
from tests.factories import append, write_run
from tests.ui.board import Served
from tests.waiting import wait_until

TOKEN = "s3cret-Ωmega"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    return folder


@pytest.fixture(scope="module")
def open_server(root: Path) -> Iterator[Served]:
    with Served(root) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(root: Path) -> Iterator[Served]:
    with Served(root, TOKEN) as server:
        yield server


def ask(
    server: Served, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> http.client.HTTPResponse:
    """One request, redirects not followed."""
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def cookie_of(answer: http.client.HTTPResponse) -> str:
    return (answer.getheader("Set-Cookie") or "").partition(";")[0]


@pytest.mark.parametrize("path", ["/", "/health", "/static/js/bokeh.min.js", "/nothing-here"])
def test_every_answer_forbids_other_origins(open_server: Served, path: str) -> None:
    answer = ask(open_server, path)
    policy = answer.getheader("Content-Security-Policy") or ""
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'self'" in policy
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert not re.search(r"https?://|\*", policy)


def test_without_a_token_nothing_of_the_board_is_shown(guarded: Served) -> None:
    answer = ask(guarded, "/?run=run")
    where = urlsplit(urljoin(guarded.url, answer.getheader("Location") or ""))
    assert (answer.status, where.path, parse_qs(where.query)) == (302, "/login", {"next": ["/?run=run"]})
    assert b"asks for its token" in ask(guarded, "/login").body  # type: ignore[attr-defined]
    assert ask(guarded, "/metrics").status == 401
    assert json.loads(ask(guarded, "/health").body) == {"well": True}  # type: ignore[attr-defined]


def test_the_websocket_asks_too(guarded: Served) -> None:
    answer = ask(
        guarded,
        "/ws",
        Upgrade="websocket",
        Connection="Upgrade",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
        Origin=guarded.url.rstrip("/"),
    )
    assert answer.status == 403


@pytest.mark.parametrize("wrong", ["", "s3cret", TOKEN + "x", "日本"])
def test_another_token_opens_nothing(guarded: Served, wrong: str) -> None:
    answer = ask(guarded, "/login", "POST", urlencode({"token": wrong}))
    assert (answer.status, cookie_of(answer)) == (401, "")


def test_the_token_is_turned_into_a_cookie_that_opens_the_board(guarded: Served) -> None:
    answer = ask(
        guarded, f"/login?{urlencode({'next': '/?run=run&step=1'})}", "POST", urlencode({"token": TOKEN})
    )
    assert (answer.status, answer.getheader("Location")) == (302, "./?run=run&step=1")
    cookie = answer.getheader("Set-Cookie") or ""
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert ask(guarded, "/", Cookie=cookie_of(answer)).status == 200


def test_the_address_that_the_command_prints_opens_the_board(guarded: Served) -> None:
    answer = ask(guarded, Access(token=TOKEN).way_in)
    assert (answer.status, answer.getheader("Location")) == (302, "./")
    assert ask(guarded, "/", Cookie=cookie_of(answer)).status == 200


def test_a_cookie_that_somebody_made_up_opens_nothing(guarded: Served) -> None:
    real = cookie_of(ask(guarded, Access(token=TOKEN).way_in))
    assert ask(guarded, "/", Cookie=real[:-4] + "0000").status == 302


@pytest.mark.parametrize(
    "elsewhere", ["https://example.org/", "//example.org/", "/\\example.org", "javascript:1"]
)
def test_the_way_in_leads_nowhere_else(guarded: Served, elsewhere: str) -> None:
    query = urlencode({"token": TOKEN, "next": elsewhere})
    assert ask(guarded, f"/login?{query}").getheader("Location") == "./"


def test_what_was_wrong_is_said_without_repeating_it(guarded: Served) -> None:
    answer = ask(guarded, "/login", "POST", urlencode({"token": "<script>alert(1)</script>"}))
    assert b"not the token" in answer.body  # type: ignore[attr-defined]
    assert b"alert(1)" not in answer.body  # type: ignore[attr-defined]


def test_prometheus_reads_what_health_says(open_server: Served, root: Path) -> None:
    with_run = reader().open(root / "run")
    try:
        wait_until(lambda: with_run.snapshot.samples == 6)
        append(root / "run" / "rollout_data_rank_0.jsonl", b"{broken\n")
        wait_until(lambda: json.loads(ask(open_server, "/health").body)["bad_lines"] == 1)  # type: ignore[attr-defined]
        health = json.loads(ask(open_server, "/health").body)  # type: ignore[attr-defined]
        page = ask(open_server, "/metrics").body.decode()  # type: ignore[attr-defined]
    finally:
        reader().close(with_run)
    told = dict(re.findall(r"^rlpanel_(\w+) (\S+)$", page, re.MULTILINE))
    assert (health["well"], health["samples"], health["runs"]) == (True, 6, 1)
    assert (float(told["well"]), float(told["samples"]), float(told["bad_lines"])) == (1, 6, 1)
    assert float(told["lines_read_total"]) >= 7
    assert health["bytes_read"] >= (root / "run" / "rollout_data_rank_0.jsonl").stat().st_size


def test_a_token_is_asked_for_by_a_bearer_header_too(guarded: Served) -> None:
    assert ask(guarded, "/metrics", Authorization=f"Bearer {TOKEN}".encode().decode("latin-1")).status == 200


def test_origins_are_named_one_by_one() -> None:
    origins = Access(host="0.0.0.0", port=7, origins=("board.lab:443",)).allowed_origins
    assert {"localhost:7", "127.0.0.1:7", "board.lab:443"} <= set(origins)
    assert not any("*" in origin for origin in origins)


def test_below_a_path_of_a_proxy_every_redirect_stays_there(guarded: Served) -> None:
    """The proxy takes its path off; what the browser is sent to is relative to where it is."""
    below = "https://board.example.org/rlpanel/"
    to_login = ask(guarded, "/?run=run").getheader("Location") or ""
    assert urlsplit(urljoin(below, to_login)).path == "/rlpanel/login"
    query = urlsplit(to_login).query + "&" + urlencode({"token": TOKEN})
    back = ask(guarded, f"/login?{query}").getheader("Location") or ""
    assert urljoin(f"{below}login", back) == f"{below}?run=run"


def test_by_https_through_a_proxy_the_cookie_is_for_https_alone(root: Path) -> None:
    with Served(root, TOKEN, origins=("board.example.org",)) as server:
        way_in = Access(token=TOKEN).way_in
        by = {
            proto: ask(server, way_in, X_Forwarded_Proto=proto).getheader("Set-Cookie")
            for proto in ("https", "http")
        }
    assert ["Secure" in (by[proto] or "") for proto in ("https", "http")] == [True, False]


def test_the_image_asks_the_board_how_it_is(open_server: Served) -> None:
    """The health check of docs/deploy/Containerfile, at the port of this test's server."""
    text = (FOLDER / "deploy" / "Containerfile").read_text("utf-8")
    check = json.loads(re.findall(r"HEALTHCHECK.*\\\n +CMD (.+)", text)[0])
    port = str(urlsplit(open_server.url).port)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = str(free.getsockname()[1])
    said = [
        subprocess.run(
            [sys.executable, *(part.replace("5006", at) for part in check[1:])], stderr=subprocess.PIPE
        )
        for at in (port, nobody)
    ]
    assert [done.returncode == 0 for done in said] == [True, False]
