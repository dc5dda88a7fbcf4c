"""The server ends on SIGTERM even if its event loop is blocked, and reports its state to systemd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.app.server.background_service import GRACE
from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.server_process import ServerProcess
from tests.waiting import wait_until

#: Blocks a thread for ever, without letting Python handle signals: it locks a mutex of C twice.
_BLOCK = """
import ctypes
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
def block():
    print("blocked", flush=True)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
"""
_IN_A_BLOCK = f"""{_BLOCK}
import signal
from rlpanel.app.server.background_service import forced_end
signal.signal(signal.SIGTERM, lambda *_: None)
with forced_end(0.2):
    block()
"""
#: A server whose event loop calls a function that does not return.
_SERVER = f"""{_BLOCK}
import sys
from tornado.ioloop import IOLoop
from rlpanel.cli import main
IOLoop.current().call_later(0.5, block)
sys.argv[0] = "rlpanel"
main()
"""


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket at which systemd receives the states of a service."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def received(listening: socket.socket, until: str) -> list[str]:
    """Return the states that arrive up to one of them."""
    states = [listening.recv(100).decode()]
    while states[-1] != until:
        states.append(listening.recv(100).decode())
    return states


def variables(tmp_path: Path, microseconds: int) -> dict[str, str | None]:
    return {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": str(microseconds),
        "WATCHDOG_PID": None,
    }


def test_a_blocked_process_ends_on_sigterm() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _IN_A_BLOCK],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "blocked\n"
    child.send_signal(signal.SIGTERM)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert "the server did not end within 0.2 s after signal 15" in error


def test_a_process_that_ended_in_time_is_not_ended_again() -> None:
    code = (
        "import os, signal, time\n"
        "from rlpanel.app.server.background_service import forced_end\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "with forced_end(0.1, end=print): pass\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_learns_that_the_server_is_ready_lives_and_stops(
    tmp_path: Path, systemd: socket.socket
) -> None:
    write_run(tmp_path / "root" / "run", steps=1)
    with ServerProcess(tmp_path / "root", env=variables(tmp_path, 200_000)) as server:
        assert received(systemd, "READY=1")[-1] == "READY=1"
        assert received(systemd, "WATCHDOG=1")
        assert received(systemd, "WATCHDOG=1")
        assert server.stop() == 0
        assert received(systemd, "STOPPING=1")


@pytest.mark.slow
def test_a_server_with_a_blocked_event_loop_stops_reporting_and_ends_on_sigterm(
    tmp_path: Path, systemd: socket.socket
) -> None:
    write_run(tmp_path / "root" / "run", steps=1)
    command = (sys.executable, "-c", _SERVER, "serve")
    environment = variables(tmp_path, 200_000)
    with ServerProcess(tmp_path / "root", command=command, cwd=CHECKOUT, env=environment) as server:
        wait_until(lambda: "blocked" in server.output, message="the event loop is blocked")
        systemd.setblocking(False)
        with pytest.raises(BlockingIOError):  # everything that was sent before
            received(systemd, "never")
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: not server.alive, GRACE + 30, "the server ends")
        with pytest.raises(BlockingIOError):
            received(systemd, "never")
        assert server.stop() == 128 + signal.SIGTERM


#: A server that says at its end how many objects the interpreter's last collections leave out.
_ENDS = """
import atexit, gc, sys
from rlpanel.cli import main
atexit.register(lambda: print("left out", gc.get_freeze_count(), "of", len(gc.get_objects()), flush=True))
sys.argv[0] = "rlpanel"
main()
"""


def test_the_last_collections_of_a_server_that_ends_visit_few_objects(tmp_path: Path) -> None:
    """They would take over a second of CPU, and free nothing that the system does not free anyway."""
    command = (sys.executable, "-c", _ENDS, "serve")
    with ServerProcess(write_run(tmp_path / "run"), command=command) as server:
        wait_until(lambda: any("ready at" in line for line in server.output), 60, "the server is ready")
        assert server.stop() == 0
    [said] = [line.split() for line in server.output if line.startswith("left out")]
    assert int(said[2]) > 10 * int(said[4])
