"""States of a run by the age of its newest line: live, quiet, finished."""

from __future__ import annotations

from rlpanel.panels.language.labels import marked

LIVE, QUIET, FINISHED = marked("live"), marked("quiet"), marked("finished")
#: Maximum age of the newest line of a live and of a quiet run, in seconds.
LIVE_SECONDS, QUIET_SECONDS = 60.0, 3600.0


def run_state(seconds: float) -> str:
    """Return the state of a run whose newest line is this old.

    Logs do not tell whether a training ended: after an hour without a line, a run counts as finished.
    """
    if seconds <= LIVE_SECONDS:
        return LIVE
    return QUIET if seconds <= QUIET_SECONDS else FINISHED


def age(seconds: float) -> str:
    """Format a duration with one unit: 12 s, 4 min, 3 h, 2 d."""
    for bound, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < bound:
            return f"{max(0.0, seconds) / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
