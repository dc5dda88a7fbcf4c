"""The table of a step's groups: the samples of one prompt, with their rewards and learning signal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlpanel.api.run import Run
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.store.query.step_groups import StepGroups, groups_of
from rlpanel.tables.cut_texts import question_of, read_logged_texts
from rlpanel.tables.run_columns import counted_by, step_or_newest
from rlpanel.tables.table import BY, RUN, SPLIT, Table, TableColumn, TableSpec, page
from rlpanel.texts.shorten import TextLimit

#: Column of the table → group metric.
_METRICS = {
    "reward_mean": "group_mean",
    "reward_std": "group_std",
    "reward_min": "group_worst",
    "reward_max": "group_best",
    "pass_rate": "group_pass_rate",
    "diversity": "group_diversity",
}


def _metric(name: str) -> TableColumn:
    info = describe(_METRICS[name])
    return TableColumn(name, "number", f"{info.label}: {info.help}", info.unit)


GROUPS = TableSpec(
    "groups",
    "The groups of a step: samples of the same prompt, in order of arrival or sorted.",
    (
        TableColumn("group", "text", "The group's id if logged, else a key of its prompt."),
        TableColumn("samples", "integer", "Number of samples."),
        *map(_metric, _METRICS),
        TableColumn("signal", "text", "signal if rewards differ, all low or all high if all are equal."),
        TableColumn("filter", "text", "Filter expression for the group's samples within the step."),
        TableColumn("uids", "texts", "Identifiers of the samples."),
        TableColumn("prompt", "text", "The question of the prompt; null unless texts are read."),
    ),
    about=(
        RUN,
        SPLIT,
        BY,
        TableColumn("step", "integer", "The step."),
        TableColumn("no_signal", "integer", "Number of groups whose rewards are all equal."),
    ),
)


def groups(
    run: Run,
    step: int | None = None,
    *,
    sort: str = "",
    limit: int | None = None,
    offset: int = 0,
    text: bool = True,
    limits: TextLimit | None = None,
) -> Table:
    """Return the groups of a step with at least two samples; empty if the run has no groups.

    Parameters
    ----------
    run : Run
    step : int, optional
        By default the newest complete step.
    sort : str
        Number column of the table, with ``-`` in front for descending order.
    limit : int, optional
        Maximum number of groups; all by default.
    offset : int
        Number of groups to skip.
    text : bool
        Read the prompts of the returned groups.
    limits : TextLimit, optional
        Which part of each prompt is returned.

    Raises
    ------
    SettingError
        If the run does not have the step or column.
    """
    view = run.view
    step = step_or_newest(view, step)
    found = groups_of(view, step)
    rows = [] if found is None else _rows(found)
    order = _sorted(rows, sort)
    shown = list(page(order, offset, limit))
    if text and found is not None:
        first = [found.members[row["number"]][0] for row in shown]
        for row, texts in zip(shown, read_logged_texts(run, first), strict=True):
            row["prompt"] = question_of(texts, limits or TextLimit())
    equal = sum(row["signal"] != "signal" for row in rows)
    facts = {
        "run": run.name,
        "split": view.snapshot.split,
        "by": counted_by(view.snapshot),
        "step": step,
        "no_signal": equal,
    }
    return GROUPS.table(shown, total=len(rows), offset=offset, about=facts)


def _rows(found: StepGroups) -> list[dict[str, Any]]:
    numbers = {name: found.values[metric] for name, metric in _METRICS.items() if metric in found.values}
    return [
        {
            "number": number,
            "group": found.names[number],
            "samples": len(members),
            **{name: values[number] for name, values in numbers.items()},
            "signal": str(found.states[number]),
            "filter": found.filters[number],
            "uids": found.snapshot.uids(members),
        }
        for number, members in enumerate(found.members)
    ]


def _sorted(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """Return the rows in a sort order; rows without a value come last."""
    name = sort.removeprefix("-")
    if not name:
        return rows
    if name not in ("samples", *_METRICS):
        raise SettingError(f"groups cannot be sorted by {name[:80]!r}; use samples, {', '.join(_METRICS)}")
    sign = -1.0 if sort.startswith("-") else 1.0
    keys = [sign * float(row.get(name, math.nan)) for row in rows]
    return [rows[position] for position in np.argsort(keys, kind="stable").tolist()]
