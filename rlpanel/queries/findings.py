"""The tables of a run's findings and of its lint rules: what its complete steps and lines show."""

from __future__ import annotations

import time
from typing import Annotated

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import REMARKS, RUN, SPLIT, Table, TableColumn

# -- findings ------------------------------------------------------------------------------------------
# The table of a run's findings: what the rules find in its complete steps.


@question(
    description="What the rules find in the complete steps of a run: alarms first, then the newest.",
    columns=(
        TableColumn(
            "rule", "text", "Name of the rule; rule_failed for one that failed, which subject names."
        ),
        TableColumn("title", "text", "Title of the rule.", full=True),
        TableColumn("subject", "text", "Distinguishes findings of a rule, such as a column or a rank."),
        TableColumn(
            "severity",
            "text",
            "alarm: it continues and harms training; warning: it deserves attention; info: it has ended.",
        ),
        TableColumn("sentence", "text", "What happened, since when and where."),
        TableColumn("evidence", "texts", "Measured numbers, one sentence each."),
        TableColumn("advice", "text", "What to check next."),
        TableColumn("steps", "integer", "Number of affected steps."),
        TableColumn("onset", "integer", "First affected step; null if it is about the whole run."),
        TableColumn("last", "integer", "Last affected step."),
        TableColumn("ongoing", "boolean", "Whether the newest complete steps are affected."),
        TableColumn("worst", "integer", "The most affected step."),
        TableColumn("rank", "integer", "The only affected rank; null if it is not limited to one."),
        TableColumn("category", "text", "The only affected category; empty if it is not limited to one."),
        TableColumn("metric", "text", "The curve that shows the problem."),
        TableColumn("filter", "text", "Filter expression for the affected samples."),
        TableColumn("sort", "text", "Sort order that shows the cause first."),
        TableColumn("uid", "text", "An example sample."),
        TableColumn("symptoms", "objects", "Findings with the same cause, with the same keys."),
    ),
    about=(
        RUN,
        TableColumn("path", "text", "The run's folder.", full=True),
        SPLIT,
        TableColumn("steps", "integer", "Number of complete steps that were checked."),
        TableColumn("unread", "objects", "Files that were not read, with reasons."),
        REMARKS,
    ),
    frame=(
        *("rule", "severity", "onset", "last", "ongoing", "rank", "category", "sentence", "metric", "filter"),
        *("uid", "finding"),
    ),
    relation=(
        *("rule", "severity", "title", "sentence", "advice", "steps", "onset", "last", "ongoing", "worst"),
        *("rank", "category", "metric", "filter", "uid"),
    ),
    example="rlpanel findings runs/exp1",
    agents="List what rules find wrong in a run: start here. Alarms first, with evidence and advice.",
)
def findings(run: RunData) -> Table:
    """Return what the rules find in the complete steps of a run; unlike `check`, it does not fail.

    The thresholds are those of the environment.

    Parameters
    ----------
    run : RunData
    """
    from rlpanel.findings.check import cached_findings
    from rlpanel.findings.engine.finding import finding_dict
    from rlpanel.settings import FindingSettings
    from rlpanel.store.snapshot.remarks import listed_remarks
    from rlpanel.store.snapshot.snapshot import newest_complete_step

    view, now = run.view, time.time()
    snapshot = view.snapshot
    found = cached_findings(run.index, FindingSettings.from_environment(), now, snapshot.split)
    newest = newest_complete_step(snapshot, now)
    about = {
        "run": snapshot.name,
        "path": str(run.path),
        "split": snapshot.split,
        "steps": 0 if newest is None else int((snapshot.steps.values <= newest).sum()),
        "unread": [{"file": skipped.file, "reason": skipped.reason} for skipped in snapshot.unread],
        "remarks": listed_remarks(snapshot.remarks),
    }
    rows = [{**finding_dict(finding), "finding": finding} for finding in found]
    return findings.table(rows, about=about)


# -- lint ----------------------------------------------------------------------------------------------
# The table of a run's lint rules: passed, failed, or what to log so that they can be checked.


PerStep = Annotated[
    int | None,
    Option(
        help="Samples of each step that are read; 0 reads all.",
        agents="Samples of each step whose lines are read; the others are checked by their columns only.",
        min=0,
        max=100_000,
        tool_default=64,
        none=0,
    ),
]


@question(
    description="What lint rules prove for each sample: failed first, then passed, then not checkable.",
    columns=(
        TableColumn("rule", "text", "Name of the rule."),
        TableColumn("title", "text", "The statement that holds if the rule passes."),
        TableColumn("part", "text", "What the rule is about, such as masks and turns."),
        TableColumn("state", "text", "failed, passed, or not checkable."),
        TableColumn("samples", "integer", "Number of samples that the rule looked at."),
        TableColumn("checked", "integer", "Number of samples that log what the rule needs."),
        TableColumn("failed", "integer", "Number of samples that fail."),
        TableColumn("share", "number", "Share of the checked samples that fail."),
        TableColumn("first_step", "integer", "First step with a sample that fails."),
        TableColumn("log", "text", "What to log so that the rule can check all samples; empty if it can."),
        TableColumn("remark", "text", "What to know beyond the state, such as the formula that fits."),
        TableColumn("formula", "text", "When a sample fails."),
        TableColumn("examples", "objects", "The first samples that fail: uid, file, line, step, detail."),
    ),
    about=(
        RUN,
        TableColumn("path", "text", "The run's folder."),
        SPLIT,
        TableColumn("samples", "integer", "Number of samples of the split."),
        TableColumn("read", "integer", "Number of samples whose lines were read."),
        TableColumn("unreadable", "integer", "Number of samples whose line cannot be read any more."),
        TableColumn(
            "tokenizer", "text", "Why the run's tokenizer is not used; empty if it is, or without one."
        ),
        TableColumn("unread", "objects", "Files that were not read, with reasons."),
        REMARKS,
    ),
    frame=("rule", "state", "checked", "failed", "share", "first_step", "title", "log", "remark", "examples"),
    has_relation=False,
    agents="Prove that what was trained is what was sampled: masks, tokens, groups, advantages, logprobs. "
    "Failed rules name samples; rules that are not checkable say what to log.",
)
def lint(run: RunData, per_step: PerStep = None) -> Table:
    """Return what each lint rule proves, and the samples that fail.

    Each line is read once; a later call reads the new ones only.

    Parameters
    ----------
    run : RunData
    per_step : int, optional
        Samples of each step that are read; all by default.
    """
    from rlpanel.lint.linter import linter_of
    from rlpanel.store.snapshot.remarks import listed_remarks

    snapshot = run.snapshot
    *_, last = linter_of(run.index, snapshot.split, per_step).update(run.view, time.time())
    about = {
        "run": snapshot.name,
        "path": str(run.path),
        "split": snapshot.split,
        "samples": last.samples,
        "read": last.read,
        "unreadable": last.unread,
        "tokenizer": last.tokenizer,
        "unread": [{"file": skipped.file, "reason": skipped.reason} for skipped in snapshot.unread],
        "remarks": listed_remarks(snapshot.remarks),
    }
    return lint.table([result.as_dict() for result in last.results], about=about)
