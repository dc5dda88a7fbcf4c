"""A run to look at before there is one: recorded training, replayed as it would have been written.

Called by ``rlpanel demo`` and by the board's empty page; the tests unpack the same recordings. What the
recordings are stands in ``rlpanel/data/README.md``. Nothing here loads panel.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import weakref
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Literal

import zstandard

from rlpanel.errors import UnsafePath
from rlpanel.safe_files import SafeFolder

Recording = Literal["grpo_couplets", "ppo_couplets"]

#: Steps that stand before the page opens, so that the first curve is a curve.
FIRST_STEPS = 8
ROLLOUTS = "rollout_data_rank_0.jsonl"
SCALARS = "scalars.jsonl"


def recorded(name: Recording) -> dict[str, bytes]:
    """A recorded run: the bytes of each of its files, by file name."""
    data = files("rlpanel") / "data"
    parts = {ROLLOUTS: f"{name}.jsonl.zst", SCALARS: f"{name}.scalars.jsonl.zst"}
    return {file: zstandard.decompress((data / part).read_bytes()) for file, part in parts.items()}


def write_recording(name: Recording, folder: Path) -> Path:
    """Write a recorded run whole, as it stands after training; gives the folder back."""
    folder.mkdir(parents=True, exist_ok=True)
    with SafeFolder.named(folder) as opened:
        for file, content in recorded(name).items():
            opened.replace(file, content)
    return folder


class Demo:
    """A temporary root with a finished PPO run and a GRPO run that grows.

    The growing run begins with its first steps and is then written line by line; after its last step it
    stays as it is. Lines are the recorded bytes, so times in them are those of the recording. The root
    goes when the demo is closed, collected or the process ends.

    Parameters
    ----------
    seconds_per_step : float
        How long the lines of a step (64) and its line of scalars take together; 0 is as fast as it goes.

    Attributes
    ----------
    root : Path
        The folder that holds both runs, ``couplets-ppo`` and ``couplets-grpo``.
    """

    def __init__(self, seconds_per_step: float = 1.0) -> None:
        steps = _by_step(recorded("grpo_couplets"))
        self.root = Path(tempfile.mkdtemp(prefix="rlpanel-demo-")).resolve()
        self._stop = threading.Event()
        growing = self.root / "couplets-grpo"
        # The thread holds no reference to the demo, so that a forgotten demo is collected and ends.
        self._thread = threading.Thread(
            target=_replay,
            args=(growing, steps[FIRST_STEPS:], seconds_per_step, self._stop),
            name="rlpanel-demo",
            daemon=True,
        )
        self._finalizer = weakref.finalize(self, _end, self._stop, self._thread, self.root)
        write_recording("ppo_couplets", self.root / "couplets-ppo")
        growing.mkdir()
        with SafeFolder.open(growing) as folder:
            for step in steps[:FIRST_STEPS]:
                for file, lines in step.items():
                    folder.append(file, b"".join(lines))
        self._thread.start()

    @property
    def growing(self) -> bool:
        """Whether lines are still being written."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop writing and remove the root; a second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _by_step(content: dict[str, bytes]) -> list[dict[str, list[bytes]]]:
    """The lines of each file, step by step in the order in which training wrote them."""
    steps: dict[int, dict[str, list[bytes]]] = {}
    for file, whole in content.items():
        # On b"\n" alone: splitlines() would also cut at characters that stand in responses.
        lines = (line + b"\n" for line in whole.split(b"\n") if line)
        for step, group in groupby(lines, key=_step):
            steps.setdefault(step, {}).setdefault(file, []).extend(group)
    return [steps[step] for step in sorted(steps)]


def _step(line: bytes) -> int:
    return int(json.loads(line)["step"])


def _replay(
    folder: Path, steps: list[dict[str, list[bytes]]], seconds_per_step: float, stop: threading.Event
) -> None:
    """Append the steps' lines on their schedule until they are all written or ``stop`` is set."""
    begin = time.monotonic()
    for done, step in enumerate(steps):
        lines = [(file, line) for file, lines in step.items() for line in lines]
        for index, (file, line) in enumerate(lines, start=1):
            due = begin + (done + index / len(lines)) * seconds_per_step
            if stop.wait(max(0.0, due - time.monotonic())):
                return
            try:
                with SafeFolder.open(folder) as opened:
                    opened.append(file, line, create=False)  # a file that was removed is not made anew
            except (FileNotFoundError, UnsafePath):  # somebody removed or replaced it: the training is over
                return


def _end(stop: threading.Event, thread: threading.Thread, root: Path) -> None:
    stop.set()
    # A forgotten demo may be collected on any thread, its own included, which cannot wait for itself.
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join()
    shutil.rmtree(root, ignore_errors=True)
