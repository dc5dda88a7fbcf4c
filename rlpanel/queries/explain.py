"""The questions for the causes of a step's change, and for clusters of nearly equal responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, OneStepOrMore, Option, steps_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.analysis.response_clusters import ResponseCluster

Metric = Annotated[
    str,
    Option(
        "A number column, or a step metric that is a mean over samples or tokens.", chars=200,
        metavar="METRIC", complete="sample_columns",
    ),
]  # fmt: skip
Since = Annotated[
    int | tuple[int, int] | None,
    Option(
        "The step or steps to compare with.", shown_default="up to five before", complete="steps",
        read=steps_of, chars=50,
    ),
]  # fmt: skip
WithTokens = Annotated[
    bool,
    Option("Also read the lines of these steps, for the shares of tokens and positions.", flag="--tokens"),
]
First = Annotated[int | None, Option("First step.", shown_default="the first", complete="steps")]
Last = Annotated[int | None, Option("Last step, included.", shown_default="the last", complete="steps")]
_NUMBERS = ("kind", "name", "share", "contribution", "count", "count_before", "value", "before", "without")


@question(
    description="What a metric's change at some steps comes from, the largest shares of a kind first.",
    columns=(
        TableColumn("kind", "text", "part, samples, sample, group, rank, a label's name, token or position."),
        TableColumn("name", "text", "The element."),
        TableColumn("share", "number", "Share of the change; those of all elements of a kind add up to 1."),
        TableColumn("contribution", "number", "The same in the metric's unit."),
        TableColumn("count", "integer", "Samples or tokens of the element in the steps."),
        TableColumn("count_before", "integer", "The same in the steps before."),
        TableColumn("value", "number", "The metric over the element in the steps."),
        TableColumn("before", "number", "The same in the steps before."),
        TableColumn("without", "number", "The value of the steps without the element."),
        TableColumn("filter", "text", "Filter expression for its samples; empty if there is none."),
        TableColumn("uids", "texts", "Its samples.", most=3),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("metric", "text", "The metric."),
        TableColumn("step", "text", "The steps, such as 43..47; null if the run has no complete step."),
        TableColumn("since", "text", "The steps that they are compared with."),
        TableColumn("value", "number", "The metric over the steps."),
        TableColumn("before", "number", "The metric over the steps before."),
        TableColumn("error", "number", "Standard error of the change."),
        TableColumn("sentences", "texts", "What explains the change."),
    ),
    example="rlpanel explain runs/exp1 reward --step 20 --limit 5",
)
def explain(
    run: RunData,
    metric: Metric,
    step: OneStepOrMore = None,
    since: Since = None,
    *,
    tokens: WithTokens = False,
    limit: Limit = None,
    offset: Offset = 0,
) -> Table:
    """Return the parts, samples, groups, ranks and categories that a metric's change comes from.

    Parameters
    ----------
    run : RunData
    metric : str
        A number column, or a step metric that is a mean over samples or tokens.
    step : int or (int, int), optional
        A step, or the first and the last one; by default the newest complete step.
    since : int or (int, int), optional
        The steps to compare with; by default up to five right before.
    tokens : bool
        Also read the lines of these steps, for the shares of tokens and positions.
    limit : int, optional
        Maximum number of elements; all by default.
    offset : int
        Number of elements to skip.

    Raises
    ------
    SettingError
        If the run does not have the steps or the metric, or the metric has no shares.
    """
    from rlpanel.analysis.change_causes import causes_between, other_sentences
    from rlpanel.analysis.change_sentences import sentences
    from rlpanel.analysis.step_change import explain_step
    from rlpanel.analysis.token_change import explain_tokens
    from rlpanel.queries.run_columns import step_or_newest
    from rlpanel.queries.step_ranges import steps_text

    facts: dict[str, Any] = {"run": run.name, "split": run.snapshot.split, "metric": metric}
    step = step_or_newest(run.view, step) if step is None else step
    if step is None:
        return explain.table([], about=facts)
    change = explain_step(run.view, metric, step, since)
    parts = list(change.parts)
    if tokens:
        *_, last = explain_tokens(run.index, run.snapshot, metric, step, since)
        parts += last.parts
    shown = page(parts, offset, limit)
    values: dict[str, Any] = {name: [getattr(part, name) for part in shown] for name in _NUMBERS}
    values |= {"filter": [part.where for part in shown], "uids": [list(part.uids) for part in shown]}
    attrs = {name: getattr(change, name) for name in ("value", "before", "error")}
    attrs |= {"step": steps_text(change.steps), "since": steps_text(change.since)}
    causes = causes_between(run.index, run.view, change)
    attrs["sentences"] = [*sentences(change), *other_sentences(causes)]
    return explain.table(values, total=len(parts), offset=offset, about=facts | attrs, attrs=attrs)


@question(
    description="Clusters of nearly equal responses over a range of steps, the largest first.",
    columns=(
        TableColumn("size", "integer", "Number of samples."),
        TableColumn("first", "integer", "First step with such a response."),
        TableColumn("last", "integer", "Last step with such a response."),
        TableColumn("prompts", "integer", "Number of different prompts."),
        TableColumn("texts", "integer", "Number of different responses."),
        TableColumn("reward", "number", "Mean reward.", "reward"),
        TableColumn("example", "text", "Beginning of the most frequent response."),
        TableColumn("uid", "text", "A sample with it."),
        TableColumn("uids", "texts", "The samples.", most=3),
    ),
    about=(RUN, SPLIT),
    relation=("size", "first", "last", "prompts", "texts", "reward", "example", "uid"),
    example="rlpanel clusters runs/exp1 --first 10 --last 20 --limit 5",
)
def clusters(
    run: RunData, first: First = None, last: Last = None, *, limit: Limit = None, offset: Offset = 0
) -> Table:
    """Return the clusters of nearly equal responses over a range of steps, the largest first.

    Parameters
    ----------
    run : RunData
    first, last : int, optional
        Both included; by default all steps.
    limit : int, optional
        Maximum number of clusters; all by default.
    offset : int
        Number of clusters to skip.
    """
    from rlpanel.analysis.response_clusters import response_clusters

    steps = run.snapshot.steps.values
    found: tuple[ResponseCluster, ...] = ()
    if len(steps):
        low, high = (int(steps[0]) if first is None else first), (int(steps[-1]) if last is None else last)
        *_, result = response_clusters(run.index, run.snapshot, low, high)
        found = result.clusters
    shown = page(found, offset, limit)
    names = ("size", "first", "last", "prompts", "texts", "reward", "example", "uid")
    values: dict[str, Any] = {name: [getattr(cluster, name) for cluster in shown] for name in names}
    values["uids"] = [run.snapshot.uids(cluster.rows) for cluster in shown]
    facts = {"run": run.name, "split": run.snapshot.split}
    return clusters.table(values, total=len(found), offset=offset, about=facts)
