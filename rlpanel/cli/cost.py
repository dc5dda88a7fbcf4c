"""What a command cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cpu_seconds() -> float:
    """Of this process and those it started and ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak_memory() -> int | None:
    """Bytes of memory this process held at most; None where the system does not tell.

    Linux counts in ``ru_maxrss`` what the process that started this one held.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
