"""The table of a run's steps: number of samples, means and other statistics, and step metrics."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Last, Step, StepColumns
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import BY, REMARKS, RUN, SPLIT, STEP, Table, TableColumn

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.store.columns.scalar_log import Series
    from rlpanel.store.snapshot.run_view import RunView

#: Column of runs in which an episode has several samples.
_EPISODES = TableColumn("episodes", "integer", "Number of samples; those of one episode count once.")
#: Maximum number of points of a trend.
TREND_POINTS = 32
#: Columns that are shown by default, if the run has them.
USUAL = (
    "reward_mean", "reward_std", "ref_reward_mean", "pass_at_1", "response_tokens_mean", "truncated_mean",
    "kl_k3_mean", "entropy_mean", "token_entropy_mean", "zero_variance_groups",
)  # fmt: skip


@question(
    description="The steps of a run, in ascending order.",
    columns=(
        STEP,
        TableColumn("samples", "integer", "Number of samples that count."),
        TableColumn("complete", "boolean", "False while the newest step is still being written."),
    ),
    others="Further columns are numbers: statistics of sample columns, such as reward_mean, step metrics, "
    "and the trainer's own scalars, such as loss; also episodes, if one has several samples.",
    about=(
        RUN,
        SPLIT,
        BY,
        TableColumn("trend", "object", "Means of at most 32 parts of the run, by column.", full=True),
        TableColumn("available", "texts", "Names of all further columns that this run has.", full=True),
        REMARKS,
    ),
    relation=("step", "samples"),
    relation_options={"every": True},
    counts=True,
    newest_last=True,
    example="rlpanel steps runs/exp1 --columns reward_mean,kl_k3_mean --last 5",
    agents="List the newest steps of a run with means and step metrics; detail=full names all columns.",
)
def steps(
    run: RunData,
    *,
    columns: StepColumns = None,
    last: Last = None,
    step: Step = None,
    every: bool = False,
) -> Table:
    """Return the steps of a run: means, other statistics and step metrics.

    Parameters
    ----------
    run : RunData
    columns : sequence of str, optional
        Columns as in ``run.steps``; ``*`` for all of them. By default those most used.
    last : int, optional
        Only the last steps; all by default.
    step : int, optional
        Only this step.
    every : bool
        All columns with a value at some step, also those that other columns are computed from.

    Raises
    ------
    SettingError
        If the run does not have a column.
    """
    from rlpanel.metrics.engine.column_info import step_names
    from rlpanel.queries.run_columns import chosen, counted_by, number_column
    from rlpanel.store.snapshot.remarks import listed_remarks
    from rlpanel.store.snapshot.snapshot import newest_complete_step

    view = run.view
    curves, logged = step_curves(view), trainer_scalars(view)
    numbers = view.snapshot.steps.values
    chosen_steps = _positions(view, last, step)
    if every:
        whole = view.step_columns()
        whole |= {name: logged[name].at_steps(numbers) for name in logged if name not in whole}
    else:
        names = chosen(columns, [*curves, *logged], USUAL, f"run {view.snapshot.name!r}")
        # Together, step metrics take much less time than one by one.
        view.step_metrics_of([curve for curve in map(curves.get, names) if curve in step_names()])
        whole = {
            name: view.step_values(curves[name]) if name in curves else logged[name].at_steps(numbers)
            for name in names
        }
    newest = newest_complete_step(view.snapshot, time.time())
    episodes, has_episodes = view.snapshot.steps.episodes, view.snapshot.has_episodes
    rows = {
        "step": numbers[chosen_steps],
        "samples": view.snapshot.steps.samples[chosen_steps],
        "complete": numbers[chosen_steps] <= (-math.inf if newest is None else newest),
        **({"episodes": episodes[chosen_steps]} if has_episodes else {}),
        **{name: array[chosen_steps] for name, array in whole.items()},
    }
    return steps.table(
        rows,
        others=[
            *([_EPISODES] if has_episodes else []),
            *(
                number_column(name, curves.get(name, name))
                if name in curves or name not in logged
                else scalar_column(name)
                for name in whole
            ),
        ],
        total=len(numbers) if step is None else len(chosen_steps),
        offset=int(chosen_steps[0]) if len(chosen_steps) and step is None else 0,
        about={
            "run": run.name,
            "split": view.snapshot.split,
            "by": counted_by(view.snapshot),
            "trend": lambda: {name: _trend(array) for name, array in whole.items()},
            "available": [*curves, *logged],
            "remarks": listed_remarks(view.snapshot.remarks),
        },
    )


def step_curves(view: RunView) -> dict[str, str]:
    """Return the name of the curve behind each column of the table that the run has."""
    from rlpanel.metrics.engine.column_info import of_level
    from rlpanel.store.snapshot.step_metric_cache import available

    metrics = (m for m in of_level("step") if not m.hidden and available(view.snapshot, m, view.grouped))
    return view.step_statistics() | {metric.name: metric.name for metric in metrics}


def trainer_scalars(view: RunView) -> dict[str, Series]:
    """Return the trainer's own scalars by name, without those that have the name of a column of the table."""
    taken = {"step", "samples", "complete", "episodes", *view.step_statistics(), *step_curves(view)}
    logged = view.snapshot.scalars
    return {name: logged.series(name) for name in logged.names if name not in taken}


