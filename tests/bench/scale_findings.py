"""Measures the memory and time of the first check of a large run's findings, in one process.

    python -m tests.bench.scale_findings RUN

The run must have an index: ``rlpanel index RUN`` writes it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rlpanel.findings.check import check
from rlpanel.settings import FindingSettings, Reading
from rlpanel.store.index.run_index import RunIndex
from tests.bench.scale_memory import MemoryWatch, memory


def main() -> None:
    """Open the run, check it, and print what the check adds to the memory."""
    index = RunIndex(Path(sys.argv[1]), "run", Reading())
    index.rescan()
    while index.read():
        pass
    index.compute_statistics()
    before, worked = memory(os.getpid())["private"], time.process_time()
    with MemoryWatch(os.getpid()) as watch:
        check(index.view, FindingSettings(), time.time() + 3600)
    spent = time.process_time() - worked
    added = watch.peak["private"] - before
    found = f"{spent:.1f} CPU s, private memory {before:.0f} + {added:.0f} MB"
    sys.stdout.write(f"{index.snapshot.samples:,} samples: {found}\n")


if __name__ == "__main__":
    main()
