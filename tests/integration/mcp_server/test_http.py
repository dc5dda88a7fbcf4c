"""The server over HTTP: on this machine only, with a token, and with the checked headers Host and Origin."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.factories import write_run
from tests.integration.forked import run_module
from tests.integration.mcp_server.asking import Answers, ask_http, http_server
from tests.integration.mcp_server.hostile_names import CALLS, ORDER, check_refusal, write_hostile

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("mcp") is None, reason="needs mcp")]

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    folder = tmp_path_factory.mktemp("mcp")
    write_run(folder / "runs" / "exp")
    with http_server(folder / "runs") as found:
        yield found


def status(port: int, headers: dict[str, str], method: str = "POST", path: str = "/mcp") -> int:
    """Return the status of the answer to a first request with these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request(method, path, json.dumps(HELLO), usual | headers)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_client_with_the_token_is_answered(server: tuple[int, str]) -> None:
    async def script(answers: Answers) -> None:
        assert [row["run"] for row in await answers.rows("runs")] == ["exp"]
        assert "no run" in await answers.error("findings", run="../x")

    ask_http(*server, script)


def test_errors_quote_hostile_names_as_untrusted(tmp_path: Path) -> None:
    write_hostile(tmp_path / "runs")

    async def script(answers: Answers) -> None:
        quoted = [check_refusal(await answers.error(tool, **arguments)) for tool, arguments in CALLS]
        assert any(ORDER in message for message in quoted)

    with http_server(tmp_path / "runs", "--notes") as server:
        ask_http(*server, script)


def test_the_token_is_random_and_long(server: tuple[int, str]) -> None:
    assert len(server[1]) >= 32


@pytest.mark.parametrize(
    "guess", ["", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x"]
)
def test_others_are_refused(server: tuple[int, str], guess: str) -> None:
    port, token = server
    for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/")):
        assert status(port, {"Authorization": guess.format(token=token)}, method, path) == 401


def test_two_authorizations_are_refused(server: tuple[int, str]) -> None:
    port, token = server
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("POST", "/mcp")
    for value in (f"Bearer {token}", "Bearer wrong"):
        connection.putheader("Authorization", value)
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_the_right_request_is_accepted(server: tuple[int, str]) -> None:
    port, token = server
    for scheme in ("Bearer", "bearer", "BEARER"):  # RFC 9110: a scheme in any case
        assert status(port, {"Authorization": f"{scheme} {token}"}) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil:{port}"]
)
def test_another_host_is_refused_even_with_the_token(server: tuple[int, str], host: str) -> None:
    port, token = server
    assert status(port, {"Authorization": f"Bearer {token}", "Host": host.format(port=port)}) == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}"])
def test_another_origin_is_refused_even_with_the_token(server: tuple[int, str], origin: str) -> None:
    port, token = server
    assert status(port, {"Authorization": f"Bearer {token}", "Origin": origin.format(port=port)}) == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_it_listens_on_this_machine_only(tmp_path: Path, host: str) -> None:
    write_run(tmp_path / "exp")
    done = run_module("rlpanel", "mcp", tmp_path, "--http", "5999", "--host", host)
    assert done.returncode == 2
    assert "this machine only" in done.stderr


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "exp")
    done = run_module("rlpanel", "mcp", tmp_path, "--http", "5999", "--token", "short")
    assert done.returncode == 2
    assert "could be guessed" in done.stderr
