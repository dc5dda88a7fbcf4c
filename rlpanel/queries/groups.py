"""The question for a step's groups: the samples of one prompt, with their rewards and learning signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.queries.question import question
from rlpanel.queries.question_options import GroupText, Limit, Offset, OneStepOrMore, Option, PromptChars
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import BY, PROMPT, RUN, SPLIT, STEPS, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.store.query.step_groups import StepGroups
    from rlpanel.store.snapshot.run_view import RunView

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

Sort = Annotated[
    str,
    Option(
        "Column to sort by; a leading - sorts descending (--sort=-reward_std).",
        "Number column; a leading - sorts descending.",
        chars=200,
    ),
]


def _columns() -> tuple[TableColumn, ...]:
    from rlpanel.metrics.engine.column_info import describe

    def metric(name: str) -> TableColumn:
        info = describe(_METRICS[name])
        return TableColumn(name, "number", f"{info.label}: {info.help}", info.unit)

    return (
        TableColumn("group", "text", "The group's id if logged, else a key of its prompt."),
        TableColumn("samples", "integer", "Number of samples."),
        *map(metric, _METRICS),
        TableColumn("signal", "text", "signal if rewards differ, all low or all high if all are equal."),
        TableColumn(
            "filter", "text", "Filter expression for the group's samples within the step.", full=True
        ),
        TableColumn("uids", "texts", "Identifiers of the samples.", most=2),
        PROMPT,
    )


@question(
    description="The groups of a step: samples of the same prompt, in order of arrival or sorted.",
    columns=_columns,
    about=(
        RUN,
        SPLIT,
        BY,
        TableColumn("step", "integer", "The step; null for several."),
        STEPS,
        TableColumn("no_signal", "integer", "Number of groups whose rewards are all equal."),
    ),
    frame=("step", "group", "samples", *_METRICS, *_MEANS, "signal", "filter", "uid"),
    relation_options={"all_steps": True},
    counts=True,
    example="rlpanel groups runs/exp1 --step 20 --sort=-reward_std --limit 5",
)
def groups(
    run: RunData,
    step: OneStepOrMore = None,
    *,
    sort: Sort = "",
    limit: Limit = None,
    offset: Offset = 0,
    text: GroupText = False,
    chars: PromptChars = None,
    all_steps: bool = False,
) -> Table:
    """Return the groups of a step: the samples of one prompt, and whether their rewards differ.

    Parameters
    ----------
    run : RunData
    step : int or (int, int), optional
        A step, or the first and the last of several; by default the newest complete step.
    sort : str
        Number column of the table, with ``-`` in front for descending order.
    limit : int, optional
        Maximum number of groups; all by default.
    offset : int
        Number of groups to skip.
    text : bool
        Read the prompts of the returned groups.
    chars : int, optional
        Maximum number of characters of each prompt.
    all_steps : bool
        Without a step, return the groups of all steps.

    Raises
    ------
    SettingError
        If the run does not have the step or column.
    """
    import numpy as np

    from rlpanel.queries.run_columns import counted_by, questions_of, step_or_newest
    from rlpanel.queries.step_ranges import in_run, step_facts
    from rlpanel.texts.shorten import TextLimit

    if step is not None:
        step = in_run(run.view, step)
    elif not all_steps:
        step = step_or_newest(run.view, None)
    found = _found(run.view, step, all_steps=all_steps)
    members = [rows for part in found for rows in part.members]
    numbers = {"samples": np.array([len(rows) for rows in members], int)} | {
        name: np.concatenate([part.values[metric] for part in found])
        for name, metric in _METRICS.items()
        if found and metric in found[0].values
    }
    states = np.concatenate([part.states for part in found]) if found else np.empty(0, str)
    order = page(_order(numbers, len(members), sort), offset, limit)
    first = np.array([rows[0] for rows in members], int)[order]
    snapshot = run.snapshot
    values: dict[str, Any] = {
        "step": snapshot.metadata("step")[first],
        "group": _picked([name for part in found for name in part.names], order),
        **{name: array[order] for name, array in numbers.items()},
        "signal": states[order],
        "filter": lambda: _picked([text for part in found for text in part.filters], order),
        "uid": lambda: snapshot.uids(first),
        "uids": lambda: [snapshot.uids(rows) for rows in _picked(members, order)],
    }
    values |= {
        name: _means(run.view, _picked(members, order), column)
        for name, column in _MEANS.items()
        if found and snapshot.has_number(column)
    }
    if text:
        values["prompt"] = questions_of(run, first, TextLimit(chars))
    facts = {
        "run": run.name,
        "split": snapshot.split,
        "by": counted_by(snapshot),
        **step_facts(step),
        "no_signal": np.count_nonzero(states != "signal"),
    }
    return groups.table(values, total=len(members), offset=offset, about=facts)


def _found(view: RunView, step: int | tuple[int, int] | None, *, all_steps: bool) -> list[StepGroups]:
    """Return the groups of a step, or of several or all steps in batches."""
    from rlpanel.store.query.step_groups import groups_in, groups_of
    from rlpanel.store.snapshot.step_metric_cache import batches_of_steps

    if not isinstance(step, int) and (all_steps or step) and view.grouped:
        snapshot = view.snapshot
        steps = snapshot.steps.values
        if step is not None:
            steps = steps[(steps >= step[0]) & (steps <= step[1])]
        parts = [groups_in(view, rows) for rows in batches_of_steps(snapshot, steps)]
    elif isinstance(step, tuple):  # the samples do not come in groups
        parts = []
    else:
        parts = [groups_of(view, step)]
    return [part for part in parts if part is not None]


def _means(view: RunView, members: Sequence[Any], column: str) -> Any:
    """Return a function for the means of a sample column over each group."""
    import numpy as np

    from rlpanel.metrics.engine.segments import Segments

    def means() -> np.ndarray:
        sizes = np.array([len(rows) for rows in members], int)
        rows = np.concatenate(members) if len(members) else np.empty(0, int)
        by_group = Segments(np.cumsum(sizes) - sizes, len(rows))
        return by_group.mean(view.snapshot.counted(column, rows))

    return means


def _order(numbers: dict[str, Any], count: int, sort: str) -> Any:
    """Return the positions of the groups in a sort order; groups without a value come last."""
    import numpy as np

    from rlpanel.errors import SettingError

    name = sort.removeprefix("-")
    if not name:
        return np.arange(count)
    if name not in ("samples", *_METRICS):
        raise SettingError(f"groups cannot be sorted by {name[:80]!r}; use samples, {', '.join(_METRICS)}")
    keys = np.asarray(numbers.get(name, np.full(count, np.nan)), float)
    return np.argsort(-keys if sort.startswith("-") else keys, kind="stable")


def _picked(items: Sequence[Any], order: Any) -> list[Any]:
    return [items[position] for position in order.tolist()]
