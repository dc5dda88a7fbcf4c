"""Selects the samples of a step that the grid shows, and describes the samples that are left out."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from rlpanel.display_settings import Display
from rlpanel.panels.language.labels import tr, tr_html, trn
from rlpanel.store.columns.row_table import OLDER
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Rows per page. The number is fixed: computed from the height on screen, it is 0 during the page's layout.
PAGE = 20


def visible_rows(view: RunView, step: int, display: Display) -> np.ndarray:
    """Return the rows of a step to show: all if they are few, else a reproducible random subset."""
    older, most = display.older_attempts, display.max_samples
    return cached_on(
        view,
        "shown",
        (step, older, most),
        lambda: view.snapshot.sample_rows(view.snapshot.rows_of(step, older=older), most),
    )


def subset_html(snapshot: Snapshot, step: int, display: Display) -> str:
    """Return HTML that says how many of a step's rows are shown; empty if all are."""
    total = len(snapshot.rows_of(step, older=display.older_attempts))
    if total <= display.max_samples:
        return ""
    tip = tr("A reproducible random subset; the side panel sets the maximum number of samples.")
    text = tr(
        "{max_samples:,} of {total:,} shown, statistics over all",
        max_samples=display.max_samples,
        total=total,
    )
    return Markup('<span title="{}">{}</span>').format(tip, text)


def attempt_column(snapshot: Snapshot, rows: np.ndarray) -> dict[str, list[str]]:
    """Return the grid column that marks samples of older attempts; empty if there are none."""
    older = snapshot.state[rows] == OLDER
    return {"attempt": np.where(older, "older", "newest").tolist()} if older.any() else {}


def excluded_html(snapshot: Snapshot) -> str:
    """Return the number of excluded samples as HTML that unfolds the reasons; empty if there are none."""
    parts: list[str] = []
    reasons = []
    if snapshot.older:
        reasons.append(tr("restarts"))
        steps = ", ".join(f"{step:,}" for step in snapshot.restarts[:8])
        more = ", …" if len(snapshot.restarts) > 8 else ""
        count = tr("{samples} of older attempts", samples=_samples(snapshot.older))
        switch = tr("Older attempts")
        parts.append(
            tr_html(
                "{samples}: the job was restarted at step {steps}{more}, and only the newest attempt counts. "
                "{switch} in the side panel shows them in the grid.",
                samples=Markup("<b>{}</b>").format(count),
                switch=Markup("<i>{}</i>").format(switch),
                steps=steps,
                more=more,
            )
        )
    if snapshot.duplicates:
        reasons.append(tr("duplicates"))
        count = trn("{count:,} duplicate left out", "{count:,} duplicates left out", snapshot.duplicates)
        parts.append(
            tr_html(
                "{duplicates}: the same step has an identical line, and sampling cannot have produced its "
                "response twice by chance, or the trainer logged its last samples again.",
                duplicates=Markup("<b>{}</b>").format(count),
            )
        )
    if not parts:
        return ""
    items = "".join(f"<li>{part}</li>" for part in parts)
    label = tr(
        "{duplicates:,} excluded ({reasons})",
        duplicates=snapshot.older + snapshot.duplicates,
        reasons=", ".join(reasons),
    )
    return (
        f'<details class="rl-set-aside"><summary class="pill" style="cursor:pointer">{label}'
        f"</summary><ul>{items}</ul></details>"
    )


def _samples(count: int) -> str:
    return trn("{count:,} sample", "{count:,} samples", count)
