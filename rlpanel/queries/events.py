"""The tables of what happened: a run's events, its lines that are not samples, and what is new."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.number_text import utc_text
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, SPLIT, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.findings.engine.finding import Finding
    from rlpanel.store.snapshot.sample_places import BadLineAt
    from rlpanel.store.snapshot.snapshot import Snapshot


# -- events --------------------------------------------------------------------------------------------
# The table of a run's events: restarts, evaluations, what the trainer reports, and notes on steps.


@question(
    description="Events of a run: restarts, evaluations, the trainer's events, and notes on steps.",
    columns=(
        TableColumn("step", "integer", "The step at which it happened."),
        TableColumn("kind", "text", "resume, evaluation, event (the trainer reports it) or note."),
        TableColumn("text", "text", "What happened."),
        TableColumn("time", "text", "When it was written, in UTC (ISO 8601); null if it is not known."),
    ),
    about=(
        RUN,
        TableColumn("unread", "texts", "What of the events could not be read."),
    ),
    frame=("step", "kind", "text", "time=seconds"),
    relation=("step", "kind", "text", "time"),
    agents="What happened at which step besides training: restarts, evaluations, configuration changes, and "
    "what people noted, such as “lowered lr”.",
    example="rlpanel events runs/exp1",
)
def events(run: RunData, *, limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the events of a run by step.

    Parameters
    ----------
    run : RunData
    limit : int, optional
        Maximum number of events; all by default.
    offset : int
        Number of events to skip.
    """
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.run_events import run_events

    found, unread = run_events(run.snapshot, Notes(run.path), run.snapshot.constants.logged, run.path)
    listed = page(found, offset, limit)
    values = {
        "step": [each.step for each in listed],
        "kind": [each.kind for each in listed],
        "text": [each.text for each in listed],
        "time": [None if each.time is None else utc_text(each.time) for each in listed],
        "seconds": [each.time for each in listed],
    }
    about = {"run": run.name, "unread": unread}
    return events.table(values, total=len(found), offset=offset, about=about)


# -- bad lines -----------------------------------------------------------------------------------------
# The table of a run's lines that are not samples, with file, line and reason.


