"""Which of a step's samples the grid shows, and what it says about those it does not."""

from __future__ import annotations

import numpy as np

from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.ui.theme import safe_text
from rlpanel.settings import Display
from rlpanel.store.columns.run_table import OLDER
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot


def shown_rows(view: RunView, step: int, display: Display) -> np.ndarray:
    """The rows to show: all where they are few, else a reproducible draw."""
    snapshot, older, most = view.snapshot, display.older_attempts, display.max_samples
    return cached_on(
        view,
        "shown",
        (step, older, most),
        lambda: snapshot.draw(snapshot.rows_of(step, older=older), most),
    )


def drawn_html(snapshot: Snapshot, step: int, display: Display) -> str:
    """How many of many rows are shown; empty where all are."""
    total = len(snapshot.rows_of(step, older=display.older_attempts))
    if total <= display.max_samples:
        return ""
    tip = "A reproducible draw by uid; Max samples a step, in the side panel, sets how many."
    return f'<span title="{tip}">{display.max_samples:,} of {total:,} shown, statistics over all</span>'


def attempt_column(snapshot: Snapshot, rows: np.ndarray) -> dict[str, list[str]]:
    """A grid column that tells older attempts apart; nothing where there are none."""
    older = snapshot.state[rows] == OLDER
    return {"attempt": np.where(older, "older", "newest").tolist()} if older.any() else {}


def set_aside_html(snapshot: Snapshot) -> str:
    """What was read and does not count, folded behind its number; empty where there is nothing."""
    parts = []
    if snapshot.older:
        steps = ", ".join(f"{step:,}" for step in snapshot.restarts[:8])
        more = ", …" if len(snapshot.restarts) > 8 else ""
        parts.append(
            f"<b>{_samples(snapshot.older)} of older attempts</b>: the job was restarted at step "
            f"{safe_text(steps)}{more}, and the newest attempt counts. "
            "<i>Older attempts</i> in the side panel shows them in the grid."
        )
    if snapshot.duplicates:
        noun = "duplicate" if snapshot.duplicates == 1 else "duplicates"
        parts.append(
            f"<b>{snapshot.duplicates:,} {noun} left out</b>: an equal line stands in the same step, and "
            "chance cannot have drawn its response twice."
        )
    if not parts:
        return ""
    items = "".join(f"<li>{part}</li>" for part in parts)
    count = _samples(snapshot.older + snapshot.duplicates)
    return (
        f'<details class="rl-set-aside"><summary class="pill" style="cursor:pointer">{count} set aside'
        f"</summary><ul>{items}</ul></details>"
    )


def _samples(count: int) -> str:
    return f"{count:,} sample{'s' if count != 1 else ''}"
