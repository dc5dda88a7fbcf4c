"""Table of groups: one row per group and step, with the numbers that the board's tab shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlpanel.metrics.engine.segments import Segments
from rlpanel.store.query.step_groups import StepGroups, groups_in, groups_of
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import batches_of_steps

if TYPE_CHECKING:
    import pandas as pd

#: Column of the table → group metric.
_METRICS = {
    "reward_mean": "group_mean",
    "reward_std": "group_std",
    "reward_min": "group_worst",
    "reward_max": "group_best",
    "pass_rate": "group_pass_rate",
    "diversity": "group_diversity",
}
#: Column of the table → sample column of which it is the mean over the group.
_MEANS = {"prompt_chars": "prompt_chars", "response_tokens_mean": "response_tokens"}


def group_frame(view: RunView, step: int | None = None) -> pd.DataFrame:
    """Return one row per group of at least two samples, in order of step and arrival.

    Parameters
    ----------
    view : RunView
    step : int, optional
        Only this step; all by default.
    """
    import pandas as pd

    if step is not None:
        found = [groups_of(view, step)]
    elif view.grouped:
        snapshot = view.snapshot
        found = [groups_in(view, rows) for rows in batches_of_steps(snapshot, snapshot.steps.values)]
    else:
        found = []
    frames = [_frame(groups) for groups in found if groups is not None]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["step", "group"])


def _frame(groups: StepGroups) -> pd.DataFrame:
    import pandas as pd

    snapshot = groups.snapshot
    first = np.array([rows[0] for rows in groups.members], int)
    members = np.concatenate(groups.members)
    by_group = Segments(np.cumsum(groups.sizes) - groups.sizes, len(members))
    metrics = {name: groups.values[of] for name, of in _METRICS.items() if of in groups.values}
    means = {
        name: by_group.mean(snapshot.counted(of, members))
        for name, of in _MEANS.items()
        if snapshot.has_number(of)
    }
    return pd.DataFrame(
        {
            "step": snapshot.metadata("step")[first],
            "group": groups.names,
            "samples": groups.sizes,
            **metrics,
            **means,
            "signal": groups.states,
            "filter": groups.filters,
            "uid": snapshot.uids(first),
        }
    )
