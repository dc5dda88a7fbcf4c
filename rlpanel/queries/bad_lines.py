"""The table of a run's lines that are not samples, with file, line and reason."""

from __future__ import annotations

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page


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
