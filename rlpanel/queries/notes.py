"""The table of tags and notes that viewers added to samples, and the writing of one."""

from __future__ import annotations

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page
from rlpanel.time_text import utc_text


@question(
    description="Tags and notes that viewers added to samples, the newest first.",
    columns=(
        TableColumn("uid", "text", "The sample."),
        TableColumn("tag", "text", "Its tag; null if it has none."),
        TableColumn("note", "text", "Its note; null if it has none."),
        TableColumn("time", "text", "Time of the last change, in UTC (ISO 8601)."),
    ),
    about=(
        RUN,
        TableColumn("file", "text", "The file that was written; null if nothing was written."),
    ),
    has_tool=False,
    example="rlpanel notes runs/exp1",
)
def notes(run: RunData, *, limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the tags and notes of a run's samples, the newest first."""
    return _table(run, limit, offset)


def annotate(run: RunData, uid: str, *, tag: str | None = None, note: str | None = None) -> Table:
    """Write a tag or a note of a sample, and return them as a table of one row.

    Parameters
    ----------
    run : RunData
    uid : str
    tag, note : str, optional
        None keeps what there is; an empty text deletes it.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    SettingError
        If no folder is writable.
    """
    from rlpanel.store.query.sample_notes import Notes

    uid = run.snapshot.uid(run.snapshot.row(uid))
    store = Notes(run.path)
    before = store.of(uid)
    try:
        path = store.write(uid, before.tag if tag is None else tag, before.note if note is None else note)
    except RLPanelError:
        raise
    except OSError as error:
        raise SettingError(f"the note cannot be written: {error.strerror}") from error
    return _table(run, None, 0, only=uid, file=str(path))


def _table(run: RunData, limit: int | None, offset: int, *, only: str = "", file: str | None = None) -> Table:
    from rlpanel.store.query.sample_notes import Notes

    listed = [note for note in Notes(run.path).all() if not only or note.uid == only]
    listed.sort(key=lambda note: -note.time)
    rows = [
        {"uid": note.uid, "tag": note.tag or None, "note": note.note or None, "time": utc_text(note.time)}
        for note in page(listed, offset, limit)
    ]
    return notes.table(rows, total=len(listed), offset=offset, about={"run": run.name, "file": file})