@question(
    name="errors",
    description="Lines of a run's files that are not samples, in the order of the files.",
    columns=(
        TableColumn("file", "text", "The file, relative to the run's folder."),
        TableColumn("line", "integer", "Number of the line, from 1."),
        TableColumn("offset", "integer", "Position of the line in its file.", "bytes"),
        TableColumn("reason", "text", "The reason why it is not a sample."),
    ),
    about=(
        RUN,
        TableColumn("bad", "integer", "Number of all bad lines; of each file the first ones are listed."),
        TableColumn("unread", "objects", "Files and folders that cannot be read now, with the reason."),
    ),
    has_split=False,
    example="rlpanel errors runs/exp1",
    agents="List lines of the log that are not samples, with file, line and reason, and unreadable files.",
)
def bad_lines(run: RunData, *, limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the lines of a run's files that are not samples, with file, line and reason.

    Parameters
    ----------
    run : RunData
    limit : int, optional
        Maximum number of lines; all that are listed by default.
    offset : int
        Number of lines to skip.
    """
    snapshot = run.snapshot
    names = ("file", "line", "offset", "reason")
    listed = page(snapshot.bad_lines, offset, limit)
    rows = [{name: getattr(line, name) for name in names} for line in listed]
    about = {
        "run": run.name,
        "bad": snapshot.bad_count,
        "unread": [{"file": item.file, "reason": item.reason} for item in snapshot.unread],
    }
    return bad_lines.table(rows, total=len(snapshot.bad_lines), offset=offset, about=about)


# -- news ----------------------------------------------------------------------------------------------
# The table of what is new in a run since a step: findings, errors, events and complete steps.


Since = Annotated[
    int,
    Option(
        "The newest complete step that is known already.",
        "The step that you know already: about.newest of the last answer.",
        metavar="SINCE",
        complete="steps",
    ),
]
#: Order of the rows; the steps come last.
KINDS = ("new", "ended", "ongoing", "error", "event", "step")
#: Most complete steps that have a row, the newest ones.
MAX_STEPS = 20


@question(
    description="What is new in a run since a step: new, ended and ongoing findings, errors, events, steps.",
    columns=(
        TableColumn(
            "kind",
            "text",
            "new: a finding that began after the step; ended: one that went on at the step and does not any "
            "more; ongoing: one that began before; error: lines that are not samples; event; step: a "
            "complete step.",
        ),
        TableColumn(
            "step",
            "integer",
            "Onset of a new or ongoing finding, last step of an ended one, else the step; null for errors.",
        ),
        TableColumn("severity", "text", "Severity of a finding."),
        TableColumn("title", "text", "Title of the rule, kind of the event, or file of the error."),
        TableColumn("sentence", "text", "What happened."),
        TableColumn("filter", "text", "Filter expression for the affected samples of a finding."),
        TableColumn("uid", "text", "An example sample of a finding."),
    ),
    others="Further columns are the main numbers of a complete step, such as reward_mean.",
    about=(
        RUN,
        SPLIT,
        TableColumn("since", "integer", "The step that was given."),
        TableColumn("newest", "integer", "The newest complete step; give it as the step the next time."),
        TableColumn("steps", "integer", "Number of complete steps after the given one."),
        TableColumn("steps_without_row", "integer", "The earlier ones of these steps, which have no row."),
        TableColumn("samples", "integer", "Number of samples that count in steps after the given one."),
        TableColumn("counts", "object", "Number of rows of each kind, without those that a door leaves out."),
        TableColumn("bad", "integer", "Number of all lines of the run that are not samples."),
        TableColumn(
            "bad_unplaced",
            "integer",
            "Bad lines whose place was not kept: whether they are new is not known. Of each file the first "
            "ones are kept.",
        ),
        TableColumn("unread", "objects", "Files that cannot be read now, with the reason."),
    ),
    has_relation=False,
    example="rlpanel news runs/exp1 60",
    agents="Say what is new since a step: new, ended and ongoing findings, errors, events, and new steps "
    "with their main numbers. One call instead of findings, errors and steps.",
)
def news(run: RunData, since: Since) -> Table:
    """Return what is new in a run since a step, the findings first and the newest steps last.

    Rules need some steps, so a finding may be found only long after its onset. Those that began before the
    given step and go on are therefore listed as well.

    Parameters
    ----------
    run : RunData
    since : int
        The newest complete step that is known already.
    """
    from rlpanel.findings.check import cached_findings, raised_findings
    from rlpanel.queries.steps import steps
    from rlpanel.settings import FindingSettings
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.run_events import run_events
    from rlpanel.store.snapshot.snapshot import newest_complete_step

    snapshot, now = run.snapshot, time.time()
    newest = newest_complete_step(snapshot, now)
    numbers = snapshot.steps.values
    after = numbers[(numbers > since) & (numbers <= (since if newest is None else newest))]
    found = cached_findings(run.index, FindingSettings.from_environment(), now, snapshot.split)
    rows = [_finding_row(finding, kind, step) for finding, kind, step in _sorted(found, since)]
    rows += [
        _finding_row(each.finding, "ended", each.ended)
        for each in raised_findings(run.index, snapshot.split).by_key.values()
        if each.ended is not None and each.ended > since and each.finding.key not in _keys(found)
    ]
    errors, unplaced = _new_errors(snapshot, since)
    rows += errors
    listed, unread_events = run_events(snapshot, Notes(run.path), snapshot.constants.logged, run.path)
    rows += [
        {"kind": "event", "step": each.step, "title": each.kind, "sentence": each.text}
        for each in listed
        if each.step > since
    ]
    listed_steps = set(after[-MAX_STEPS:].tolist())
    told = steps(run, last=int((numbers >= min(listed_steps, default=since)).sum()))
    measured = [column for column in told.columns if column.name not in ("step", "complete")]
    rows += [{"kind": "step", **row} for row in told.rows if row["step"] in listed_steps]
    rows.sort(key=lambda row: KINDS.index(str(row["kind"])))
    unread = [{"file": item.file, "reason": item.reason} for item in snapshot.unread]
    unread += [{"file": "events", "reason": reason} for reason in unread_events]
    about = {
        "run": run.name,
        "split": snapshot.split,
        "since": since,
        "newest": newest,
        "steps": len(after),
        "steps_without_row": len(after) - len(listed_steps),
        "samples": int(snapshot.steps.samples[numbers > since].sum()),
        "counts": dict(Counter(str(row["kind"]) for row in rows)),
        "bad": snapshot.bad_count,
        "bad_unplaced": unplaced,
        "unread": unread,
    }
    names = [column.name for column in (*news.spec.columns, *measured)]
    values = {name: [row.get(name) for row in rows] for name in names}
    return news.table(values, others=measured if listed_steps else (), about=about)


def _keys(found: list[Finding]) -> set[str]:
    """Return the keys of findings and of their symptoms."""
    return {each.key for finding in found for each in (finding, *finding.symptoms)}


def _sorted(found: list[Finding], since: int) -> Iterator[tuple[Finding, str, int | None]]:
    """Yield findings that are new, have ended since a step, or go on, with their kind and step."""
    for finding in found:
        if finding.onset is not None and finding.onset > since:
            yield finding, "new", finding.onset
        elif finding.ongoing or finding.last is None:
            yield finding, "ongoing", finding.onset
        elif finding.last >= since:
            yield finding, "ended", finding.last


def _finding_row(finding: Finding, kind: str, step: int | None) -> dict[str, Any]:
    return {
        "kind": kind,
        "step": step,
        "severity": finding.severity,
        "title": finding.title,
        "sentence": finding.sentence,
        "filter": finding.where,
        "uid": finding.uid,
    }


def _new_errors(snapshot: Snapshot, since: int) -> tuple[list[dict[str, Any]], int]:
    """Return a row for each file with bad lines after the samples that are known, and how many have no place.

    A line has no step if it is no sample. It is new if it stands after the last line of its file whose
    sample has the given step or an earlier one.
    """
    import numpy as np

    known = snapshot.metadata("step") <= since
    file, offset = snapshot.metadata("file")[known], snapshot.metadata("offset")[known]
    ends = np.full(len(snapshot.files), -1, np.int64)
    np.maximum.at(ends, file, offset)
    end_of = dict(zip(snapshot.files, ends.tolist(), strict=True))
    by_file: dict[str, list[BadLineAt]] = {}
    for line in snapshot.bad_lines:
        if line.offset > end_of.get(line.file, -1):
            by_file.setdefault(line.file, []).append(line)
    rows = []
    for name, lines in by_file.items():
        first = lines[0]
        place = f"line {first.line}" if first.line else f"byte {first.offset}"
        many = f"{len(lines)} lines are not samples, the first: " if len(lines) > 1 else ""
        rows.append({"kind": "error", "title": name, "sentence": f"{many}{place}: {first.reason}"})
    return rows, snapshot.bad_count - len(snapshot.bad_lines)
