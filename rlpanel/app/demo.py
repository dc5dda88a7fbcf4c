"""Replays a recorded training run, so that the board can be tried without a run of one's own.

Used by ``rlpanel demo`` and by the button on the board's empty page; the tests unpack the same recordings.
``rlpanel/data/README.md`` describes the recordings. This module does not import panel.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
import weakref
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Literal

from rlpanel.errors import UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.zstd import zstd

Recording = Literal["grpo_couplets", "ppo_couplets", "grpo_calculator"]

#: Steps that are written before the page opens, so that the first plot shows a curve and not a point.
FIRST_STEPS = 8
ROLLOUTS = "rollout_data_rank_0.jsonl"
SCALARS = "scalars.jsonl"


def read_recording(name: Recording) -> dict[str, bytes]:
    """Return the files of a recorded run as a dict from file name to content."""
    data = files("rlpanel") / "data"
    parts = {ROLLOUTS: f"{name}.jsonl.zst", SCALARS: f"{name}.scalars.jsonl.zst"}
    return {file: zstd.decompress((data / part).read_bytes()) for file, part in parts.items()}


def write_recording(name: Recording, folder: Path) -> Path:
    """Write all files of a recorded run into a folder and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with SafeFolder.named(folder) as opened:
        for file, content in read_recording(name).items():
            opened.replace(file, content)
    return folder


class Demo:
    """A temporary root with a finished PPO run, a finished run of an agent and a growing GRPO run.

    The growing run starts with `FIRST_STEPS` steps; a thread then appends the others line by line. The lines
    are the recorded bytes, so their timestamps are those of the recording. The root is removed when the demo
    is closed or garbage-collected, or when the process exits.

    Parameters
    ----------
    seconds_per_step : float
        Time in which a step's 64 sample lines and its line of scalars are written; 0 means without pauses.

    Attributes
    ----------
    root : Path
        The folder that holds the runs ``couplets-ppo``, ``calculator-grpo`` and ``couplets-grpo``.
    """

    def __init__(self, seconds_per_step: float = 1.0) -> None:
        steps = _by_step(read_recording("grpo_couplets"))
        self.root = Path(tempfile.mkdtemp(prefix="rlpanel-demo-")).resolve()
        self._stop = threading.Event()
        growing = self.root / "couplets-grpo"
        # The thread holds no reference to the demo, so that an unused demo is garbage-collected and stops.
        self._thread = threading.Thread(
            target=_replay,
            args=(growing, steps[FIRST_STEPS:], seconds_per_step, self._stop),
            name="rlpanel-demo",
            daemon=True,
        )
        self._finalizer = weakref.finalize(self, _stop_and_remove, self._stop, self._thread, self.root)
        finished: list[tuple[Recording, str]] = [
            ("ppo_couplets", "couplets-ppo"),
            ("grpo_calculator", "calculator-grpo"),
        ]
        for hours, (name, run) in zip((3, 2), finished, strict=True):
            _age(write_recording(name, self.root / run), hours * 3600)
        growing.mkdir()
        with SafeFolder.open(growing) as folder:
            for step in steps[:FIRST_STEPS]:
                for file, lines in step.items():
                    folder.append(file, b"".join(lines))
        self._thread.start()

    @property
    def growing(self) -> bool:
        """True while lines are being written."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop writing and remove the root; a second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _age(folder: Path, seconds: float) -> None:
    """Date the files of a folder back, so that a run that grows no more is not called live."""
    then = time.time() - seconds
    for file in folder.iterdir():
        os.utime(file, (then, then))


def _by_step(content: dict[str, bytes]) -> list[dict[str, list[bytes]]]:
    """Return one dict per step from file name to lines; steps ascend, lines keep their order."""
    steps: dict[int, dict[str, list[bytes]]] = {}
    for file, data in content.items():
        # Split at b"\n" only: splitlines() would also split at other line breaks inside responses.
        lines = (line + b"\n" for line in data.split(b"\n") if line)
        for step, group in groupby(lines, key=_step):
            steps.setdefault(step, {}).setdefault(file, []).extend(group)
    return [steps[step] for step in sorted(steps)]


def _step(line: bytes) -> int:
    return int(json.loads(line)["step"])


def _replay(
    folder: Path, steps: list[dict[str, list[bytes]]], seconds_per_step: float, stop: threading.Event
) -> None:
    """Append the lines on schedule until all are written or ``stop`` is set."""
    begin = time.monotonic()
    for done, step in enumerate(steps):
        lines = [(file, line) for file, lines in step.items() for line in lines]
        for index, (file, line) in enumerate(lines, start=1):
            due = begin + (done + index / len(lines)) * seconds_per_step
            if stop.wait(max(0.0, due - time.monotonic())):
                return
            try:
                with SafeFolder.open(folder) as opened:
                    opened.append(file, line, create=False)  # a removed file is not created again
            except (FileNotFoundError, UnsafePath):  # the file was removed or replaced: stop writing
                return


def _stop_and_remove(stop: threading.Event, thread: threading.Thread, root: Path) -> None:
    stop.set()
    # An unused demo may be garbage-collected on any thread, also on its own, which cannot join itself.
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join()
    shutil.rmtree(root, ignore_errors=True)
