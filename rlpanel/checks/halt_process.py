"""The process beside a training that checks its run and writes the file ``HALT``, see `HaltWatch`.

It is a fresh interpreter of low priority with a limit of memory, and it ends with its parent. It uses at most
a share of one processor: after a check it rests for a multiple of the check's time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from rlpanel.checks.check_process import limit_memory
from rlpanel.checks.halt_watch import HaltWatch
from rlpanel.halt_file import HaltOn, write_halt
from rlpanel.store.backlog.workers import yield_processor

#: Seconds between two looks, and the rest after a look in multiples of its duration.
INTERVAL, REST = 0.5, 4.0


def follow(watch: HaltWatch, interval: float = INTERVAL) -> str:
    """Look until the training should stop; write the file, and return the reason."""
    while True:
        began = time.monotonic()
        halt = watch.look()
        if halt is not None:
            write_halt(watch.run, halt)
            return halt.reason
        time.sleep(max(interval, REST * (time.monotonic() - began)))


def serve() -> None:
    """Follow the run that the first argument after the path of modules describes, as JSON."""
    request = json.loads(sys.argv[2])
    yield_processor()
    limit_memory(request["memory"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asked = HaltOn(request["severity"], tuple(request["rules"]))
    follow(HaltWatch(Path(request["run"]), asked), request["interval"])


def _end_with_parent() -> None:
    """Exit when the parent has closed this process's input, or has ended."""
    while sys.stdin.read(4096):
        pass
    os._exit(0)
