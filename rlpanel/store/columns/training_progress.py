"""Tells from columns that grow during training whether steps that come again are of a later epoch.

A job that counts its steps anew in each epoch logs the same steps, but an ``epoch`` or another counter goes
on. In a job that was resumed, the counter repeats with the steps.
"""

from __future__ import annotations

import numpy as np

from rlpanel.store.columns.columns import Columns

#: Counters that go on where steps begin anew.
COUNTERS = (
    *("epoch", "epoch_id", "epoch_idx", "epoch_index", "current_epoch", "data_epoch"),
    *("global_step", "global_steps", "total_steps", "samples_seen"),
)


def goes_on(columns: Columns, before: np.ndarray, after: np.ndarray) -> bool:
    """Return True if a counter is higher in all rows of ``after`` than in those of ``before``."""
    if not (len(before) and len(after)):
        return False
    for name in COUNTERS:
        counter = columns.numbers.get(name)
        if counter is None:
            continue
        values = counter.view(columns.rows)
        if values[after].min() > values[before].max():  # NaN is never above or below
            return True
    return False
