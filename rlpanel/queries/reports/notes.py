"""The table of tags and notes that viewers added to samples, and the writing of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.number_text import utc_text
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page

if TYPE_CHECKING:
    from rlpanel.store.query.sample_notes import Note


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
    from rlpanel.store.query.sample_notes import Notes

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
    from rlpanel.store.query.run_events import note_step
    from rlpanel.store.query.sample_notes import Notes

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
