"""A rank of `tests.bench.soak`: appends lines until it is killed, in writes that end anywhere.

    python -m tests.bench.soak_writer RUN RANK SEED

It is a separate script without imports of rlpanel, so that it starts quickly.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import threading
from pathlib import Path

from tests.factories import line

#: Mean seconds between two writes.
PAUSE = 0.02
#: Few different lines, so that lines repeat.
INDICES = 60


def log_of(run: Path, rank: int) -> Path:
    """Return the file of a rank."""
    return run / f"rollout_data_rank_{rank}.jsonl"


def write(run: Path, rank: int, seed: int) -> None:
    """Append forever; sometimes open the file again, because it may have been replaced."""
    chance, pause, step = random.Random(seed), threading.Event(), 0
    while True:
        try:
            with log_of(run, rank).open("ab", buffering=0) as file:
                leave_room(file.fileno(), chance)
                for _ in range(chance.randrange(1, 400)):
                    step += chance.random() < 0.1
                    text = line(step, rank=rank, index=chance.randrange(INDICES))
                    cut = chance.randrange(len(text)) if chance.random() < 0.2 else len(text)
                    file.write(text[:cut])
                    pause.wait(chance.expovariate(1 / PAUSE))
                    file.write(text[cut:])
        except OSError:  # the folder is missing, or the disk is full
            pause.wait(0.1)


def leave_room(file: int, chance: random.Random) -> None:
    """One time in four, let the disk be full soon: a write then takes part of a line, and the next fails."""
    room = (
        os.fstat(file).st_size + chance.randrange(20_000)
        if chance.random() < 0.25
        else resource.RLIM_INFINITY
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
