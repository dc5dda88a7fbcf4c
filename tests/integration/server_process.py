"""Runs a real ``rlpanel serve`` process for tests; captures its output and ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from tests.integration.forked import OWN, Forked, environment, start_module
from tests.ui.board import PATIENCE, free_port
from tests.waiting import wait_until


class ServerProcess:
    """Runs a server command in a child process until the ``with`` block ends.

    Parameters
    ----------
    *arguments : str
        Arguments of the command, for example the root folder.
    command : sequence of str
        The command; ``--port N`` is added. A module of Python is run in a forked process.
    port : int, optional
        Port to listen on; a free one by default.
    cwd : Path, optional
        Working folder of the child.
    env : dict, optional
        Environment variables to add; None as a value removes one.
    fresh : bool
        Whether Python is started anew also where it can be forked.
    descriptors : tuple of int, optional
        Soft and hard limit of open files, of a module of Python.

    Attributes
    ----------
    port : int
    url : str
    output : list of str
        Lines that the child has printed, stdout and stderr together.
    """

    def __init__(
        self,
        *arguments: str | os.PathLike[str],
        command: tuple[str, ...] = (sys.executable, "-m", "rlpanel", "serve"),
        port: int | None = None,
        cwd: Path | None = None,
        env: dict[str, str | None] | None = None,
        fresh: bool = False,
        descriptors: tuple[int, int] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.output: list[str] = []
        self._command = [*command, "--port", str(self.port), *map(os.fspath, arguments)]
        self._cwd, self._env = cwd, {OWN: "1", **(env or {})}
        self._descriptors = descriptors
        self._fresh = fresh or self._command[:2] != [sys.executable, "-m"]
        self._process: subprocess.Popen[str] | Forked | None = None

    def __enter__(self) -> ServerProcess:
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        if self._fresh:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=environment(self._env),
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                **output,
            )
        else:
            self._process = start_module(
                *self._command[2:], cwd=self._cwd, env=self._env, descriptors=self._descriptors, **output
            )
        self._reader = threading.Thread(target=self._read, name="server-output", daemon=True)
        self._reader.start()
        wait_until(lambda: self._started() or not self.alive, 2 * PATIENCE, "the server did not start")
        code = self._process.poll()
        assert code is None, f"the server ended at its start with code {code}:\n" + "\n".join(self.output)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the child is running."""
        return self._process is not None and self._process.poll() is None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the child with a signal, wait for it, and return its exit code."""
        assert self._process is not None
        if self.alive:
            self._process.send_signal(number)
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._reader.join(PATIENCE)

    def _started(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output.append(line.rstrip("\n"))
        self._process.stdout.close()
