"""Checks all runs below the roots of a server by the rules while it is idle, the newest first.

One thread asks one process (`rlpanel.checks.check_process`) to read one run at a time. It is paused while the
reader has unread lines of a run that somebody looks at. What it finds is noted in the summaries of the runs,
and saved beside their columns if these are saved, so that the next start knows it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlpanel.checks.check_process import reading_values
from rlpanel.settings import CheckLimits
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.store.index.folder_watches import WatchedRoot
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_summary import RunSummary, parse_summary
from rlpanel.store.index.summary_store import SummaryStore

log = logging.getLogger(__name__)

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rlpanel.checks import check_process; check_process.serve()"
)
#: Seconds between two looks whether the reader is busy.
_LOOK = 0.1
#: Seconds without a byte read after which a run with unread lines no longer holds up the checks.
_STUCK = 5.0


@dataclass
class Try:
    """The last try to check a run: the size of its files, when it ended, and its duration in seconds."""

    bytes: int
    ended: float
    seconds: float


class RunChecks:
    """Background thread that checks runs; it starts with the first root. `stop` ends it.

    Parameters
    ----------
    reader : Reader
        The checks wait while it reads.
    summaries : SummaryStore
        Where the results are noted.
    limits : CheckLimits, optional
    """

    def __init__(self, reader: Reader, summaries: SummaryStore, limits: CheckLimits | None = None) -> None:
        self._reader, self._summaries = reader, summaries
        self._limits = limits or CheckLimits()
        self._roots: list[WatchedRoot] = []
        self._tried: dict[str, Try] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self._bytes, self._moved = -1, 0.0  # of the reader, and when that last changed

    def watch(self, root: WatchedRoot) -> None:
        """Check the runs below a root, too."""
        with self._lock:
            if root not in self._roots:
                self._roots.append(root)
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._loop, name="rlpanel-checks", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End the thread and its process; the check in progress is given up."""
        self._stopping.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    @property
    def process(self) -> int | None:
        """Process id of the process that checks; None while there is none."""
        return self._process.pid if self._process is not None else None

    # -- the thread ------------------------------------------------------------------------------

    def _loop(self) -> None:
        idle_since = time.monotonic()
        self._stopping.wait(self._limits.interval)  # a page that was just opened comes first
        with ThreadPoolExecutor(1, "rlpanel-checks-answer") as answers:
            while not self._stopping.is_set():
                run = None if self.is_held_up() else self._next_due()
                if run is not None:
                    self._check(run, answers)
                    idle_since = time.monotonic()
                    continue
                if time.monotonic() - idle_since > self._limits.keep:
                    self._end_process()  # its memory is of use to others
                self._stopping.wait(self._limits.interval)
            self._end_process()

    def is_held_up(self) -> bool:
        """Return whether the reader reads a run, so that checks have to wait."""
        now = time.monotonic()
        if self._reader.bytes != self._bytes:
            self._bytes, self._moved = self._reader.bytes, now
        waiting = (index.snapshot.progress for index in self._reader.runs)
        reads = any(not (progress.caught_up or progress.halted) for progress in waiting)
        return reads and now - self._moved < _STUCK

    def _next_due(self) -> RunInfo | None:
        """Return the newest run that was not checked, else the newest that has grown since."""
        with self._lock:
            roots = list(self._roots)
        now, opened = time.monotonic(), {index.path for index in self._reader.runs}
        found = sorted((run for root in roots for run in root.runs or ()), key=lambda run: -run.modified)
        grown = None
        for run in found:
            if not isinstance(run.path, Path):
                self._skip(run, "it is not on this machine: it is checked when it is opened")
                continue
            summary = self._summaries.of(run.path)
            if not summary.samples and summary.severity is None:
                for _ in self._summaries.read_saved([run.path]):
                    summary = self._summaries.of(run.path)
            if is_due(run, summary, self._tried.get(str(run.path)), now, self._limits, run.path in opened):
                if summary.checked_bytes < 0:
                    return run
                grown = grown or run
        return grown

    def _skip(self, run: RunInfo, reason: str) -> None:
        if self._summaries.of(run.path).checked_bytes < 0:
            self._summaries.note_unchecked(run.path, reason, run.bytes)

    def _check(self, run: RunInfo, answers: ThreadPoolExecutor) -> None:
        began = time.monotonic()
        try:
            answer = self._ask(run, answers)
        except OSError as error:
            answer = {"problem": f"no process could be started: {error.strerror}"}
        if self._stopping.is_set():
            return
        if "summary" in answer:
            opened = any(index.path == run.path for index in self._reader.runs)
            self._summaries.note_check(run.path, parse_summary(answer["summary"]), is_open=opened)
        else:
            log.info("run %s was not checked: %s", run.name, answer["problem"])
            unreadable = bool(answer.get("unreadable"))
            self._summaries.note_unchecked(run.path, answer["problem"], run.bytes, unreadable=unreadable)
        now = time.monotonic()
        self._tried[str(run.path)] = Try(run.bytes, now, now - began)

    def _ask(self, run: RunInfo, answers: ThreadPoolExecutor) -> dict[str, str]:
        """Return the answer of the process, which is killed if it takes too long."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"path": str(run.path), "root": str(run.root or run.path), "memory": self._limits.memory}
        self._say(request | reading_values(self._reader.reading))
        answer: Future[str] = answers.submit(process.stdout.readline)
        left, paused = self._limits.seconds, False
        while left > 0 and not self._stopping.is_set():
            with suppress(NotYet):
                line = answer.result(timeout=_LOOK)
                if line:
                    return dict(json.loads(line))
                self._end_process()
                return {"problem": "the process that read it ended: it may need too much memory"}
            left -= 0 if paused else _LOOK
            if paused != self.is_held_up():
                paused = not paused
                self._say({"pause": paused})
        self._end_process()
        seconds = f"{self._limits.seconds:g} s"
        return {"problem": f"reading took longer than {seconds}: it is checked when it is opened"}

    def _say(self, message: dict[str, object]) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError):  # it has ended, which the answer shows
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                # -P: modules in the working directory must not shadow installed ones.
                [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the terminal must reach the parent only
                text=True,
            )
        return self._process

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # closing flushes, which fails because the reader is dead
                if pipe is not None:
                    pipe.close()


def is_due(
    run: RunInfo, summary: RunSummary, last: Try | None, now: float, limits: CheckLimits, is_open: bool
) -> bool:
    """Return whether a run has to be checked: it never was, or it has grown and rested since.

    Parameters
    ----------
    run : RunInfo
    summary : RunSummary
        What is known of it.
    last : Try or None
        The last try of this process.
    now : float
        Monotonic time in seconds.
    limits : CheckLimits
    is_open : bool
        Whether somebody looks at it: its page checks it then.
    """
    if is_open and summary.severity is not None:
        return False
    if run.bytes in (summary.checked_bytes, last.bytes if last is not None else -1):
        return False
    if last is None:
        return True
    return now - last.ended >= max(limits.again, limits.patience * last.seconds)
