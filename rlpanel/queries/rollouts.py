"""The tree of one rollout, and the rollouts that are being generated."""

from __future__ import annotations

from dataclasses import asdict

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Limit, Offset, Uid
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, STEP, Table, TableColumn, page

# -- tree ----------------------------------------------------------------------------------------------
# The tree of one rollout: sub-agents, branches, compactions, retries and turns of its episode.


@question(
    description="The rows of a sample's episode as a tree: each row stands behind its parent.",
    columns=(
        TableColumn("uid", "text", "Uid of the row."),
        TableColumn("parent", "text", "Uid of its parent; null for a root."),
        TableColumn("node", "text", "Branch, trajectory or agent of the row, as logged."),
        TableColumn("agent", "text", "Agent that wrote it."),
        TableColumn("kind", "text", "root, sub-agent, branch, compaction, retry or turn."),
        TableColumn("depth", "integer", "Number of rows above it."),
        TableColumn("logged", "boolean", "Whether the log names its parent; else shared messages do."),
        TableColumn("shared", "integer", "Messages that it shares with its parent; characters of a text."),
        TableColumn("turns", "integer", "Turns of the policy that the parent does not have."),
        TableColumn("first_turn", "integer", "The first of these turns, from 1."),
        TableColumn("tokens", "integer", "Response tokens."),
        TableColumn("trained_tokens", "integer", "Response tokens that the policy's loss counts."),
        TableColumn("below_tokens", "number", "Response tokens of the row and of all rows below it."),
        TableColumn("reward", "number", "Reward of the row."),
        TableColumn("advantage", "number", "Advantage, or the mean over its trained tokens."),
        TableColumn("seconds", "number", "Time of the row.", "seconds"),
        TableColumn("start", "number", "Begin of the row in Unix time.", "seconds"),
        TableColumn("cost", "number", "Cost of the row as logged.", "dollars"),
        TableColumn("below_cost", "number", "Cost of the row and of all rows below it.", "dollars"),
        TableColumn("status", "text", "Status, such as ok or discarded."),
        TableColumn("status_reason", "text", "Reason for the status."),
        TableColumn("split", "text", "Split of the row."),
        TableColumn("text", "text", "Beginning of its own words."),
        TableColumn("messages", "objects", "Messages between agents: type, uid and turn of the other row."),
    ),
    about=(
        RUN,
        TableColumn("episode", "text", "Name of the episode; null if the log names none."),
        STEP,
        TableColumn("rows", "integer", "Number of rows of the episode."),
        TableColumn("notes", "texts", "Faults of the tree, and what was inferred."),
    ),
    frame=(
        *("node", "kind", "depth", "agent", "turns", "tokens", "trained_tokens", "reward", "advantage"),
        *("seconds", "status", "parent", "uid"),
    ),
    has_split=False,
    example="rlpanel tree runs/exp1 rollout_data_rank_0.jsonl:0",
    agents="Show sub-agents, branches, compactions and retries of one rollout as a tree, with tokens, "
    "trained tokens, reward and advantage of each.",
)
def tree(run: RunData, uid: Uid) -> Table:
    """Return the tree of a sample's episode; a row stands behind its parent.

    Parameters
    ----------
    run : RunData
    uid : str
        Any sample of the episode.

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    """
    from rlpanel.analysis.episode_tree import read_episode

    *_, found = read_episode(run.index, run.view, uid)
    rows = []
    for each in found.nodes:
        row = asdict(each)
        row |= {"node": row.pop("name"), "messages": [asdict(link) for link in each.messages]}
        rows.append({key: None if value == "" else value for key, value in row.items()})
    step = int(run.snapshot.metadata("step")[run.snapshot.row(uid)])
    about = {
        "run": run.name,
        "episode": found.episode or None,
        "step": step,
        "rows": found.total,
        "notes": found.remarks,
    }
    return tree.table(rows, about=about)


# -- in flight -----------------------------------------------------------------------------------------
# The rollouts that are being generated, from live files beside the log.


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
