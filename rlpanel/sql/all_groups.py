"""The groups of all steps as a data frame."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlpanel.metrics.engine.column_info import of_level
from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.store.query.filter_columns import prompt_key
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import available, step_rows

_HEAD = ("step", "group", "prompt_key", "samples", "signal")


def groups_frame(view: RunView) -> pd.DataFrame:
    """Return one row per group of at least two samples.

    Columns: ``step``, ``group`` (its id, missing if not logged), ``prompt_key``, ``samples``, ``signal``
    (``signal``, ``all low``, ``all high``; missing without rewards) and the group metrics, NaN where the run
    lacks their inputs.
    """
    snapshot = view.snapshot
    metrics = [metric for metric in of_level("group") if not metric.hidden]
    rows = snapshot.alive_rows
    if not view.grouped or not len(rows):
        return pd.DataFrame({name: [] for name in (*_HEAD, *(metric.name for metric in metrics))})
    steps = snapshot.metadata("step")
    rows = rows[np.argsort(steps[rows], kind="stable")]
    table = step_rows(snapshot, rows)
    shared = table.groups.has_several
    # The sort by group is stable, so that the first row of a group is the one that arrived first.
    first = rows[np.argsort(table.groups.number, kind="stable")][table.groups.starts][shared]
    missing = np.full(int(shared.sum()), np.nan)
    values = {
        metric.name: table.value(metric.name)[shared]
        if available(snapshot, metric, view.grouped)
        else missing
        for metric in metrics
    }
    logged = "group" in snapshot.labels
    return pd.DataFrame(
        {
            "step": steps[first],
            "group": snapshot.label("group", first) if logged else [None] * len(first),
            "prompt_key": [prompt_key(key) for key in snapshot.metadata("prompt_hash")[first].tolist()],
            "samples": table.groups.sizes[shared],
            "signal": _signal(values, snapshot.constants["pass_reward"]),
            **values,
        }
    )


def _signal(values: dict[str, np.ndarray], pass_reward: float) -> list[str | None]:
    """Return whether the rewards of each group differ; None where none is known."""
    zero, mean = values["group_zero_variance"], values["group_mean"]
    equal, passing = zero > 0, mean >= pass_reward - EQUAL_WITHIN
    named = np.select([equal & passing, equal], [ALL_HIGH, ALL_LOW], SIGNAL)
    return [name if known else None for name, known in zip(named.tolist(), np.isfinite(zero), strict=True)]