def scalar_column(name: str) -> TableColumn:
    """Return the declaration of a column with a scalar of the trainer's own log."""
    return TableColumn(name, "number", "A scalar of the trainer's own log.")


@question(
    description="The trainer's own scalars, one row per step that it logged.",
    columns=(STEP,),
    others="Further columns are numbers with the trainer's names, such as loss.",
    about=(
        RUN,
        TableColumn("files", "texts", "Files that they were read from, relative to the run."),
        TableColumn("available", "texts", "Names of all scalars.", full=True),
    ),
    relation=("step",),
    has_split=False,
    newest_last=True,
    example="rlpanel scalars runs/exp1 --columns loss,grad_norm --last 5",
    agents="List the trainer's own scalars by step, such as loss; about.available names all of them.",
)
def scalars(run: RunData, *, columns: StepColumns = None, last: Last = None) -> Table:
    """Return the trainer's own scalars, such as the loss, of each step that it logged.

    They come from files in the run's folder; see docs/log.md. Steps without rollouts have a row too.

    Parameters
    ----------
    run : RunData
    columns : sequence of str, optional
        Names of scalars; all by default.
    last : int, optional
        Only the last steps; all by default.

    Raises
    ------
    SettingError
        If the trainer did not log a scalar of this name.
    """
    from rlpanel.queries.run_columns import ALL, chosen

    logged = run.snapshot.scalars
    frame = logged.frame()
    available = [name for name in logged.names if name != "step"]
    names = chosen(columns or [ALL], available, (), f"the trainer's log of run {run.name!r}")
    first = 0 if last is None else max(len(frame) - last, 0)
    return scalars.table(
        {name: frame[name].to_numpy()[first:] for name in ("step", *names)},
        others=[scalar_column(name) for name in names],
        total=len(frame),
        offset=first,
        about={"run": run.name, "files": list(logged.files), "available": available},
    )


def _trend(values: np.ndarray) -> list[float]:
    """Return the means of equally long parts of the run, without parts that have no value."""
    import numpy as np

    finite = values[np.isfinite(values)]
    parts = np.array_split(finite, min(len(finite), TREND_POINTS)) if len(finite) else []
    return [float(f"{part.mean():.6g}") for part in parts]


def _positions(view: RunView, last: int | None, step: int | None) -> np.ndarray:
    import numpy as np

    steps_ = view.snapshot.steps
    if step is not None:
        position = steps_.position(step)
        return np.array([position] if position >= 0 else [], int)
    every = np.arange(len(steps_.values))
    return every if last is None else every[max(len(every) - last, 0) :]
