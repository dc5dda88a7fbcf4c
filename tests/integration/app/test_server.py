"""The server's login, the headers of its answers, and its start-up messages."""

from __future__ import annotations

import gzip
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
from rlpanel.app.server.access import Access
from rlpanel.runtime import default_runtime
from tests.factories import append, write_run
from tests.ui.board import Served
from tests.waiting import wait_until

TOKEN = "s3cret-Ωmega-of-enough-length"


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
    """Send one request, without following redirects."""
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


def sign_in(server: Served, token: str = TOKEN, **query: str) -> http.client.HTTPResponse:
    """Send the login form."""
    return ask(server, f"/login?{urlencode(query)}", "POST", urlencode({"token": token}))


def cookie_of(answer: http.client.HTTPResponse) -> str:
    return (answer.getheader("Set-Cookie") or "").partition(";")[0]


@pytest.mark.parametrize("path", ["/", "/health", "/static/js/bokeh.min.js", "/nothing-here"])
def test_every_answer_forbids_other_origins(open_server: Served, path: str) -> None:
    answer = ask(open_server, path)
    policy = answer.getheader("Content-Security-Policy") or ""
    assert policy.startswith("default-src 'self'; " if path == "/" else "default-src 'none'; ")
    assert "frame-ancestors 'self'" in policy
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert not re.search(r"https?://|\*", policy)


def test_without_a_token_nothing_of_the_board_is_shown(guarded: Served) -> None:
    answer = ask(guarded, "/?run=run")
    where = urlsplit(urljoin(guarded.url, answer.getheader("Location") or ""))
    assert (answer.status, where.path, parse_qs(where.query)) == (302, "/login", {"next": ["/?run=run"]})
    assert b"requires a token" in ask(guarded, "/login").body  # type: ignore[attr-defined]
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
    answer = sign_in(guarded, wrong)
    assert (answer.status, cookie_of(answer)) == (401, "")
    sign_in(guarded)  # the right token resets the number of wrong ones


def test_the_token_is_turned_into_a_cookie_that_opens_the_board(guarded: Served) -> None:
    answer = sign_in(guarded, next="/?run=run&step=1")
    assert (answer.status, answer.getheader("Location")) == (303, "./?run=run&step=1&held=1")
    assert ask(guarded, "/", Cookie=cookie_of(answer)).status == 200


@pytest.mark.parametrize(
    "elsewhere", ["https://example.org/", "//example.org/", "/\\example.org", "javascript:1", "/\texample"]
)
def test_the_login_leads_nowhere_else(guarded: Served, elsewhere: str) -> None:
    assert sign_in(guarded, next=elsewhere).getheader("Location") == "./"


def test_a_wrong_token_is_not_repeated_on_the_page(guarded: Served) -> None:
    answer = sign_in(guarded, "<script>alert(1)</script>")
    assert b"Wrong token" in answer.body  # type: ignore[attr-defined]
    assert b"alert(1)" not in answer.body  # type: ignore[attr-defined]
    sign_in(guarded)


def test_prometheus_reads_what_health_says(open_server: Served, root: Path) -> None:
    with_run = default_runtime().reader.open(root / "run")
    try:
        wait_until(lambda: with_run.snapshot.samples == 6)
        append(root / "run" / "rollout_data_rank_0.jsonl", b"{broken\n")
        wait_until(lambda: json.loads(ask(open_server, "/health").body)["bad_lines"] == 1)  # type: ignore[attr-defined]
        size = (root / "run" / "rollout_data_rank_0.jsonl").stat().st_size
        # The reader publishes the samples first, and adds to its counters after that.
        wait_until(lambda: json.loads(ask(open_server, "/health").body)["bytes_read"] >= size)  # type: ignore[attr-defined]
        health = json.loads(ask(open_server, "/health").body)  # type: ignore[attr-defined]
        page = ask(open_server, "/metrics").body.decode()  # type: ignore[attr-defined]
    finally:
        default_runtime().reader.close(with_run)
    told = dict(re.findall(r"^rlpanel_(\w+) (\S+)$", page, re.MULTILINE))
    assert (health["well"], health["samples"], health["runs"]) == (True, 6, 1)
    assert (float(told["well"]), float(told["samples"]), float(told["bad_lines"])) == (1, 6, 1)
    assert float(told["lines_read_total"]) >= 7
    assert float(told["bytes_read_total"]) >= size


