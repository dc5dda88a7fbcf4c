"""The tree of one rollout: sub-agents, branches, compactions, retries and turns of its episode."""

from __future__ import annotations

from dataclasses import asdict

from rlpanel.queries.question import question
from rlpanel.queries.question_options import Uid
from rlpanel.queries.run_data import RunData
from rlpanel.queries.table import RUN, STEP, Table, TableColumn


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
