"""The login: session cookies, wrong tokens, large bodies and short tokens."""

from __future__ import annotations

import base64
import http.client
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, expect

from rlpanel.app.server.access import Access
from tests.factories import write_run
from tests.integration.forked import run_module
from tests.integration.http_client import Answer, ask
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE, free_port
from tests.waiting import wait_until

TOKEN, OTHER = "correct horse battery staple", "another token of enough length"


def serve(root: Path, token: str = TOKEN, *arguments: str, port: int | None = None) -> ServerProcess:
    return ServerProcess(root, *arguments, port=port, env={"RLPANEL_TOKEN": token})


def sign_in(server: ServerProcess, token: str = TOKEN, **headers: str) -> Answer:
    return ask(server.url, "/login", "POST", urlencode({"token": token}), headers)


def opens(server: ServerProcess, cookie: str) -> bool:
    """Return whether a cookie passes the login, using a route that is cheaper than a page."""
    return ask(server.url, "/metrics", headers={"Cookie": cookie}).status == 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for tests that send few wrong tokens."""
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    with serve(folder) as started:
        yield started


@pytest.fixture
def server(root: Path) -> Iterator[ServerProcess]:
    with serve(root) as started:
        yield started


def test_the_cookie_is_a_random_session_and_not_the_token(shared: ServerProcess) -> None:
    first, second = sign_in(shared), sign_in(shared)
    assert (first.status, first.headers["Location"]) == (303, "./")
    attributes = first.headers["Set-Cookie"]
    assert attributes.startswith(f"rlpanel_session_{shared.port}=")
    assert {"HttpOnly", "SameSite=Lax"} <= {part.strip() for part in attributes.split(";")}
    assert "path" not in attributes.lower()  # the browser then uses the board's own folder
    assert first.cookie != second.cookie
    encoded = [base64.b64encode(TOKEN.encode()).decode().rstrip("="), TOKEN, TOKEN.replace(" ", "+")]
    assert not any(part in first.cookie for part in encoded)
    assert opens(shared, first.cookie)


def test_a_session_survives_a_restart_and_ends_with_its_token(root: Path) -> None:
    port = free_port()
    with serve(root, port=port) as server:
        cookie = sign_in(server).cookie
    with serve(root, port=port) as server:
        assert opens(server, cookie)
    with serve(root, OTHER, port=port) as server:
        assert not opens(server, cookie)


@pytest.mark.slow
def test_two_boards_on_one_host_keep_their_sessions_apart(root: Path, context: BrowserContext) -> None:
    with serve(root) as one, serve(root, OTHER) as two:
        page = context.new_page()
        for server, token in ((one, TOKEN), (two, OTHER)):
            page.goto(server.url)
            page.get_by_label("token").fill(token)
            with page.expect_navigation(url=server.url):
                page.keyboard.press("Enter")
        statuses = [context.request.get(f"{server.url}metrics").status for server in (one, two)]
        assert statuses == [200, 200]
        cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}  # type: ignore[typeddict-item]
        assert not opens(two, f"rlpanel_session_{two.port}={cookies[f'rlpanel_session_{one.port}']}")
        page.close()


@pytest.mark.parametrize("position", [0, 20, -1])
def test_a_cookie_that_somebody_changed_opens_nothing(shared: ServerProcess, position: int) -> None:
    name, _, value = sign_in(shared).cookie.partition("=")
    value = value.strip('"')
    changed = list(value)
    changed[position] = "0" if changed[position] != "0" else "1"
    assert opens(shared, f"{name}={value}")
    assert not opens(shared, f"{name}={''.join(changed)}")
    assert not opens(shared, f"{name}=")


def test_the_printed_address_signs_in_and_sends_the_token_in_no_address(
    shared: ServerProcess, context: BrowserContext
) -> None:
    printed = Access(port=shared.port, token=TOKEN).printed_urls[0]
    assert "#token=" in printed
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_navigation(url=shared.url):
        page.goto(printed)
    expect(page.locator(".rl-grid .tabulator-row").first).to_be_visible()
    assert not any("battery" in url.partition("#")[0] for url in asked)
    assert "battery" not in page.url
    assert ask(shared.url, f"/login?{urlencode({'token': TOKEN})}").cookie == ""
    page.close()


@pytest.mark.parametrize("given", ["environment", "option"])
def test_a_given_token_is_not_printed(root: Path, given: str) -> None:
    """The output may be kept: in the journal of a service, or in the log of a job."""
    arguments = ["--token", TOKEN] if given == "option" else []
    env = {"RLPANEL_TOKEN": TOKEN if given == "environment" else None}
    with ServerProcess(root, *arguments, env=env) as server:
        said = wait_until(lambda: [line for line in server.output if "open the board" in line])[0]
        assert said.endswith(f"open the board with the given token: http://127.0.0.1:{server.port}/login")
        assert not any("battery" in line or "#token" in line for line in server.output)


class _Proxy(BaseHTTPRequestHandler):
    """A proxy that passes /rlpanel/… on to the board without that prefix."""

    port = 0

    def do_GET(self) -> None:
        self._pass_on(None)

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass_on(self, body: bytes | None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(self.command, self.path.removeprefix("/rlpanel"), body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"content-length", "transfer-encoding"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


def test_behind_a_proxy_the_cookie_belongs_to_the_boards_folder(
    shared: ServerProcess, context: BrowserContext
) -> None:
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Proxy", (_Proxy,), {"port": shared.port}))
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{proxy.server_address[1]}/rlpanel/login?next=/metrics")
    assert "/rlpanel/login" in page.url
    page.get_by_label("token").fill(TOKEN)
    with page.expect_navigation(url="**/rlpanel/metrics"):
        page.keyboard.press("Enter")
    (cookie,) = context.cookies()
    assert cookie["path"] == "/rlpanel"  # type: ignore[typeddict-item]
    page.close()
    proxy.shutdown()
    thread.join(PATIENCE)
    proxy.server_close()


def test_wrong_tokens_are_slowed_down_and_logged_once(server: ServerProcess) -> None:
    statuses = [sign_in(server, f"wrong {number}").status for number in range(500)]
    assert statuses[:5] == [401] * 5
    assert statuses.count(401) < 20
    assert set(statuses[5:]) <= {401, 429}
    bearer = {"Authorization": "Bearer wrong"}
    assert {ask(server.url, "/health", headers=bearer).status for _ in range(20)} <= {401, 429}
    waiting = sign_in(server)
    assert waiting.status == 429
    assert 1 <= int(waiting.headers["Retry-After"]) <= 30
    said = [line for line in server.output if "wrong token" in line]
    assert len(said) == 1, said
    assert "127.0.0.1" in said[0]
    # A viewer who mistyped waits and then gets in; viewers with a session do not notice anything.
    wait_until(lambda: sign_in(server).status == 303, 2 * PATIENCE)


def test_signed_in_viewers_do_not_wait_for_somebody_who_guesses(server: ServerProcess) -> None:
    cookie = sign_in(server).cookie
    for number in range(20):
        sign_in(server, f"wrong {number}")
    assert sign_in(server, "wrong").status == 429
    assert opens(server, cookie)


def test_guesses_from_many_addresses_are_slowed_down_together(root: Path) -> None:
    with serve(root, TOKEN, "--origin", "board.lab") as server:
        addresses = [f"10.{number // 200}.0.{number % 200 + 1}" for number in range(400)]
        statuses = [
            sign_in(server, "wrong token", **{"X-Forwarded-For": address}).status for address in addresses
        ]
        assert statuses[:100] == [401] * 100
        assert statuses.count(401) < 110
        assert len([line for line in server.output if "wrong token" in line]) <= 101


def test_a_large_login_is_refused_and_not_kept_in_memory(server: ServerProcess) -> None:
    sign_in(server)
    before = peak_memory(server.pid)
    body = b"token=" + b"x" * (90 << 20)
    try:
        assert ask(server.url, "/login", "POST", body).status in {400, 413}
    except (ConnectionError, http.client.HTTPException):
        pass  # the server closed the connection while the client was still sending
    assert peak_memory(server.pid) - before < 30 << 20
    assert sign_in(server).status == 303
    assert ask(server.url, "/login", "POST", b"token=" + b"x" * (60 << 10)).status == 401


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process, in bytes."""
    found = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[0]) * 1024


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_short_token_is_refused_with_a_better_one(root: Path, host: str) -> None:
    options = ("--host", host, "--token", "abc123", "--port", str(free_port()))
    done = run_module("rlpanel", "serve", root, *options)
    assert done.returncode == 2
    (suggested,) = re.findall(r"RLPANEL_TOKEN=(\S+)", done.stderr)
    assert len(suggested) >= 16
    assert "abc123" not in done.stderr


def test_the_form_is_in_the_language_of_the_browser_or_the_chosen_one(shared: ServerProcess) -> None:
    chinese = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"}
    form = ask(shared.url, "/login", headers=chinese).body.decode()
    assert '<html lang="zh-CN">' in form
    assert "打开看板" in form
    wrong = sign_in(shared, "wrong", **chinese).body.decode()
    assert "token 错误。" in wrong
    chosen = ask(shared.url, "/login", headers={**chinese, "Cookie": "rlpanel-language=en"}).body.decode()
    assert '<html lang="en">' in chosen
    assert "Open the board" in chosen
