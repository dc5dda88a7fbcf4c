"""Which steps are whole, while the last is still being written."""

from __future__ import annotations

from statistics import median

from rlpanel.store.snapshot.snapshot import Snapshot

#: After this many seconds without a new line the newest step counts as complete.
SETTLED = 1.0


def newest_complete(snapshot: Snapshot, now: float) -> int | None:
    """The newest step that is not still being written.

    The last step counts when it has as many samples as the steps before it usually had, or when no
    line has come for a second; until then the one before it does.
    """
    steps, samples = snapshot.steps.values, snapshot.steps.samples
    if not len(steps):
        return None
    usual = median(samples[-6:-1].tolist()) if len(samples) > 1 else 0
    settled = now - snapshot.newest_line > SETTLED
    return int(steps[-1] if settled or samples[-1] >= usual else steps[-2])
