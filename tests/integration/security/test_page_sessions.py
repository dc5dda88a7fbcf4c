"""One viewer never acts for another: a page has a session that only its own viewer can connect to."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from bokeh.util.token import generate_jwt_token, generate_session_id, get_session_id
from tornado.httpclient import HTTPError

from rlpanel.app.server.page_handlers import MAX_MESSAGE
from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.http_client import ask, upgrade
from tests.integration.security.page_client import connect, leave, page_token, send, until
from tests.integration.server_process import ServerProcess
from tests.ui.board import Served
from tests.viewer import TOKEN as SESSION_TOKEN
from tests.waiting import run_alone, wait_until

TOKEN = "a-token-of-thirty-two-characters"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PANEL_SERVE = (sys.executable, "-m", "panel", "serve", str(CHECKOUT / "dashboards" / "board.py"))
#: What Bokeh expects in a token besides the session.
PAYLOAD = {"headers": {}, "cookies": {}, "arguments": {}}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A board without a token."""
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    with ServerProcess(folder) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    with ServerProcess(folder, env={"RLPANEL_TOKEN": TOKEN}) as server:
        yield server


def sign_in(server: ServerProcess) -> dict[str, str]:
    """Return the headers of a browser that has signed in."""
    return {"Cookie": ask(server.url, "/login", "POST", urlencode({"token": TOKEN})).cookie}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/?bokeh-session-id=mine", {}),
        ("/?run=run&bokeh-session-id=", {}),
        ("/?bokeh-token=mine", {}),
        ("/", {"Bokeh-Session-Id": "mine"}),
        ("/ws?bokeh-session-id=mine", {}),
    ],
)
def test_a_link_that_chooses_the_session_is_refused(
    board: ServerProcess, path: str, headers: dict[str, str]
) -> None:
    answer = ask(board.url, path, headers=headers)
    assert answer.status == 400
    assert answer.body.startswith(b"The server chooses the session of a page.")


def test_every_page_has_its_own_session(board: ServerProcess) -> None:
    assert len({get_session_id(page_token(board.url)) for _ in range(3)}) == 3


def test_a_token_that_the_server_did_not_make_opens_no_websocket(board: ServerProcess) -> None:
    known = get_session_id(page_token(board.url))
    made = [
        generate_jwt_token(each, secret_key=key, signed=key is not None, extra_payload=PAYLOAD)
        for each in ("mine", known, generate_session_id(b"mine", signed=True))
        for key in (None, b"mine")
        if key is None or "." in each
    ]
    given = page_token(board.url).split(".")
    other = page_token(board.url).split(".")
    mixed = [".".join((given[0], other[1])), given[0], ".".join(given) + "x", "none", "", ".", "e30.x"]
    assert [upgrade(board.url, token=token) for token in (*made, *mixed)] == [403] * len(made + mixed)


def test_a_page_has_one_websocket_at_a_time(board: ServerProcess) -> None:
    token = page_token(board.url)

    async def look() -> None:
        first = await connect(board.url, token)
        await until(first, "ACK")
        with pytest.raises(HTTPError, match="403"):
            await connect(board.url, token)
        await send(first, "PULL-DOC-REQ", {})
        assert await until(first, "PULL-DOC-REPLY")
        await leave(first)
        await asyncio.to_thread(wait_until, lambda: upgrade(board.url, token=token) == 101)

    run_alone(look())


def test_two_websockets_at_once_do_not_share_a_page(board: ServerProcess) -> None:
    async def look() -> None:
        for _ in range(5):
            token = page_token(board.url)
            got = await asyncio.gather(*(connect(board.url, token) for _ in range(4)), return_exceptions=True)
            open_ones = [each for each in got if not isinstance(each, BaseException)]
            read = await asyncio.gather(*(until(each, "ACK") for each in open_ones))
            assert sum(bool(each) for each in read) == 1
            for each in open_ones:
                await leave(each)

    run_alone(look())


def test_the_page_of_one_login_is_not_open_to_another(guarded: ServerProcess) -> None:
    mine, other = sign_in(guarded), sign_in(guarded)
    token = page_token(guarded.url, headers=mine)
    assert [upgrade(guarded.url, headers, token=token) for headers in (other, BEARER, {})] == [403] * 3
    assert upgrade(guarded.url, mine, token=token) == 101


def test_a_logout_ends_copies_of_the_cookie_and_open_pages(guarded: ServerProcess) -> None:
    mine, other = sign_in(guarded), sign_in(guarded)
    token = page_token(guarded.url, headers=mine)

    async def look() -> None:
        page = await connect(guarded.url, token, mine)
        await until(page, "ACK")
        form = await asyncio.to_thread(ask, guarded.url, "/logout", headers=mine)
        assert b"Log out" in form.body  # a link alone changes nothing
        assert ask(guarded.url, "/metrics", headers=mine).status == 200
        foreign = {**mine, "Origin": "http://evil.example"}
        assert ask(guarded.url, "/logout", "POST", "", foreign).status == 403
        done = await asyncio.to_thread(ask, guarded.url, "/logout", "POST", "", mine)
        assert (done.status, done.headers["Location"]) == (303, "./login")
        assert done.cookie.split("=")[1].strip('"') == ""
        assert not await until(page, "never")  # it was closed
        assert page.close_code == 1008
        await leave(page)

    run_alone(look())
    assert ask(guarded.url, "/metrics", headers=mine).status == 401
    assert upgrade(guarded.url, mine, token=token) == 403
    assert ask(guarded.url, "/metrics", headers=other).status == 200


