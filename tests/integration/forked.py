"""Runs ``python -m MODULE`` in processes forked from one that has imported the package: imports cost most.

Such a process has its own arguments, variables, folder, output and exit code, and ends as Python ends.
Where the imports, the memory or the variables of Python are the subject of a test, the test starts Python.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

CHECKOUT = Path(__file__).parents[2]
#: What servers and commands import before they need it, and what they import for the first page or export.
PRELOADED = ("rlpanel.cli", "rlpanel.app.server.server", "rlpanel.app.run_export", "panel.command.serve")
#: Variables that Python reads at its start; of these, a forked process may have an own one.
AT_START, OWN = ("PYTHON", "LANG", "LC_"), "PYTHONUNBUFFERED"
_LARGEST = 1 << 20


class Forked:
    """A process that runs a module; a part of `subprocess.Popen`.

    Parameters
    ----------
    module : str
        Its output and its messages are UTF-8.
    *arguments : str or path
    cwd : path, optional
    env : mapping, optional
        Environment variables to add; None as a value removes one.
    stdout, stderr : optional
        As of `subprocess.Popen`; by default those of this process.
    user : int, optional
        User and group to become after the imports.
    descriptors : tuple of int, optional
        Soft and hard limit of open files.

    Attributes
    ----------
    pid : int
    returncode : int or None
    stdout, stderr : file or None
        Where the output can be read that was piped.
    """

    def __init__(
        self,
        module: str,
        *arguments: str | os.PathLike[str],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        user: int | None = None,
        descriptors: tuple[int, int] | None = None,
    ) -> None:
        self.args = [module, *map(os.fspath, arguments)]
        at = os.path.abspath(cwd or ".")
        limits = {"user": user, "descriptors": descriptors}
        request = {"args": self.args, "cwd": at, "env": environment(env or {}), **limits}
        self._status, theirs = _socket_pair()
        self.returncode: int | None = None
        self.stdout, out = _opened(stdout, sys.__stdout__)
        self.stderr, error = (None, out) if stderr == subprocess.STDOUT else _opened(stderr, sys.__stderr__)
        empty = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(start_parent(), [json.dumps(request).encode()], [empty, out, error, theirs.fileno()])
        theirs.close()
        for descriptor in {empty, out, error}:
            os.close(descriptor)
        self.pid = int(self._status.recv(20))

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            with self._status as status:
                self.returncode = int(status.recv(20) or -signal.SIGKILL)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; `subprocess.TimeoutExpired` after that many seconds."""
        if self.returncode is None and not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)


def start_module(
    module: str,
    *arguments: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    user: int | None = None,
    descriptors: tuple[int, int] | None = None,
    **streams: Any,
) -> Forked | subprocess.Popen[str]:
    """Start a module in a forked process, or where that cannot be in one that starts Python; see `Forked`."""
    if sys.platform == "linux" and not any(name.startswith(AT_START) for name in (env or {}).keys() - {OWN}):
        return Forked(module, *arguments, cwd=cwd, env=env, user=user, descriptors=descriptors, **streams)
    limit = None if descriptors is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, descriptors)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environment(env or {}),
        user=user if os.geteuid() == 0 else None,
        preexec_fn=limit,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        **streams,
    )


def run_module(
    module: str, *arguments: str | os.PathLike[str], timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a module in a process of its own until it ends, and return its exit code and output.

    Parameters
    ----------
    module : str
    *arguments : str or path
    timeout : float
        Seconds.
    **options
        Of `start_module`; the output is kept by default.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with start_module(module, *arguments, **options) as process:
        texts = {}
        streams = {"stdout": process.stdout, "stderr": process.stderr}

        def read(name: str, stream: IO[str]) -> None:
            texts[name] = stream.read()

        piped = [(name, stream) for name, stream in streams.items() if stream is not None]
        readers = [threading.Thread(target=read, args=each) for each in piped]
        for reader in readers:
            reader.start()
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
            for reader in readers:
                reader.join()
        return subprocess.CompletedProcess(process.args, code, texts.get("stdout"), texts.get("stderr"))


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables of a process that imports the code under test and not another installation."""
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": path, **changes}
    return {name: value for name, value in variables.items() if value is not None}


def _opened(given: int | IO[Any] | None, own: IO[Any] | None) -> tuple[IO[str] | None, int]:
    """Return the stream to read from, if there is one, and a descriptor for the process."""
    if given == subprocess.PIPE:
        reading, writing = os.pipe()
        return os.fdopen(reading, encoding="utf-8", errors="replace", newline=""), writing
    if given == subprocess.DEVNULL:
        return None, os.open(os.devnull, os.O_WRONLY)
    to = own if given is None else given
    assert to is not None
    return None, os.dup(to if isinstance(to, int) else to.fileno())


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that keep the messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@cache
def start_parent() -> socket.socket:
    """Start the process that the others are forked from; return the socket for requests after its imports."""
    ours, theirs = _socket_pair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    command = [sys.executable, "-m", "tests.integration.forked", str(theirs.fileno())]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=environment({OWN: None}),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # Python remembers whether its output can be sought in: not in a pipe
        stderr=subprocess.PIPE,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    if not ours.recv(20):
        raise RuntimeError(f"the process ended at its start: {process.communicate()[1]}")
    return ours


def _fork_when_asked(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request, and report the end of each process; return the request in the forked process."""
    reports: dict[int, socket.socket] = {}
    while True:
        for ready in select.select([requests, *reports], [], [])[0]:
            if ready in reports:
                ended = os.waitid(os.P_PIDFD, ready, os.WEXITED)
                assert ended is not None
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                with reports.pop(ready) as report:
                    report.send(str(code).encode())
                os.close(ready)
                continue
            message, descriptors, *_ = socket.recv_fds(requests, _LARGEST, 4)
            if not message:
                os._exit(0)
            *streams, status = descriptors
            report = socket.socket(fileno=status)
            if (pid := os.fork()) == 0:
                for number, descriptor in enumerate(streams):
                    os.dup2(descriptor, number)
                    os.close(descriptor)
                for opened in (requests, report, *reports.values()):
                    opened.close()
                for descriptor in reports:
                    os.close(descriptor)
                return json.loads(message)
            for descriptor in streams:
                os.close(descriptor)
            report.send(str(pid).encode())
            reports[os.pidfd_open(pid)] = report


def _begin(request: dict[str, Any]) -> None:
    """Make this process what ``python -m`` would be."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if (user := request["user"]) is not None and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if request["descriptors"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(request["descriptors"]))
    live = bool(os.environ.get(OWN))
    sys.stdout.reconfigure(line_buffering=live or sys.stdout.isatty(), write_through=live)  # type: ignore[union-attr]
    sys.argv = request["args"]
    sys.path[0] = request["cwd"]


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    # numpy and pyarrow have started threads of their own by now, and handle a fork.
    assert threading.active_count() == 1, "a thread would be lost in the forked processes"
    gc.freeze()  # no forked process looks through these objects, which would copy their pages
    requested = socket.socket(fileno=int(sys.argv[1]))
    requested.send(b"ready")
    _begin(asked := _fork_when_asked(requested))
    runpy.run_module(asked["args"][0], run_name="__main__", alter_sys=True)
