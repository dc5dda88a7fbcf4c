"""Every route has an access decision, and no request imports a module or runs code."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tornado.routing import PathMatches, Rule

from rlpanel.app.security.request_guard import ROUTES, RouteAccess, access_of
from rlpanel.app.server.access import Access
from rlpanel.app.server.server import start
from rlpanel.panel_fixes.server_pages import tornado_application
from tests.integration.forked import CHECKOUT
from tests.integration.http_client import ask, upgrade
from tests.integration.security.page_client import page_token
from tests.integration.server_process import ServerProcess
from tests.ui.board import free_port
from tests.waiting import wait_until

TOKEN = "a-token-of-thirty-two-characters"
#: Modules that end the process or print when they are imported.
DEADLY = ["unittest.__main__", "venv.__main__", "idlelib.__main__", "antigravity", "this", "evil", "os"]
PANEL_SERVE = (sys.executable, "-m", "panel", "serve", str(CHECKOUT / "dashboards" / "board.py"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("working")
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w').write('it ran')")
    environment = {"RLPANEL_TOKEN": TOKEN, "PYTHONPATH": f"{CHECKOUT}:{folder}"}
    with ServerProcess(folder, cwd=folder, env=environment) as server:
        server.folder = folder  # type: ignore[attr-defined]
        yield server


def routes_of_a_server() -> list[str]:
    """Return the patterns of all routes that Panel, Bokeh and rlpanel register."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with closing(loop), ExitStack() as stack:
        stack.callback(asyncio.set_event_loop, None)  # no later test gets the closed loop
        server = start(None, Access(port=free_port(), token=TOKEN))
        rules = tornado_application(server).wildcard_router.rules
        server.stop(wait=False)
        assert all(isinstance(rule.matcher, PathMatches) for rule in rules)
        return [rule.matcher.regex.pattern for rule in rules]


def test_every_route_of_the_server_is_decided_and_each_decision_has_a_route() -> None:
    found = set(routes_of_a_server())
    assert found - set(ROUTES) == set()
    # Older Panel versions register these; a decision about them stays.
    assert set(ROUTES) - found <= {"/liveness$"}


def test_an_unlisted_route_is_closed() -> None:
    assert access_of(Rule(PathMatches("/new-in-panel-2"), object)) is RouteAccess.CLOSED


@pytest.mark.parametrize("module", DEADLY)
def test_a_request_imports_no_module(guarded: ServerProcess, module: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for extra in ({}, headers):
        assert ask(guarded.url, f"/components/{module}/x/_css/y", headers=extra).status == 404
    assert ask(guarded.url, "/health").status == 200
    assert not (guarded.folder / "ran").exists()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/static/js/bokeh.min.js", "/static/extensions/panel/panel.min.js", "/?run=run"],
)
def test_what_is_behind_the_login_asks_for_it(guarded: ServerProcess, path: str) -> None:
    assert ask(guarded.url, path).status == (302 if path.partition("?")[0] == "/" else 401)
    assert ask(guarded.url, path, headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


@pytest.mark.parametrize(
    "path", ["/liveness?endpoint=/", "/metadata", "/autoload.js?bokeh-autoload-element=x"]
)
def test_what_is_closed_is_closed_to_viewers_too(guarded: ServerProcess, path: str) -> None:
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
        assert ask(guarded.url, path, headers=headers).status == 404


def test_the_websocket_is_behind_the_login(guarded: ServerProcess) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    token = page_token(guarded.url, headers=bearer)
    assert upgrade(guarded.url, token=token) == 403
    assert upgrade(guarded.url, bearer, token=token) == 101


def test_the_page_does_not_carry_cookies_and_headers_of_the_request(guarded: ServerProcess) -> None:
    """Bokeh writes them into the page's session token, where scripts could read the session cookie."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Cookie": "rlpanel_session_1=secret", "X-Mine": "secret"}
    page = ask(guarded.url, "/", headers=headers).body.decode()
    (token,) = re.findall(r'"token":\s*"([^".]+)', page)[:1]
    payload = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert b"session_id" in payload
    assert TOKEN not in page
    packed = json.loads(payload).get("__bk__zlib_", "")
    told = zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))) if packed else b""
    assert b"secret" not in told


@pytest.mark.parametrize("flag", ["-m", "-Pm"])
def test_a_module_in_the_working_folder_is_no_library(tmp_path: Path, flag: str) -> None:
    """`python -m` puts the working folder first; typer is imported after rlpanel has removed it."""
    (tmp_path / "typer.py").write_text("raise SystemExit('the working folder was imported')")
    done = subprocess.run(
        [sys.executable, flag, "rlpanel", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["rlpanel"]), done.stderr


def test_under_panel_serve_an_opened_page_closes_the_component_route(root: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write('it ran')")
    environment = {"RLPANEL_ROOT": str(root), "PYTHONPATH": f"{CHECKOUT}:{tmp_path}"}
    with ServerProcess(command=PANEL_SERVE, env=environment) as server:
        assert ask(server.url, "/board").status == 200
        for module in ("unittest.__main__", "evil"):
            assert ask(server.url, f"/components/{module}/x/_css/y").status == 404
        assert wait_until(lambda: server.alive)
        assert ask(server.url, "/board").status == 200
        assert not (tmp_path / "ran").exists()


def test_under_panel_serve_warm_closes_the_component_route_before_the_first_page(root: Path) -> None:
    with ServerProcess("--warm", command=PANEL_SERVE, env={"RLPANEL_ROOT": str(root)}) as server:
        assert ask(server.url, "/components/unittest.__main__/x/_css/y").status == 404
        assert server.alive


def test_under_panel_serve_a_rebound_name_gets_no_websocket(root: Path) -> None:
    with ServerProcess(command=PANEL_SERVE, env={"RLPANEL_ROOT": str(root)}) as server:
        assert ask(server.url, "/board").status == 200
        rebound = {"Host": f"evil.example:{server.port}", "Origin": f"http://evil.example:{server.port}"}
        assert upgrade(server.url, rebound, "/board/ws") == 403
        assert upgrade(server.url, {"Origin": "http://evil.example"}, "/board/ws") == 403
        own = {"Host": f"localhost:{server.port}", "Origin": f"http://localhost:{server.port}"}
        assert upgrade(server.url, own, "/board/ws") == 101
