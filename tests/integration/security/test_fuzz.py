"""Random requests on every route: the process survives, imports nothing and never answers with 500."""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from rlpanel.app.security.request_guard import ROUTES
from tests.integration.http_client import ask
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-thirty-two-characters"
REQUESTS = 5_000
#: Runs the command line; on SIGUSR1, writes the names of all imported modules to a file.
LAUNCHER = """
import os, signal, sys
path, sys.argv = sys.argv[1], ["rlpanel", "serve", *sys.argv[2:]]
def write(*_):
    with open(path + ".new", "w") as file:
        file.write("\\n".join(sorted(sys.modules)))
    os.replace(path + ".new", path)
signal.signal(signal.SIGUSR1, write)
from rlpanel.cli import main
main()
"""
STEMS = [
    "/", "/ws", "/health", "/metrics", "/mcp", "/login", "/favicon.ico", "/liveness", "/metadata",
    "/autoload.js",
    "/static/", "/static/js/bokeh.min.js", "/static/extensions/", "/static/extensions/panel/",
    "/static/extensions/panel-material-ui/", "/components/", "/components/panel.widgets/Tabulator/",
    "/components/unittest.__main__/x/_css/", "/rest/session_info", "/media/x", "/admin", "/logout", "/../",
    "//",
]  # fmt: skip
PARTS = [
    "..", "%2e%2e", "%2f", "%00", "%0a", "%0d%0aX:1", "%ff%fe", "\\", "etc/passwd", "a" * 3000, "?",
    "?run=..", "?step=1e999", "?token=x", "#", ";x", "*", "{}", "[[", "%", "%zz", "日本", "js/", "_css",
    "__class__", "://x",
    "panel", "tabulator", "?endpoint=/", "?bokeh-autoload-element=1", "?v=1", "&", "=", "''", "<b>", "~", "|",
]  # fmt: skip
METHODS = ["GET"] * 8 + ["POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"]
HEADERS = [
    ("Host", ["localhost", "evil", "", "[", "a:b", "127.0.0.1:99999"]),
    ("Origin", ["null", "http://localhost", "x", "http://[", "http://127.0.0.1:PORT"]),
    ("Authorization", ["Bearer", "Bearer x", "Basic eDp5", "x", "\xff"]),
    ("Cookie", ["rlpanel_session_PORT=2|1:0|10:1|3:x|4:eA==|0", "a=b; a", "\xff=\xff", ";;;", "x" * 5000]),
    ("Upgrade", ["websocket", "h2c", ""]),
    ("Connection", ["Upgrade", "close", "x"]),
    ("Sec-WebSocket-Version", ["13", "0", "x"]),
    ("Sec-WebSocket-Key", ["dGhlIHNhbXBsZSBub25jZQ==", "x", ""]),
    ("Sec-WebSocket-Protocol", ["bokeh, x", "bokeh, eyJhIjoxfQ.x", "x", "bokeh,,"]),
    ("Sec-Fetch-Site", ["cross-site", "same-origin", "x"]),
    ("Content-Type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x"]),
    ("Content-Encoding", ["gzip", "x"]),
    ("Range", ["bytes=0-", "bytes=9-1", "bytes=-99999999999", "x"]),
    ("If-None-Match", ["*", "x"]),
    ("If-Modified-Since", ["x", "Sun, 22 Nov 2026 00:00:00 GMT"]),
    ("X-Forwarded-For", ["1.2.3.4", "x" * 100, ","]),
    ("Accept-Encoding", ["gzip", "x"]),
]


def a_request(
    choose: random.Random, port: int, well_formed: bool
) -> tuple[str, str, dict[str, str], bytes | None]:
    path = choose.choice(STEMS) + "".join(choose.choices(PARTS, k=choose.randrange(4)))
    path = path.encode().decode("latin-1").replace(" ", "+")
    chosen = choose.sample(HEADERS, choose.randrange(5))
    headers = {name: choose.choice(values).replace("PORT", str(port)) for name, values in chosen}
    if well_formed:
        headers.pop("Origin", None)
        headers["Host"] = f"127.0.0.1:{port}"
    body = choose.randbytes(choose.randrange(200)) if choose.random() < 0.2 else None
    return choose.choice(METHODS), path, headers, body


def send(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None) -> int:
    """Return the status of an answer; 0 if the server closed the connection: the request is invalid."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.putrequest(method, "/", skip_host="Host" in headers, skip_accept_encoding=True)
        # http.client refuses unusual paths, so the request line is replaced.
        connection._buffer[0] = f"{method} {path} HTTP/1.1".encode("latin-1")  # type: ignore[attr-defined]
        for name, value in headers.items():
            connection.putheader(name, value.encode("latin-1"))
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        if answer.status != 101:
            answer.read()
        return answer.status
    except (http.client.HTTPException, ConnectionError):
        return 0
    finally:
        connection.close()


def imported(server: ServerProcess, path: Path) -> set[str]:
    """Return the modules that the server's process has imported."""
    path.unlink(missing_ok=True)
    os.kill(server.pid, signal.SIGUSR1)
    wait_until(path.exists, PATIENCE, "the server did not write its modules")
    return set(path.read_text().splitlines())


@pytest.mark.parametrize("token", ["", TOKEN], ids=["open", "guarded"])
def test_random_requests_end_nothing_and_import_nothing(root: Path, tmp_path: Path, token: str) -> None:
    modules = tmp_path / "modules"
    command = (sys.executable, "-P", "-c", LAUNCHER, str(modules))
    with ServerProcess(root, command=command, env={"RLPANEL_TOKEN": token}) as server:
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        # A normal visit comes first, so that its imports do not count: a page, a script, each open route.
        for path in ("/", "/health", "/metrics", "/favicon.ico", "/static/js/bokeh.min.js"):
            assert ask(server.url, path, headers=bearer).status == 200
        assert send(server.port, "POST", "/mcp", bearer, b"{}") >= 400  # it imports the SDK
        before = imported(server, modules)
        choose = random.Random(20261125)
        # Few random requests are those of a visitor without the token, who is led to the login.
        statuses = Counter([send(server.port, "GET", "/", {}, None)])
        failed = []
        for number in range(REQUESTS):
            method, path, headers, body = a_request(choose, server.port, well_formed=number % 2 == 0)
            if opens_a_page(path) and number % 100:
                path = "/health"  # a page takes a second, so only some are requested
            status = send(server.port, method, path, headers, body)
            statuses[status] += 1
            if status >= 500 and status != 501:  # 501: a method that Tornado does not know
                failed.append((status, method, path, headers))
        assert failed == []
        assert server.alive
        assert imported(server, modules) - before <= {"encodings.idna", "stringprep"}
        wanted = {200, 400, 403, 404} | ({302, 401, 429} if token else {304, 405})
        assert wanted <= set(statuses), statuses  # the requests passed the first check


def opens_a_page(path: str) -> bool:
    """Return whether a path is that of the board."""
    return path.partition("?")[0].partition("#")[0] in {"/", ""}


def test_the_fuzz_reaches_every_route() -> None:
    assert [route for route in ROUTES if not any(re.match(route, stem) for stem in STEMS)] == []
