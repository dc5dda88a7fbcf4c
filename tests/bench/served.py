"""A served board for benchmarks, in a process of its own, and what that process uses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.conftest import BROWSERS
from tests.ui.board import free_port


class Served:
    """A server process.

    Attributes
    ----------
    url : str
    pid : int
    """

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    @property
    def seconds(self) -> float:
        """Processor seconds of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def private_memory(self) -> float:
        """Memory in MB that the system cannot drop: rlpanel's arrays count as shared memory."""
        lines = (line.split() for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return sum(int(line[1]) / 1e3 for line in lines if line[0] in {"RssAnon:", "RssShmem:"})

    def health(self) -> dict[str, Any]:
        """Return the state of the server."""
        with urlopen(f"{self.url}/health", timeout=120) as answer:
            return json.load(answer)


@contextmanager
def served(root: Path, *options: str, **environment: str) -> Iterator[Served]:
    """Run ``rlpanel serve`` until the block ends."""
    port = free_port()
    command = [sys.executable, "-P", "-m", "rlpanel", "serve", str(root), "--port", str(port), *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=os.environ | environment, **quiet)
    try:
        server = Served(f"http://127.0.0.1:{port}", process.pid)
        deadline = time.monotonic() + 120
        while True:
            try:
                server.health()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=120)  # it saves the index of a large run


@contextmanager
def bare_page() -> Iterator[Served]:
    """Serve the page of `tests.bench.bare_page` until the block ends."""
    port = free_port()
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("bare_page.py"), str(port)])
    try:
        server = Served(f"http://127.0.0.1:{port}", process.pid)
        deadline = time.monotonic() + 120
        while not _answers(server.url):
            if process.poll() is not None:
                raise RuntimeError(f"the bare page ended with exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise TimeoutError(server.url)
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=120)


def _answers(url: str) -> bool:
    try:
        urlopen(url, timeout=120).close()
    except OSError:
        return False
    return True


def chromium() -> str:
    """Return the path of a browser."""
    names = (os.environ.get("CHROMIUM"), *BROWSERS)
    return next(found for name in names if name and (found := shutil.which(name)))
