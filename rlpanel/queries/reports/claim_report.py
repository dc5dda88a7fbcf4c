"""The tables of a run's reports, and of tags and notes; the writing of a claim or a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.number_text import utc_text
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Option
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.investigations.claim_marks import EvaluationProgress, MarkedEntry
    from rlpanel.sources.files.file_access import AnyPath
    from rlpanel.store.query.notes_beside_log import Note


# -- claim report --------------------------------------------------------------------------------------
# The table of a run's reports: each claim is evaluated and marked, and the writing of one claim.


Name = Annotated[str, Option("Only the report of this name.", chars=80)]


@question(
    description="The reports of a run: passages of text, and claims that are evaluated when it is asked.",
    columns=(
        TableColumn("report", "text", "Name of the report."),
        TableColumn("id", "text", "Name of the entry, by which it is replaced or removed."),
        TableColumn("kind", "text", "text, query, number, finding or quotation."),
        TableColumn("mark", "text", "holds, changed, broken, or not evaluated; null for a passage of text."),
        TableColumn("text", "text", "Markdown of the passage, or the sentence that the claim supports."),
        TableColumn(
            "about", "text", "The number, question, rule or text that is claimed; null for a passage."
        ),
        TableColumn("expected", "text", "The claimed value."),
        TableColumn("found", "text", "The value that the run has now; null if the claim is broken."),
        TableColumn("reason", "text", "What is different, or why it cannot be evaluated."),
        TableColumn("link", "text", "Part of the board's address behind the host."),
        TableColumn("evidence", "texts", "Measured numbers, the quotation with its surroundings, or rows."),
        TableColumn("author", "text", "agent or person."),
        TableColumn("time", "text", "Time of writing, in UTC (ISO 8601); empty if it was not written down."),
    ),
    about=(
        RUN,
        TableColumn("path", "text", "The run's folder."),
        TableColumn("reports", "texts", "Names of all reports."),
        TableColumn("holds", "integer", "Number of claims that hold."),
        TableColumn("changed", "integer", "Number of claims with another value than claimed."),
        TableColumn("broken", "integer", "Number of claims that cannot be evaluated any more."),
        TableColumn("not_evaluated", "integer", "Number of claims beyond the limits of one evaluation."),
        TableColumn("problems", "texts", "Lines and files of reports that were not read, with the reason."),
        TableColumn("file", "text", "The file that was written; null if nothing was written."),
    ),
    frame=("report", "id", "kind", "mark", "about", "expected", "found", "reason", "text", "link"),
    has_relation=False,  # it evaluates all claims
    has_split=False,
    agents="Evaluate the claims of a run's reports: each holds, has changed (both values), or is broken.",
)
def report(run: RunData, name: Name = "", *, limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the entries of a run's reports, with a mark for each claim.

    Parameters
    ----------
    run : RunData
    name : str
        Only the report of this name; all by default.
    limit : int, optional
        Most entries; all by default. All claims are evaluated and counted.
    offset : int
        Number of entries to skip.

    Raises
    ------
    SettingError
        If there is no report of this name.
    """
    *_, last = evaluated(run, name)
    return report_table(run, last, limit=limit, offset=offset)


def evaluated(run: RunData, name: str = "", root: AnyPath | None = None) -> Iterator[EvaluationProgress]:
    """Evaluate the claims of a run's reports and yield the progress; the last one has the marks.

    Parameters
    ----------
    run : RunData
    name : str
        Only the report of this name.
    root : path, optional
        Folder below which other runs are found.

    Raises
    ------
    SettingError
        If there is no report of this name.
    """
    from rlpanel.investigations.claim_marks import evaluate
    from rlpanel.investigations.report_file import ReportFile
    from rlpanel.queries.reports.claim_source import ClaimSource
    from rlpanel.queries.run_columns import similar

    entries = ReportFile(run.path).entries()
    names = {entry.report for entry in entries}
    if name and name not in names:
        raise SettingError(f"the run has no report {name[:80]!r}{similar(name, names)}")
    chosen = [entry for entry in entries if name in ("", entry.report)]
    return evaluate(ClaimSource(run, root), chosen)


def report_table(
    run: RunData,
    found: EvaluationProgress,
    *,
    limit: int | None = None,
    offset: int = 0,
    file: str | None = None,
) -> Table:
    """Return evaluated entries as a table."""
    from rlpanel.investigations.report_file import ReportFile

    stored = ReportFile(run.path)
    names = list(dict.fromkeys(entry.report for entry in stored.entries()))
    rows = [_row(each) for each in page(found.entries, offset, limit)]
    about: dict[str, Any] = {
        "run": run.name,
        "path": str(run.path),
        "reports": names,
        **{mark.replace(" ", "_"): count for mark, count in found.counts.items()},
        "problems": list(stored.problems),
        "file": file,
    }
    return report.table(rows, total=len(found.entries), offset=offset, about=about)


