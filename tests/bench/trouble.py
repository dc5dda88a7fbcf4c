"""Faults for `tests.bench.soak`, and the processes that they hit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tests.bench.soak_writer import log_of
from tests.factories import line
from tests.ui.board import free_port

RANKS = 4
#: Mean seconds between two faults.
PAUSE = 0.25
#: Minimum lifetimes of a reader and a server in seconds; with less they would never read anything.
READER_LIVES, SERVER_LIVES = 4.0, 12.0
#: A larger file is truncated or replaced, so that an hour fits on a disk.
LARGE = 8 << 20
RUBBISH = (b"\n", b"\xff\xfe\n", b"{\n", b'{"step": 1}\n', bytes(500), b"[]\n")
HERE = Path(__file__).parents[2]


class Process:
    """A process that is killed and started again.

    Attributes
    ----------
    ended : int
        Number of unexpected ends, which must stay 0.
    """

    def __init__(self, said: IO[bytes], lives: float = 0.0) -> None:
        self._said, self._lives = said, lives
        self._process: subprocess.Popen[bytes] | None = None
        self._born = 0.0
        self.ended = 0

    def start(self, *command: str) -> None:
        """Start the process; kill it first if it is running."""
        self.kill()
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=HERE, stdout=subprocess.DEVNULL, stderr=self._said
        )
        self._born = time.monotonic()

    @property
    def old(self) -> bool:
        """True if the process has run long enough to be killed."""
        return time.monotonic() > self._born + self._lives

    def kill(self) -> None:
        """Kill the process without notice."""
        self.end(signal.SIGKILL)

    def end(self, by: signal.Signals) -> float:
        """Send a signal and wait for the end; return the seconds that took."""
        if self._process is None:
            return 0.0
        self.ended += self._process.poll() is not None
        began = time.monotonic()
        self._process.send_signal(by)
        self._process.wait(30)
        self._process = None
        return time.monotonic() - began


class Trouble:
    """A run and the faults that hit it.

    Parameters
    ----------
    folder : Path
        An empty folder.
    seed : int
        Seed of the faults. Their timing also depends on the machine's load.

    Attributes
    ----------
    run : Path
    server : Process
        A board for the run's root, at `port`; it follows the run to send alerts.
    done : Counter
        The number of faults by type.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.root = folder / "root"
        self.run = self.root / "run"
        self.run.mkdir(parents=True)
        self.done: Counter[str] = Counter()
        self._said = (folder / "said").open("wb")
        self._away = folder / "away"
        self._chance = random.Random(seed)
        self._pause = threading.Event()
        self._writers = [Process(self._said) for _ in range(RANKS)]
        self._reader = Process(self._said, READER_LIVES)
        self.server, self.port = Process(self._said, SERVER_LIVES), 0
        self._faults: tuple[Callable[[], None], ...] = (
            self.kill_a_writer, self.kill_a_writer, self.kill_a_reader, self.kill_a_reader,
            self.kill_the_server, self.truncate, self.replace, self.remove, self.exchange, self.date_back,
            self.write_rubbish, self.take_the_root_away,
        )  # fmt: skip

    def go_on(self, seconds: float) -> None:
        """Let writers write and faults strike; then stop everything except the server.

        Parameters
        ----------
        seconds : float
            The minimum; on a slow machine it lasts until each fault has struck.
        """
        for rank in range(RANKS):
            self._write(rank)
        self._read()
        self._serve()
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(self.done) < len(set(self._faults)):
            self._pause.wait(self._chance.expovariate(1 / PAUSE))
            fault = self._chance.choice(self._faults)
            fault()
        for process in [*self._writers, self._reader]:
            process.kill()
        if sum(process.ended for process in [*self._writers, self._reader, self.server]):
            raise AssertionError(f"a process ended by itself: {self.said()[-2000:]}")

    def said(self) -> str:
        """Return the output of the processes."""
        return Path(self._said.name).read_text("utf-8", "replace")

    def close(self) -> None:
        """End all processes."""
        for process in [*self._writers, self._reader, self.server]:
            process.kill()
        self._said.close()

    # -- faults ----------------------------------------------------------------------------------

    def kill_a_writer(self) -> None:
        """Probably in the middle of a line; another writer continues its file."""
        self._write(self._chance.randrange(RANKS))
        self.done["writer killed"] += 1

    def kill_a_reader(self) -> None:
        """Sometimes in the middle of a write to its index."""
        if self._reader.old:
            self._read()
            self.done["reader killed"] += 1

    def kill_the_server(self) -> None:
        """Kill the server at any point of its work."""
        if self.server.old:
            self._serve()
            self.done["server killed"] += 1

    def truncate(self) -> None:
        """Truncate a log to a random length, possibly in the middle of a line."""
        path = self._any()
        if path.exists():
            os.truncate(path, self._chance.randrange(path.stat().st_size + 1))
            self.done["truncated"] += 1

    def replace(self) -> None:
        """By another file of the same name, such as a restored copy."""
        path = self._any()
        new = path.with_name(".new")
        new.write_bytes(b"".join(line(step, index=step) for step in range(self._chance.randrange(1, 40))))
        new.replace(path)
        self.done["replaced"] += 1

    def remove(self) -> None:
        """The writer that has it open keeps writing to the deleted file."""
        self._any().unlink(missing_ok=True)
        self.done["removed"] += 1

    def exchange(self) -> None:
        """Swap the names of two ranks' files."""
        one, other, between = self._any(), self._any(), self.run / ".between"
        if one != other and one.exists() and other.exists():
            one.rename(between)
            other.rename(one)
            between.rename(other)
            self.done["names exchanged"] += 1

    def date_back(self) -> None:
        """Simulate a clock that jumps: the file is from last year, or from next year."""
        path = self._any()
        if path.exists():
            when = time.time() + self._chance.choice([-1, 1]) * 365 * 86400
            os.utime(path, (when, when))
            self.done["clock stepped"] += 1

    def take_the_root_away(self) -> None:
        """Like an unmounted disk, briefly; writers with open files continue."""
        self.root.rename(self._away)
        self._pause.wait(self._chance.random())
        self._away.rename(self.root)
        self.done["root away and back"] += 1

    def write_rubbish(self) -> None:
        """Bytes that are not a line, and blank lines."""
        with self._any().open("ab") as file:
            file.write(self._chance.choice(RUBBISH))
        self.done["rubbish written"] += 1

    # -- helpers ---------------------------------------------------------------------------------

    def _any(self) -> Path:
        """Return a rank's file, preferably a large one."""
        paths = [log_of(self.run, rank) for rank in range(RANKS)]
        large = [path for path in paths if path.exists() and path.stat().st_size > LARGE]
        return self._chance.choice(large or paths)

    def _write(self, rank: int) -> None:
        seed = str(self._chance.randrange(2**31))
        self._writers[rank].start("tests.bench.soak_writer", str(self.run), str(rank), seed)

    def _read(self) -> None:
        """Start a reader; every second one has a disk that is full after a few KB."""
        room = self._chance.choice([0, self._chance.randrange(1, 32 << 10)])
        self._reader.start("tests.bench.soak", "--read", str(self.root), "--room", str(room))
        self.done["reader on a full disk"] += bool(room)

    def _serve(self) -> None:
        self.port = free_port()
        where = ("--port", str(self.port), "--alert-command", "true")
        self.server.start("rlpanel", "serve", str(self.root), *where)
