"""Stops a training when a finding is confirmed: starts the process that checks, and asks it after each step.

The training's own process only looks whether a file exists. If the process that checks fails, the training
goes on, and its log says so once.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from rlpanel.halt_file import HALT, HaltOn, remove_halt, should_halt

log = logging.getLogger("rlpanel.recording")

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rlpanel.checks import halt_watch; halt_watch.serve()"
)
#: Most bytes of writable memory of the process that checks, and seconds between two of its looks.
MEMORY, INTERVAL = 4 << 30, 0.5
#: Most bytes of its error messages that are read.
_MESSAGES = 4096
#: File systems keep times in steps of up to two seconds.
_CLOCK = 2.0


class Halting(Protocol):
    """Interface of what is asked after each step."""

    def reason(self) -> str:
        """Return why the training should stop; empty if it should go on. It never raises and never waits."""

    def close(self) -> None:
        """End the checks."""


class HaltChecks:
    """The process that checks a run beside its training.

    Parameters
    ----------
    run : path
        The run's folder.
    asked : HaltOn
    warn : callable
        Called once with a sentence if the checks cannot go on.
    interval : float
        Seconds between two looks at the run.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        asked: HaltOn,
        warn: Callable[[str], None],
        interval: float = INTERVAL,
    ) -> None:
        self._run, self._warn = Path(run), warn
        self._since = time.time() - _CLOCK
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: Any = None
        if remove_halt(run):
            log.info("rlpanel: %s was of an earlier training and is deleted", self._run / HALT)
        try:
            self._start(asked, interval)
        except OSError as error:
            self._give_up(f"{type(error).__name__}: {error}")

    def _start(self, asked: HaltOn, interval: float) -> None:
        request = {
            "run": os.path.realpath(self._run),
            "severity": asked.severity,
            "rules": asked.rules,
            "interval": interval,
            "memory": MEMORY,
        }
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115  it is read when the process has ended
        # Libraries of linear algebra would start a thread per processor, beside those of the training.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            # -P: modules in the working directory must not shadow installed ones.
            [sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path), json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            env=os.environ | threads,
            start_new_session=True,  # Ctrl-C in the terminal must reach the training only
        )

    def reason(self) -> str:
        """Return why the training should stop; empty if it should go on. It never raises and never waits."""
        reason = should_halt(self._run, self._since)
        if not reason and self._process is not None and self._process.poll() is not None:
            reason = should_halt(self._run, self._since)  # it may have ended after writing the file
            if not reason:
                self._give_up(self._last_message())
        return reason

    def close(self) -> None:
        """End the process; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):  # closing flushes, which fails because the reader is dead
                process.stdin.close()
        self._messages.close()

    def _last_message(self) -> str:
        assert self._process is not None
        self._messages.seek(0, os.SEEK_END)
        self._messages.seek(max(0, self._messages.tell() - _MESSAGES))
        lines = self._messages.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:300] if said else f"exit code {self._process.returncode}"

    def _give_up(self, problem: str) -> None:
        self._warn(f"findings cannot stop this training any more, and it goes on: {problem}")
        self.close()


class SharedDecision:
    """Lets all processes of a training stop after the same step: one that goes on alone waits for ever.

    Parameters
    ----------
    accelerator : accelerate.Accelerator
        Its `set_trigger` and `check_trigger` exchange one number among the processes.
    checks : Halting or None
        Of the main process; None in the others.
    """

    def __init__(self, accelerator: Any, checks: Halting | None) -> None:
        self._accelerator, self._checks = accelerator, checks
        self._is_alone = getattr(accelerator, "num_processes", 1) == 1

    def reason(self) -> str:
        """Return why the training should stop; each process must ask after each step."""
        own = self._checks.reason() if self._checks is not None else ""
        if self._is_alone:
            return own
        if own:
            self._accelerator.set_trigger()
        return (own or "the main process has found a reason") if self._accelerator.check_trigger() else ""

    def close(self) -> None:
        """End the checks."""
        if self._checks is not None:
            self._checks.close()


def halting_of(
    run: str | os.PathLike[str],
    asked: HaltOn,
    accelerator: Any,
    *,
    is_main: bool,
    warn: Callable[[str], None],
) -> Halting | None:
    """Return what a trainer asks after each step; None if its processes cannot agree on a step.

    Parameters
    ----------
    run : path
    asked : HaltOn
    accelerator : accelerate.Accelerator
    is_main : bool
        Whether this is the main process, which checks.
    warn : callable
        Called with a sentence if the training cannot be stopped.
    """
    alone = getattr(accelerator, "num_processes", 1) == 1
    if not alone and not hasattr(accelerator, "check_trigger"):
        warn("halt_on is ignored: this version of accelerate lacks check_trigger, so processes cannot agree")
        return None
    return SharedDecision(accelerator, HaltChecks(run, asked, warn) if is_main else None)
