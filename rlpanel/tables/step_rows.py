"""The table of a run's steps: number of samples, means and other statistics, and step metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from rlpanel.api.run import Run
from rlpanel.metrics.engine.column_info import ALIASES, METRICS, of_level, pooling_columns, step_names
from rlpanel.metrics.engine.step_statistics import STATISTICS
from rlpanel.store.snapshot.remarks import listed_remarks
from rlpanel.store.snapshot.run_view import RunView, step_name
from rlpanel.store.snapshot.snapshot import newest_complete_step
from rlpanel.store.snapshot.step_metric_cache import available
from rlpanel.tables.run_columns import chosen, counted_by, number_column
from rlpanel.tables.table import BY, REMARKS, RUN, SPLIT, Table, TableColumn, TableSpec

STEPS = TableSpec(
    "steps",
    "The steps of a run, in ascending order.",
    (
        TableColumn("step", "integer", "Policy update."),
        TableColumn("samples", "integer", "Number of samples that count."),
        TableColumn("complete", "boolean", "False while the newest step is still being written."),
    ),
    "Further columns are numbers: statistics of sample columns, such as reward_mean, and step metrics; also "
    "episodes, if one has several samples.",
    about=(
        RUN,
        SPLIT,
        BY,
        TableColumn("trend", "object", "Means of at most 32 parts of the run, by column."),
        TableColumn("available", "texts", "Names of all further columns that this run has."),
        REMARKS,
    ),
)

#: Column of runs in which an episode has several samples.
_EPISODES = TableColumn("episodes", "integer", "Number of samples; those of one episode count once.")
#: Maximum number of points of a trend.
TREND_POINTS = 32
#: Columns that are shown by default, if the run has them.
USUAL = (
    "reward_mean", "reward_std", "ref_reward_mean", "pass_at_1", "response_tokens_mean", "truncated_mean",
    "kl_k3_mean", "entropy_mean", "token_entropy_mean", "zero_variance_groups",
)  # fmt: skip


def steps(
    run: Run, *, columns: Sequence[str] | None = None, last: int | None = None, step: int | None = None
) -> Table:
    """Return the steps of a run.

    Parameters
    ----------
    run : Run
    columns : sequence of str, optional
        Columns as in ``run.steps``; ``*`` for all of them. By default those most used.
    last : int, optional
        Only the last steps; all by default.
    step : int, optional
        Only this step.

    Raises
    ------
    SettingError
        If the run does not have a column.
    """
    view = run.view
    curves = step_curves(view)
    names = chosen(columns, curves, USUAL, f"run {view.snapshot.name!r}")
    chosen_steps = _positions(view, last, step)
    # Together, step metrics take much less time than one by one.
    view.step_metrics_of([curve for curve in map(curves.get, names) if curve in step_names()])
    whole = {name: view.step_values(curves[name]) for name in names}
    values = {name: array[chosen_steps] for name, array in whole.items()}
    numbers = view.snapshot.steps.values
    newest = newest_complete_step(view.snapshot, time.time())
    episodes, has_episodes = view.snapshot.steps.episodes, view.snapshot.has_episodes
    rows = [
        {
            "step": numbers[position],
            "samples": view.snapshot.steps.samples[position],
            "complete": newest is not None and bool(numbers[position] <= newest),
            **({"episodes": episodes[position]} if has_episodes else {}),
            **{name: values[name][number] for name in names},
        }
        for number, position in enumerate(chosen_steps.tolist())
    ]
    return STEPS.table(
        rows,
        others=[
            *([_EPISODES] if has_episodes else []),
            *(number_column(name, curves[name]) for name in names),
        ],
        total=len(numbers) if step is None else len(rows),
        offset=int(chosen_steps[0]) if len(chosen_steps) and step is None else 0,
        about={
            "run": run.name,
            "split": view.snapshot.split,
            "by": counted_by(view.snapshot),
            "trend": {name: _trend(array) for name, array in whole.items()},
            "available": list(curves),
            "remarks": listed_remarks(run.remarks),
        },
    )


def step_curves(view: RunView) -> dict[str, str]:
    """Return the name of the curve behind each column of the table that the run has."""
    snapshot = view.snapshot
    snapshot.steps.compute_all()
    curves = {}
    for column in [*snapshot.steps.columns, *ALIASES]:
        name = ALIASES.get(column, column)
        if name in pooling_columns() or not snapshot.has_number(name):
            continue
        for statistic in ("mean", *STATISTICS):
            curves[step_name(column, statistic)] = column if statistic == "mean" else f"{name}:{statistic}"
    found = {m.name: m.name for m in of_level("step") if available(snapshot, m, view.grouped)}
    return curves | {name: curve for name, curve in found.items() if not METRICS[name].hidden}


def _trend(values: np.ndarray) -> list[float]:
    """Return the means of equally long parts of the run, without parts that have no value."""
    finite = values[np.isfinite(values)]
    parts = np.array_split(finite, min(len(finite), TREND_POINTS)) if len(finite) else []
    return [float(f"{part.mean():.6g}") for part in parts]


def _positions(view: RunView, last: int | None, step: int | None) -> np.ndarray:
    steps_ = view.snapshot.steps
    if step is not None:
        position = steps_.position(step)
        return np.array([position] if position >= 0 else [], int)
    every = np.arange(len(steps_.values))
    return every if last is None else every[max(len(every) - last, 0) :]