def test_a_page_that_sends_buffers_bytes_or_too_much_is_closed(board: ServerProcess) -> None:
    async def look() -> None:
        for number in range(5):
            page = await connect(board.url, page_token(board.url))
            await until(page, "ACK")
            if number == 0:
                await send(page, "PATCH-DOC", {"events": []}, num_buffers=10**9)
            elif number == 1:
                await page.write_message(b"x", binary=True)
            elif number == 2:
                await page.write_message("x" * (MAX_MESSAGE + 1))
            elif number == 3:
                await send(page, "PUSH-DOC", {"doc": {}})
            else:
                for _ in range(3):
                    await page.write_message("[" * 50_000)
            assert not await until(page, "never")
            assert page.close_code == (1009 if number == 2 else 1007)
            await leave(page)

    run_alone(look())
    assert ask(board.url, "/health").status == 200


def test_wrong_messages_are_answered_without_a_traceback_and_logged_once_for_a_page(root: Path) -> None:
    with ServerProcess(root) as server:

        async def look() -> None:
            page = await connect(server.url, page_token(server.url))
            await until(page, "ACK")
            event = {"kind": "ModelChanged", "model": {"id": "nothing\n\x1b[2J"}, "attr": "text", "new": 1}
            for _ in range(20):
                await send(page, "PATCH-DOC", {"events": [event]})
                answer = await until(page, "ERROR")
                assert str(CHECKOUT) not in answer
                assert "site-packages" not in answer
                assert "nothing" not in answer
            await leave(page)

        run_alone(look())
        wait_until(lambda: any("19 more messages" in line for line in server.output))
        said = [line for line in server.output if not line.startswith("rlpanel: ")]
    assert len(said) == 2, said
    assert "127.0.0.1" in said[0]
    assert not any("\x1b" in line or len(line) > 400 for line in said)


def test_a_page_of_a_session_that_ended_counts_when_it_connects(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=2, samples=2)

    async def again(token: str) -> None:
        page = await connect(server.url, token)
        await until(page, "ACK")
        await leave(page)

    async def crowded() -> None:
        pages = [await connect(server.url, page_token(server.url)) for _ in range(2)]
        for page in pages:
            await until(page, "ACK")
        assert [upgrade(server.url, token=token) for token in old] == [503, 503]
        for page in pages:
            await leave(page)

    with Served(tmp_path, linger=0.2, max_pages=2) as server:
        old = [page_token(server.url) for _ in range(2)]
        wait_until(lambda: not server.pages)
        run_alone(again(old[0]))  # on a slow network, the scripts may take that long
        wait_until(lambda: not server.pages)
        run_alone(crowded())


def test_one_address_gets_half_of_the_pages_of_a_limited_board_behind_a_proxy(root: Path) -> None:
    with ServerProcess(root, "--origin", "board.lab", "--max-pages", "4") as server:
        one, other = ({"X-Forwarded-For": f"10.0.0.{number}"} for number in (1, 2))
        assert [ask(server.url, headers=one).status for _ in range(3)] == [200, 200, 503]
        forged = {**one, "X-Real-Ip": "10.0.0.9"}
        assert ask(server.url, headers=forged).status == 503
        assert ask(server.url, method="HEAD").status == 405  # and holds no place
        assert [ask(server.url, headers=other).status for _ in range(3)] == [200, 200, 503]


def test_under_panel_serve_a_link_cannot_choose_the_session_either(root: Path) -> None:
    with ServerProcess("--warm", command=PANEL_SERVE, env={"RLPANEL_ROOT": str(root)}) as server:
        assert ask(server.url, "/board?bokeh-session-id=mine").status == 400
        assert ask(server.url, "/board", headers={"Bokeh-Session-Id": "mine"}).status == 400
        assert SESSION_TOKEN.search(ask(server.url, "/board").body.decode())


def test_the_policy_of_the_page_allows_its_own_inline_scripts_only(board: ServerProcess) -> None:
    answers = [ask(board.url) for _ in range(2)]
    nonces = [
        re.search(r"script-src 'self' 'nonce-([\w-]{22})' ", each.headers["Content-Security-Policy"])
        for each in answers
    ]
    assert all(nonces)
    assert len({found[1] for found in nonces if found}) == 2
    for answer, nonce in zip(answers, nonces, strict=True):
        assert "script-src 'self' 'unsafe-inline'" not in answer.headers["Content-Security-Policy"]
        scripts = re.findall(r"<script[^>]*>", answer.body.decode())
        assert nonce
        assert len(scripts) > 5
        assert all(f'nonce="{nonce[1]}"' in each for each in scripts)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/nothing", "/static/js/bokeh.min.js", "/ws"])
def test_other_answers_run_nothing(board: ServerProcess, path: str) -> None:
    policy = ask(board.url, path).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


def test_the_forms_of_login_and_logout_run_only_their_own_script(guarded: ServerProcess) -> None:
    for path, headers in (("/login", {}), ("/logout", BEARER)):
        policy = ask(guarded.url, path, headers=headers).headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert ("script-src 'sha256-" in policy) is (path == "/login")


def test_health_still_says_all(board: ServerProcess) -> None:
    assert json.loads(ask(board.url, "/health").body)["well"]
