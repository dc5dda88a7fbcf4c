"""What happens to a run in `tests.bench.soak`, and the processes it happens to."""

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
#: Seconds, on average, from one fault to the next.
PAUSE = 0.25
#: Seconds that a reader and a server live at least, or they would never come to read.
READER_LIVES, SERVER_LIVES = 4.0, 12.0
#: A file that has grown beyond this is truncated or replaced, so that an hour fits on a disk.
LARGE = 8 << 20
RUBBISH = (b"\n", b"\xff\xfe\n", b"{\n", b'{"step": 1}\n', bytes(500), b"[]\n")
HERE = Path(__file__).parents[2]


class Process:
    """A process that is killed and started again.

    Attributes
    ----------
    ended : int
        How often it ended by itself, which none of them may.
    """

    def __init__(self, said: IO[bytes], lives: float = 0.0) -> None:
        self._said, self._lives = said, lives
        self._process: subprocess.Popen[bytes] | None = None
        self._born = 0.0
        self.ended = 0

    def start(self, *command: str) -> None:
        """Kill it if it runs, and start it."""
        self.kill()
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=HERE, stdout=subprocess.DEVNULL, stderr=self._said
        )
        self._born = time.monotonic()

    @property
    def old(self) -> bool:
        """Whether it has lived long enough to be killed."""
        return time.monotonic() > self._born + self._lives

    def kill(self) -> None:
        """Without a word."""
        self.end(signal.SIGKILL)

    def end(self, by: signal.Signals) -> float:
        """Send a signal and wait for the end; returns the seconds that took."""
        if self._process is None:
            return 0.0
        self.ended += self._process.poll() is not None
        began = time.monotonic()
        self._process.send_signal(by)
        self._process.wait(30)
        self._process = None
        return time.monotonic() - began


class Trouble:
    """One run and what happens to it.

    Parameters
    ----------
    folder : Path
        An empty folder.
    seed : int
        Chooses the faults; when they strike, the machine's load has a say too.

    Attributes
    ----------
    run : Path
    server : Process
        A board over the run's root, at `port`; it follows the run, as it is to alert.
    done : Counter
        What happened, and how often.
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
        """Let writers write and faults strike for so long; then all is quiet, and the server alone lives."""
        for rank in range(RANKS):
            self._write(rank)
        self._read()
        self._serve()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._pause.wait(self._chance.expovariate(1 / PAUSE))
            fault = self._chance.choice(self._faults)
            fault()
        for process in [*self._writers, self._reader]:
            process.kill()
        if sum(process.ended for process in [*self._writers, self._reader, self.server]):
            raise AssertionError(f"a process ended by itself: {self.said()[-2000:]}")

    def said(self) -> str:
        """What the processes said on their terminals."""
        return Path(self._said.name).read_text("utf-8", "replace")

    def close(self) -> None:
        """Leave nothing running."""
        for process in [*self._writers, self._reader, self.server]:
            process.kill()
        self._said.close()

    # -- what happens ----------------------------------------------------------------------------

    def kill_a_writer(self) -> None:
        """In the middle of a line, most likely; another goes on in its file."""
        self._write(self._chance.randrange(RANKS))
        self.done["writer killed"] += 1

    def kill_a_reader(self) -> None:
        """In the middle of a write to its index, now and then."""
        if self._reader.old:
            self._read()
            self.done["reader killed"] += 1

    def kill_the_server(self) -> None:
        """With all that it was doing."""
        if self.server.old:
            self._serve()
            self.done["server killed"] += 1

    def truncate(self) -> None:
        """To any length, in the middle of a line too."""
        path = self._any()
        if path.exists():
            os.truncate(path, self._chance.randrange(path.stat().st_size + 1))
            self.done["truncated"] += 1

    def replace(self) -> None:
        """By another file of the same name, as a copy that was put back."""
        path = self._any()
        new = path.with_name(".new")
        new.write_bytes(b"".join(line(step, index=step) for step in range(self._chance.randrange(1, 40))))
        new.replace(path)
        self.done["replaced"] += 1

    def remove(self) -> None:
        """The writer that has it open goes on writing where nobody looks."""
        self._any().unlink(missing_ok=True)
        self.done["removed"] += 1

    def exchange(self) -> None:
        """Two ranks' files change names."""
        one, other, between = self._any(), self._any(), self.run / ".between"
        if one != other and one.exists() and other.exists():
            one.rename(between)
            other.rename(one)
            between.rename(other)
            self.done["names exchanged"] += 1

    def date_back(self) -> None:
        """A clock that jumps: the file is of last year, or of next."""
        path = self._any()
        if path.exists():
            when = time.time() + self._chance.choice([-1, 1]) * 365 * 86400
            os.utime(path, (when, when))
            self.done["clock stepped"] += 1

    def take_the_root_away(self) -> None:
        """As an unmounted disk, for a moment; writers that have files open go on."""
        self.root.rename(self._away)
        self._pause.wait(self._chance.random())
        self._away.rename(self.root)
        self.done["root away and back"] += 1

    def write_rubbish(self) -> None:
        """Bytes that are no line, and blank ones."""
        with self._any().open("ab") as file:
            file.write(self._chance.choice(RUBBISH))
        self.done["rubbish written"] += 1

    # -- inside ----------------------------------------------------------------------------------

    def _any(self) -> Path:
        """A rank's file; a large one first."""
        paths = [log_of(self.run, rank) for rank in range(RANKS)]
        large = [path for path in paths if path.exists() and path.stat().st_size > LARGE]
        return self._chance.choice(large or paths)

    def _write(self, rank: int) -> None:
        seed = str(self._chance.randrange(2**31))
        self._writers[rank].start("tests.bench.soak_writer", str(self.run), str(rank), seed)

    def _read(self) -> None:
        """Every other one on a disk that is full after a few KB."""
        room = self._chance.choice([0, self._chance.randrange(1, 32 << 10)])
        self._reader.start("tests.bench.soak", "--read", str(self.root), "--room", str(room))
        self.done["reader on a full disk"] += bool(room)

    def _serve(self) -> None:
        self.port = free_port()
        where = ("--port", str(self.port), "--alert-command", "true")
        self.server.start("rlpanel", "serve", str(self.root), *where)
