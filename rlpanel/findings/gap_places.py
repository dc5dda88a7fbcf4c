"""Finds differences of logprobs that lie at the first or the last token of the responses.

The first token differs after a wrong start of the sequence or a shift, the last one by the end token.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.snapshot.sample_places import spread_rows
from rlpanel.store.snapshot.snapshot import Snapshot

#: Logprobs of the other side, by the color of a finding, and its name.
OTHER_SIDE = {
    "engine_log_ratio": ("rollout_logprobs", "trainer and engine"),
    "kl_k3": ("ref_logprobs", "policy and reference"),
}
#: Samples that are read, fewest of them, and fewest tokens of one.
_READ, _MIN_READ, _MIN_TOKENS = 24, 4, 8
#: Share of all differences at one place that is named.
_SHARE = 0.5


def gap_place(index: RunIndex, snapshot: Snapshot, rows: np.ndarray, color: str) -> str:
    """Return a sentence if half of the differences of logprobs are at the first or last tokens; else empty.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
        Affected rows; some of them are read.
    color : str
        Which logprobs are compared, see `OTHER_SIDE`.
    """
    other, sides = OTHER_SIDE[color]
    gaps = np.array(list(_gaps(index, snapshot, spread_rows(rows, _READ), other))).reshape(-1, 3)
    total = float(gaps[:, 2].sum())
    if len(gaps) < _MIN_READ or not total > 0:
        return ""
    for at, name in enumerate(("first", "last")):
        share = float(gaps[:, at].sum()) / total
        if share >= _SHARE:
            return (
                f"{share:.0%} of the differences between {sides} are at the {name} token of the response, "
                f"{gaps[:, at].mean():.2f} nats there on average; {len(gaps):,} responses were read."
            )
    return ""


def _gaps(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, other: str
) -> Iterator[tuple[float, float, float]]:
    """Yield the absolute differences at the first and the last token, and their sum over the response."""
    for row in rows.tolist():
        try:
            arrays = fetch_record(index, snapshot, row).arrays
        except (RLPanelError, OSError, IndexError):  # the line has changed meanwhile
            continue
        own, theirs = arrays.get("logprobs"), arrays.get(other)
        if own is None or theirs is None or len(own) != len(theirs):
            continue
        mask = arrays.get("loss_mask")
        gap = np.abs(np.asarray(own, float) - np.asarray(theirs, float))
        if mask is not None and len(mask) == len(gap):
            gap = gap[np.asarray(mask, float) > 0]
        gap = gap[np.isfinite(gap)]
        if len(gap) >= _MIN_TOKENS:
            yield float(gap[0]), float(gap[-1]), float(gap.sum())
