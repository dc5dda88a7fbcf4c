"""The table of a run's findings: what the rules find in its complete steps."""

from __future__ import annotations

import time

from rlpanel.queries.question import question
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import REMARKS, RUN, SPLIT, Table, TableColumn


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
