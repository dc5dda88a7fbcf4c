"""The rollouts that are being generated, from live files beside the log."""

from __future__ import annotations

from dataclasses import asdict

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, Table, TableColumn, page


@question(
    description="Rollouts that are being generated, the slowest first; lost ones stand last.",
    columns=(
        TableColumn("rollout", "text", "Id of the rollout."),
        TableColumn("step", "integer", "Step of the batch that waits for it."),
        TableColumn("phase", "text", "queue, generation, tool, environment or score, as logged."),
        TableColumn("turns", "integer", "Turns that the policy has finished."),
        TableColumn("tokens", "integer", "Tokens that the policy wrote so far."),
        TableColumn("seconds", "number", "Time since its begin.", "seconds"),
        TableColumn("silent", "number", "Time since its last turn or change.", "seconds"),
        TableColumn("worker", "text", "Worker that generates it."),
        TableColumn("agent", "text", "Agent."),
        TableColumn("env", "text", "Environment."),
        TableColumn("group", "text", "Group."),
        TableColumn("lost", "text", "Why it will not end; null while its recorder lives."),
        TableColumn("text", "text", "Its last words."),
    ),
    about=(
        RUN,
        TableColumn("in_flight", "integer", "Number of rollouts in flight, without lost ones."),
        TableColumn("lost", "integer", "Number of rollouts whose recorder died."),
        TableColumn("phases", "object", "Number of rollouts by phase."),
        TableColumn("batches", "objects", "Per step: waits, done and the seconds of the slowest."),
        TableColumn("idle", "object", "Newest logged waiting times of engine and trainer, by scalar."),
        TableColumn("files", "integer", "Number of live files; 0 if the run logs none."),
        TableColumn("notes", "texts", "What could not be read, and what to log."),
    ),
    frame=(
        *("rollout", "step", "phase", "turns", "tokens", "seconds", "silent", "worker", "agent", "lost"),
        "text",
    ),
    has_relation=False,  # it is about now, not about the log
    has_split=False,
    example="rlpanel in-flight runs/exp1 --limit 20",
    agents="List rollouts that are being generated now, the slowest first, and what each batch waits for.",
)
def in_flight(run: RunData, *, limit: Limit = None, offset: Offset = 0) -> Table:
    """Return the rollouts in flight, the slowest first.

    Parameters
    ----------
    run : RunData
    limit : int, optional
        Maximum number of rows; all by default.
    offset : int
        Number of rows to skip.
    """
    import time

    from rlpanel.sources.live.live_file_reader import LiveFileReader
    from rlpanel.store.query.flight import in_flight_of

    now = time.time()
    state = LiveFileReader(run.path).read(now)
    found = in_flight_of(run.snapshot, state, now)
    notes = list(found.remarks)
    if not state.files:
        notes.append(
            "The run has no live files; log RolloutWriter.begin, turn and end to see rollouts in flight."
        )
    rows = [
        {
            "rollout": each.id,
            "step": each.step,
            "phase": each.phase or None,
            "turns": each.turns,
            "tokens": each.tokens,
            "seconds": each.seconds(now),
            "silent": None if each.updated is None else max(0.0, now - each.updated),
            "worker": each.worker or None,
            "agent": each.agent or None,
            "env": each.env or None,
            "group": each.group or None,
            "lost": each.lost or None,
            "text": each.text or None,
        }
        for each in page(found.rollouts, offset, limit)
    ]
    about = {
        "run": run.name,
        "in_flight": found.total,
        "lost": found.lost,
        "phases": found.phases,
        "batches": [asdict(batch) for batch in found.batches],
        "idle": found.idle,
        "files": state.files,
        "notes": notes,
    }
    return in_flight.table(rows, total=len(found.rollouts), offset=offset, about=about)
