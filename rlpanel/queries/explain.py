"""The questions for a change: its causes, clusters of responses, and the chain that leads to a bad step."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.queries.question import question
from rlpanel.queries.question_options import A, B, Limit, MostTexts, Offset, OneStepOrMore, Option, steps_of
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.analysis.difference import Difference
    from rlpanel.analysis.response_clusters import ResponseCluster


# -- explain -------------------------------------------------------------------------------------------
# The questions for the causes of a step's change, and for clusters of nearly equal responses.


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


# -- differences ---------------------------------------------------------------------------------------
# The table of what is different between two sets of samples.


@question(
    description="What is different between two sets of samples, the largest effect first.",
    columns=(
        TableColumn("kind", "text", "number, label, missing, script, word, words or opening."),
        TableColumn("name", "text", "TableColumn, label = value, script, or text."),
        TableColumn("a", "number", "Mean or share in the first set."),
        TableColumn("b", "number", "Mean or share in the second set."),
        TableColumn("effect", "number", "a − b in standard deviations."),
        TableColumn("error", "number", "Standard error of the effect, clustered by group."),
        TableColumn("z", "number", "Effect divided by its standard error."),
        TableColumn("count_a", "integer", "Samples of the first set with the feature."),
        TableColumn("count_b", "integer", "Samples of the second set with the feature."),
        TableColumn("size_a", "integer", "Samples of the first set that were compared."),
        TableColumn("size_b", "integer", "Samples of the second set that were compared."),
        TableColumn("filter", "text", "Filter expression for such samples; empty if there is none."),
        TableColumn("uids_a", "texts", "Such samples of the first set, at most 200.", most=1),
        TableColumn("uids_b", "texts", "Such samples of the second set, at most 200.", most=1),
    ),
    about=(
        TableColumn("a", "text", "The first set."),
        TableColumn("b", "text", "The second set."),
        TableColumn("samples_a", "integer", "Number of samples of the first set."),
        TableColumn("samples_b", "integer", "Number of samples of the second set."),
        TableColumn("texts", "integer", "Number of responses that were read."),
        TableColumn("tried", "integer", "Number of things that were tested."),
    ),
    example="rlpanel contrast runs/exp1 50..60 1..10 --limit 5",
    agents="List what is different between two sets of samples: numbers, labels, words, openings.",
)
def contrast(
    run: RunData,
    a: A,
    b: B = None,
    *,
    exclude: Collection[str] = (),
    texts: MostTexts = 4000,
    limit: Limit = None,
    offset: Offset = 0,
) -> Table:
    """Return what is different between two sets of samples: numbers, labels, words and openings.

    Parameters
    ----------
    run : RunData
    a, b : int, slice, (int, int), str, RunData, or (RunData, one of these)
        By default ``b`` is the rest of the run.
    exclude : collection of str
        Columns not to compare.
    texts : int
        Maximum number of responses to read of each set.
    limit : int, optional
        Maximum number of differences; all by default.
    offset : int
        Number of differences to skip.

    Raises
    ------
    SettingError
        If a set is empty or no selection.
    FilterError
        If a filter is not valid.
    """
    from rlpanel.analysis.selection_contrast import contrast as contrast_sets
    from rlpanel.queries.sample_sets import contrast_sides

    first, other, used = contrast_sides(run, a, b)
    *_, found = contrast_sets(first, other, exclude={*exclude, *used}, texts=texts)
    about = {
        "a": first.name,
        "b": other.name,
        "samples_a": len(found.a.rows),
        "samples_b": len(found.b.rows),
        "texts": found.texts_total,
        "tried": found.columns_tried + found.features_tried,
    }
    attrs = {
        "samples": (len(found.a.rows), len(found.b.rows)),
        "texts": found.texts_total,
        "tried": about["tried"],
    }
    rows = [_row(difference) for difference in page(found.differences, offset, limit)]
    return contrast.table(rows, total=len(found.differences), offset=offset, about=about, attrs=attrs)


def _row(difference: Difference) -> dict[str, object]:
    tested = difference.tested
    return {
        **{name: getattr(tested, name) for name in ("a", "b", "effect", "error", "z")},
        **{name: getattr(difference, name) for name in ("kind", "name")},
        **{name: list(getattr(difference, name)) for name in ("uids_a", "uids_b")},
        **{name: getattr(difference, name) for name in ("count_a", "count_b", "size_a", "size_b")},
        "filter": difference.where,
    }


# -- bisect --------------------------------------------------------------------------------------------
# The question for the chain of changes that leads to a bad step.


Bad = Annotated[
    int | None,
    Option(
        "The bad step.", shown_default="the onset of the worst finding, else the largest change",
        complete="steps",
    ),
]  # fmt: skip
Number = Annotated[
    str,
    Option(
        "What went wrong: a number column, or a step metric that is a mean over samples or tokens.",
        chars=200, complete="sample_columns",
    ),
]  # fmt: skip


@question(
    description="The chain of changes that leads to a bad step, the first cause first, and what changed too.",
    columns=(
        TableColumn("role", "text", "link, target, nothing (explains nothing), unknown, or follows."),
        TableColumn("step", "integer", "First step after the change."),
        TableColumn("name", "text", "The number that changed."),
        TableColumn("place", "text", "Ranks or labels that carry it; empty for the whole run."),
        TableColumn("before", "number", "Its mean before."),
        TableColumn("after", "number", "Its mean after."),
        TableColumn("unit", "text", "Unit of the values; % for shares from 0 to 1."),
        TableColumn("error", "number", "Standard error of the difference."),
        TableColumn("z", "number", "Difference in standard errors."),
        TableColumn("share", "number", "Share of the target's change that it explains; null if unknown."),
        TableColumn("share_error", "number", "Standard error of that share."),
        TableColumn("of_next", "number", "Share of the next link's change that it explains."),
        TableColumn("within", "number", "The share by differences between samples of a group."),
        TableColumn("by", "text", "mix, slope or time: how the share is known."),
        TableColumn("sudden", "boolean", "Whether it is sudden; the onset of a slide is less exact."),
        TableColumn("count", "integer", "Samples that carry it, in the steps right after the change."),
        TableColumn("metric", "text", "Its column; empty if it has none."),
        TableColumn("filter", "text", "Filter expression for its place or values; may be empty."),
        TableColumn("uids", "texts", "Samples that carry it.", most=3),
    ),
    about=(
        RUN,
        SPLIT,
        TableColumn("number", "text", "The number that went wrong."),
        TableColumn("bad", "integer", "The bad step; null if there is none."),
        TableColumn("state", "text", "chain, alone (nothing explains it), noise (no change), or short."),
        TableColumn("sentence", "text", "The chain in one line, or why there is none."),
        TableColumn("removal", "text", "The smallest set of samples whose removal undoes the change."),
        TableColumn(
            "removal_filter", "text", "Filter for them in these steps; empty if only uids name them."
        ),
        TableColumn("removal_uids", "texts", "The most extreme of them.", most=3),
        TableColumn("unknown", "texts", "What the data cannot show."),
        TableColumn("tests", "integer", "Number of series that were tested."),
        TableColumn("steps", "integer", "Number of steps that were looked at."),
        TableColumn("samples", "integer", "Number of samples that were looked at."),
        TableColumn("least", "number", "Smallest change that would have been found, if there is none."),
    ),
    has_relation=False,  # it reads lines of the run
    example="rlpanel bisect runs/exp1 --bad 20",
    agents="Walk back from a bad step to the first change of the samples: cause, effects, samples.",
)
def bisect(run: RunData, *, bad: Bad = None, number: Number = "reward") -> Table:
    """Return the chain of changes that leads to a bad step, and what changed too.

    Texts of some samples are read.

    Parameters
    ----------
    run : RunData
    bad : int, optional
        The bad step; by default the onset of the worst finding on the number, else its largest change.
    number : str
        A number column, or a step metric that is a mean over samples or tokens.

    Raises
    ------
    SettingError
        If the run does not have the step or the number.
    """
    import time

    from rlpanel.bisect.bisection import Bisection
    from rlpanel.bisect.chain import bisect_run
    from rlpanel.findings.check import cached_findings
    from rlpanel.settings import FindingSettings

    now = time.time()
    split = run.snapshot.split
    settings = FindingSettings.from_environment()
    found = cached_findings(run.index, settings, now, split) if bad is None else ()
    *_, last = bisect_run(run.index, run.view, number, bad, found, now)
    assert isinstance(last, Bisection)
    rows = [_link_row(link) for link in (*last.links, *last.also)]
    removal = last.removal
    about: dict[str, Any] = {
        "run": run.name,
        "split": split,
        "sentence": last.sentence.text,
        "unknown": [each.text for each in last.unknown],
        "removal": last.removed.text if last.removed is not None else "",
        "removal_filter": removal.where if removal is not None else "",
        "removal_uids": list(run.snapshot.uids(removal.rows[:20])) if removal is not None else [],
    }
    about |= {name: getattr(last, name) for name in ("number", "bad", "state", "tests", "steps", "samples")}
    about["least"] = last.least if last.least == last.least else None
    return bisect.table(rows, total=len(rows), offset=0, about=about)


def _link_row(link: Any) -> dict[str, object]:
    names = ("role", "step", "name", "place", "before", "after", "unit", "error", "z", "share", "share_error")
    row = {name: getattr(link, name) for name in (*names, "of_next", "within", "by", "sudden", "count")}
    row = {
        name: None if isinstance(value, float) and value != value else value for name, value in row.items()
    }
    return row | {"metric": link.column, "filter": link.where, "uids": list(link.uids)}