def test_a_token_is_asked_for_by_a_bearer_header_too(guarded: Served) -> None:
    assert ask(guarded, "/metrics", Authorization=f"Bearer {TOKEN}".encode().decode("latin-1")).status == 200


def test_a_board_on_all_addresses_prints_one_for_others_and_one_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "trainer")
    way_in = f"login#{urlencode({'token': TOKEN})}"
    printed = Access(host="0.0.0.0", port=7, token=TOKEN).printed_urls
    assert printed == [f"http://trainer:7/{way_in}", f"http://localhost:7/{way_in}"]
    assert Access(port=7, token=TOKEN).printed_urls == [f"http://127.0.0.1:7/{way_in}"]


def test_below_a_path_of_a_proxy_every_redirect_stays_there(guarded: Served) -> None:
    """The proxy removes its path, so redirects must be relative to the browser's address."""
    below = "https://board.example.org/rlpanel/"
    to_login = ask(guarded, "/?run=run").getheader("Location") or ""
    assert urlsplit(urljoin(below, to_login)).path == "/rlpanel/login"
    wanted = parse_qs(urlsplit(to_login).query)["next"][0]
    back = sign_in(guarded, next=wanted).getheader("Location") or ""
    assert urljoin(f"{below}login", back) == f"{below}?run=run&held=1"


def test_by_https_through_a_proxy_the_cookie_is_for_https_alone(root: Path) -> None:
    with Served(root, TOKEN, origins=("board.example.org",)) as server:
        form = urlencode({"token": TOKEN})
        by = {
            proto: ask(server, "/login", "POST", form, X_Forwarded_Proto=proto).getheader("Set-Cookie")
            for proto in ("https", "http")
        }
    assert ["Secure" in (by[proto] or "") for proto in ("https", "http")] == [True, False]


def test_the_image_asks_the_board_how_it_is(open_server: Served) -> None:
    """The health check of docs/deploy/Containerfile, with the port of this test's server."""
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


@pytest.mark.parametrize("path", ["/static/js/bokeh.min.js", "/static/extensions/panel/panel.min.js"])
def test_scripts_are_compressed_for_clients_that_accept_it(open_server: Served, path: str) -> None:
    plain, packed = ask(open_server, path), ask(open_server, path, Accept_Encoding="br, gzip")
    assert plain.getheader("Content-Encoding") is None
    assert packed.getheader("Content-Encoding") == "gzip"
    assert plain.getheader("Vary") == packed.getheader("Vary") == "Accept-Encoding"
    assert plain.getheader("Etag") != packed.getheader("Etag")
    assert gzip.decompress(packed.body) == plain.body  # type: ignore[attr-defined]
    assert len(packed.body) < len(plain.body) / 3  # type: ignore[attr-defined]


def test_a_browser_that_has_a_compressed_script_is_told_so(open_server: Served) -> None:
    path = "/static/js/bokeh.min.js"
    tag = ask(open_server, path, Accept_Encoding="gzip").getheader("Etag") or ""
    assert ask(open_server, path, Accept_Encoding="gzip", If_None_Match=tag).status == 304
    assert ask(open_server, path, If_None_Match=tag).status == 200


def test_a_part_of_a_script_is_not_compressed(open_server: Served) -> None:
    answer = ask(open_server, "/static/js/bokeh.min.js", Accept_Encoding="gzip", Range="bytes=0-9")
    assert (answer.status, answer.getheader("Content-Encoding")) == (206, None)
    assert len(answer.body) == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/static/js/../../../__init__.py", "/static/js/nothing.js"])
def test_compression_opens_no_other_file(open_server: Served, path: str) -> None:
    assert ask(open_server, path, Accept_Encoding="gzip").status in (403, 404)
