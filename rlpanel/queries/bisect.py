"""The question for the chain of changes that leads to a bad step."""

from __future__ import annotations

from typing import Annotated, Any

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn

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
    rows = [_row(link) for link in (*last.links, *last.also)]
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


def _row(link: Any) -> dict[str, object]:
    names = ("role", "step", "name", "place", "before", "after", "unit", "error", "z", "share", "share_error")
    row = {name: getattr(link, name) for name in (*names, "of_next", "within", "by", "sudden", "count")}
    row = {
        name: None if isinstance(value, float) and value != value else value for name, value in row.items()
    }
    return row | {"metric": link.column, "filter": link.where, "uids": list(link.uids)}
