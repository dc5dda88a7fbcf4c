"""The table of a run's events: restarts, evaluations, what the trainer reports, and notes on steps."""

from __future__ import annotations

from rlpanel.number_text import utc_text
from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page


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
    from rlpanel.store.query.run_events import run_events
    from rlpanel.store.query.sample_notes import Notes

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