def add_entry(run: RunData, kind: str, **parts: Any) -> Table:
    """Write a passage or a claim, and return it with its mark as a table of one row.

    Parameters
    ----------
    run : RunData
    kind : str
        ``text``, ``query``, ``number``, ``finding`` or ``quotation``.
    **parts
        As `rlpanel.investigations.report_file.new_entry`: report, text, claim, other_run, split, author, and
        the identifier of the entry to replace. A claim without a value gets that of the run.

    Raises
    ------
    SettingError
        If a part is not valid, the claim does not hold, or no folder is writable.
    """
    from rlpanel.investigations.claim_marks import evaluate, settle
    from rlpanel.investigations.report_file import ReportFile, new_entry
    from rlpanel.queries.reports.claim_source import ClaimSource

    source = ClaimSource(run)
    entry = settle(source, new_entry(kind, **parts))
    path = ReportFile(run.path).write(entry)
    *_, last = evaluate(source, [entry])
    return report_table(run, last, file=str(path))


def remove_entry(run: RunData, identifier: str) -> Table:
    """Remove an entry, and return a table without rows.

    Raises
    ------
    SettingError
        If there is no such entry, or no folder is writable.
    """
    from rlpanel.investigations.claim_marks import EvaluationProgress
    from rlpanel.investigations.report_file import ReportFile

    path = ReportFile(run.path).remove(identifier)
    return report_table(run, EvaluationProgress(0, 0), file=str(path))


def _row(each: MarkedEntry) -> dict[str, Any]:
    from rlpanel.investigations.claim_marks import about_text

    entry = each.entry
    evidence: Sequence[str] = [text for _, text in each.evidence]
    return {
        "report": entry.report,
        "id": entry.id,
        "kind": entry.kind,
        "mark": each.mark or None,
        "text": entry.text,
        "about": about_text(entry) or None,
        "expected": each.expected or None,
        "found": each.found or None,
        "reason": each.reason or None,
        "link": each.link or None,
        "evidence": evidence,
        "author": entry.author or None,
        "time": utc_text(entry.time) if entry.time else "",
    }


# -- notes ---------------------------------------------------------------------------------------------
# The table of tags and notes that viewers added to samples, and the writing of one.


@question(
    description="Tags and notes that viewers added to samples, the newest first.",
    columns=(
        TableColumn("uid", "text", "The sample, or step:412 for a note on a step."),
        TableColumn("tag", "text", "Its tag; null if it has none."),
        TableColumn("note", "text", "Its note; null if it has none."),
        TableColumn("time", "text", "Time of the last change, in UTC (ISO 8601)."),
    ),
    about=(
        RUN,
        TableColumn("file", "text", "The file that was written; null if nothing was written."),
    ),
    frame=("uid", "tag=logged_tag", "note=logged_note", "time=seconds"),
    relation=("uid", "tag", "note", "time"),
    agents="List the tags and notes that people wrote about samples and steps, the newest first.",
    example="rlpanel notes runs/exp1",
)
def notes(run: RunData, *, limit: Limit = None, offset: Offset = 0, newest_first: bool = True) -> Table:
    """Return the tags and notes of a run's samples, the newest first.

    Parameters
    ----------
    run : RunData
    limit : int, optional
        Maximum number of samples; all by default.
    offset : int
        Number of samples to skip.
    newest_first : bool
        By default sorted by the time of the last change; otherwise by that of the first one.
    """
    from rlpanel.store.query.notes_beside_log import Notes

    listed = Notes(run.path).all()
    if newest_first:
        listed.sort(key=lambda note: -note.time)
    return _table(run, page(listed, offset, limit), total=len(listed), offset=offset)


def annotate(run: RunData, uid: str, *, tag: str | None = None, note: str | None = None) -> Table:
    """Write a tag or a note of a sample, and return them as a table of one row.

    Parameters
    ----------
    run : RunData
    uid : str
        Of a sample, or ``step:412`` for a step.
    tag, note : str, optional
        None keeps what there is; an empty text deletes it.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    SettingError
        If no folder is writable.
    """
    from rlpanel.store.query.notes_beside_log import Notes
    from rlpanel.store.query.run_events import note_step

    if note_step(uid) is None:  # a note on a step needs no sample
        uid = run.snapshot.uid(run.snapshot.row(uid))
    store = Notes(run.path)
    before = store.of(uid)
    try:
        path = store.write(uid, before.tag if tag is None else tag, before.note if note is None else note)
    except RLPanelError:
        raise
    except OSError as error:
        raise SettingError(f"the note cannot be written: {error.strerror}") from error
    written = [note for note in store.all() if note.uid == uid]
    return _table(run, written, total=len(written), file=str(path))


def _table(
    run: RunData, listed: Sequence[Note], *, total: int, offset: int = 0, file: str | None = None
) -> Table:
    values = {
        "uid": [note.uid for note in listed],
        "tag": [note.tag or None for note in listed],
        "note": [note.note or None for note in listed],
        "time": [utc_text(note.time) for note in listed],
        "logged_tag": [note.tag for note in listed],
        "logged_note": [note.note for note in listed],
        "seconds": [note.time for note in listed],
    }
    return notes.table(values, total=total, offset=offset, about={"run": run.name, "file": file})
