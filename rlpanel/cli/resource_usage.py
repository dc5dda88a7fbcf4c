"""CPU time and peak memory of a command."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its finished child processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes; None if the system does not report it.

    On Linux ``ru_maxrss`` includes the memory of the parent process, so ``VmHWM`` is preferred.
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
