"""Clients that connect and send little use up neither descriptors nor the log, and forge no address."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from rlpanel.app.security.bounded_server import most_connections
from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.http_client import ask
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE
from tests.waiting import wait_until

TOKEN = "a-token-of-thirty-two-characters"
DESCRIPTORS = 220
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_BODY = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\ntoken="


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A board with a token and few descriptors."""
    folder = tmp_path_factory.mktemp("root")
    write_run(folder / "run", steps=2, ranks=1, samples=3)
    few = (DESCRIPTORS, DESCRIPTORS)
    with ServerProcess(folder, env={"RLPANEL_TOKEN": TOKEN}, descriptors=few) as server:
        yield server


@contextmanager
def connections(server: ServerProcess, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Open connections that begin a request and do not end it."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
            each.sendall(sent)
            opened.append(each)
        yield opened


@pytest.mark.parametrize(
    "sent", [b"", HALF, HALF_BODY], ids=["nothing", "half of the headers", "half a body"]
)
def test_idle_connections_leave_the_board_reachable_and_the_log_short(
    small: ServerProcess, sent: bytes
) -> None:
    with connections(small, 300, sent):
        assert [ask(small.url, "/health").status for _ in range(20)] == [200] * 20
        assert len(list(Path(f"/proc/{small.pid}/fd").iterdir())) < DESCRIPTORS - 50
    assert ask(small.url, "/login").status == 200
    assert len(small.output) < 100


@pytest.mark.slow
def test_half_a_request_is_given_up(small: ServerProcess) -> None:
    with connections(small, 1, HALF) as (one,):
        one.settimeout(60)
        assert one.recv(100) == b""


def test_the_server_raises_its_limit_of_descriptors(root: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with ServerProcess(root, descriptors=(200, most)) as server:
        limits = Path(f"/proc/{server.pid}/limits").read_text()
    soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert int(soft) == min(int(hard), 65_536)


@pytest.mark.parametrize(("descriptors", "most"), [(220, 156), (1024, 768), (65_536, 4096), (10, 1)])
def test_descriptors_are_left_for_files(monkeypatch: pytest.MonkeyPatch, descriptors: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert most_connections() == most


#: Serves with a `BoundedServer`, and then uses up all descriptors but those that it is told to leave.
EXHAUSTED = """
import asyncio, os, resource, sys
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from rlpanel.app.security.bounded_server import bounded_servers

async def serve():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with bounded_servers():
        server = HTTPServer(lambda request: request.connection.finish())
    sockets = bind_sockets(0, "127.0.0.1")
    port = sockets[0].getsockname()[1]
    server.add_sockets(sockets)
    files = []
    try:
        while True:
            files.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for _ in range(int(sys.argv[1])):
        os.close(files.pop())
    print(port, flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


@pytest.mark.parametrize("left", [0, 2])
def test_without_a_descriptor_connections_are_closed_at_once_and_logged_once(left: int) -> None:
    """Tornado would log a traceback for each of thousands of attempts."""
    with subprocess.Popen(
        [sys.executable, "-c", EXHAUSTED, str(left)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout
        port = int(child.stdout.readline())
        ended = 0
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as one:
                one.settimeout(1 if left else PATIENCE)
                try:
                    ended += one.recv(10) == b""
                except TimeoutError:
                    break  # it was accepted, in the place of the one before
                except ConnectionResetError:
                    ended += 1
        child.terminate()
        said = child.communicate(timeout=PATIENCE)[1]
    assert ended == (0 if left else 20)
    assert said.count("\n") <= 1, said
    assert ("no file descriptor was left" in said) is (not left)


@pytest.mark.parametrize("header", ["X-Real-Ip", "X-Scheme"])
def test_a_client_behind_a_proxy_cannot_choose_its_address(root: Path, header: str) -> None:
    """The documented proxies pass these headers on from the client."""
    with ServerProcess(root, "--origin", "board.lab", env={"RLPANEL_TOKEN": TOKEN}) as server:

        def wrong(number: int) -> int:
            value = "https" if header == "X-Scheme" else f"9.9.9.{number}"
            forged = {"X-Forwarded-For": "10.0.0.1", header: value}
            return ask(server.url, "/login", "POST", urlencode({"token": "wrong"}), forged).status

        assert [wrong(number) for number in range(8)] == [401] * 5 + [429] * 3
        form = urlencode({"token": TOKEN})
        answer = ask(server.url, "/login", "POST", form, {"X-Forwarded-For": "10.0.0.2", header: "https"})
        assert "Secure" not in (answer.headers["Set-Cookie"] or "")
        wait_until(lambda: any("wrong token" in line for line in server.output))
        assert not any("9.9.9" in line for line in server.output)
