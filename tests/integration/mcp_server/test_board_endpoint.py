"""The tools for agents at ``/mcp`` of a real ``rlpanel serve``: same runs, token, Host and Origin rules."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.factories import append, line, write_run
from tests.integration.http_client import ask as ask_board
from tests.integration.mcp_server.asking import Answers, ask_http
from tests.integration.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("mcp") is None, reason="needs mcp")]

TOKEN = "a-token-of-thirty-two-characters"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class Reply(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board") / "runs"
    write_run(folder / "exp")
    write_run(folder / "deep" / "other")
    write_run(folder.parent / "outside")
    return folder


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[ServerProcess]:
    with ServerProcess(root, env={"RLPANEL_TOKEN": TOKEN, "RLPANEL_CHECK": "0"}) as server:
        yield server


def post(port: int, headers: dict[str, str], method: str = "POST", path: str = "/mcp") -> Reply:
    """Send the first request of a client with these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request(method, path, json.dumps(HELLO), usual | headers)
    try:
        answer = connection.getresponse()
        return Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))
    finally:
        connection.close()


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_the_real_client_asks_the_board(board: ServerProcess) -> None:
    async def script(answers: Answers) -> None:
        assert {row["run"] for row in await answers.rows("runs")} == {"exp", "deep/other"}
        document = await answers.document("steps", run="deep/other")
        assert document["untrusted"]["about"]["run"] == "deep/other"
        assert "no run" in await answers.error("findings", run="../outside")
        [sample] = await answers.rows("samples", run="exp", limit=1)
        link = json.loads(await answers.text("link", run="exp", sample=sample["uid"]))["link"]
        assert link.startswith(f"http://127.0.0.1:{board.port}/?run=exp")
        assert "Formula" in (await answers.client.read_resource("docs://metrics/kl_k3")).contents[0].text  # type: ignore[union-attr]
        assert (await answers.client.list_prompts()).prompts
        for tool in ("tag", "note"):
            assert "Unknown tool" in await answers.error(tool, run="exp", uid=sample["uid"])

    ask_http(board.port, TOKEN, script)


def test_a_new_line_is_in_the_next_answer(board: ServerProcess, root: Path) -> None:
    async def script(answers: Answers) -> None:
        before = (await answers.document("samples", run="exp"))["total"]
        append(root / "exp" / "rollout_data_rank_0.jsonl", line(9))
        for _ in range(600):
            if (await answers.document("samples", run="exp"))["total"] == before + 1:
                return
        pytest.fail("the new line did not appear")

    ask_http(board.port, TOKEN, script)


def test_agents_and_pages_share_the_reader(root: Path) -> None:
    def followed() -> int:
        return int(json.loads(ask_board(server.url, "/health").body)["runs"])

    async def script(answers: Answers) -> None:
        for _ in range(2):
            await answers.document("steps", run="exp")

    with ServerProcess(root, "--no-watch", env={"RLPANEL_CHECK": "0"}) as server:
        assert followed() == 0
        ask_http(server.port, "", script)
        assert followed() == 1
        assert ask_board(server.url, "/?run=exp").status == 200
        assert followed() == 1


@pytest.mark.parametrize("guess", ["", "Bearer wrong", "Basic {token}", "Bearer {token}x"])
def test_others_are_refused(board: ServerProcess, guess: str) -> None:
    headers = {"Authorization": guess.format(token=TOKEN)} if guess else {}
    assert post(board.port, headers).status == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil:{port}"])
def test_another_host_is_refused_even_with_the_token(board: ServerProcess, host: str) -> None:
    assert post(board.port, bearer() | {"Host": host.format(port=board.port)}).status == 403


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=["origin", "null", "fetch"],
)
def test_another_page_is_refused_even_with_the_token(board: ServerProcess, headers: dict[str, str]) -> None:
    assert post(board.port, bearer() | headers).status == 403


def test_the_right_request_is_answered_as_json(board: ServerProcess) -> None:
    answer = post(board.port, bearer())
    assert answer.status == 200
    assert json.loads(answer.text)["result"]["serverInfo"]["name"] == "rlpanel"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_other_methods_are_refused(board: ServerProcess, method: str) -> None:
    assert post(board.port, bearer(), method).status == 405


def test_a_request_that_is_no_json_is_refused(board: ServerProcess) -> None:
    assert post(board.port, bearer() | {"Content-Type": "text/plain"}).status in {400, 415}


def test_a_large_request_is_refused(board: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=30)
    connection.putrequest("POST", "/mcp")
    connection.putheader("Authorization", f"Bearer {TOKEN}")
    connection.putheader("Content-Length", str(10 << 20))
    connection.endheaders()
    try:
        assert connection.getresponse().status == 400
    except (http.client.HTTPException, ConnectionError):
        pass  # the server closed the connection
    finally:
        connection.close()


def test_a_board_without_token_says_where_agents_ask(root: Path) -> None:
    with ServerProcess(root, env={"RLPANEL_CHECK": "0"}) as server:
        assert any(f"{server.url}mcp (Model Context Protocol)" in line for line in server.output)

        async def script(answers: Answers) -> None:
            assert len(await answers.rows("runs")) == 2

        ask_http(server.port, "", script)


def test_without_the_extra_the_board_says_what_to_install(root: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from rlpanel.cli import main; main()"
    command = (sys.executable, "-P", "-c", code, "serve")
    with ServerProcess(root, command=command, env={"RLPANEL_CHECK": "0"}) as server:
        answer = post(server.port, {})
        assert (answer.status, 'pip install "mcp' in answer.text) == (501, True)
        assert not any("Model Context Protocol" in line for line in server.output)
