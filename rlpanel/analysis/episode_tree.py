"""Reads the rows of a sample's episode and places them in a tree, with what each of them cost and trained."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlpanel.analysis.rollout_tree import SUB_AGENT, EpisodeRow, TreeNode, build_tree, totals
from rlpanel.errors import RLPanelError
from rlpanel.schema import Sample
from rlpanel.store.columns.related_rows import EPISODE, PLACES, TURN, counters
from rlpanel.store.columns.splits import SPLIT_COLUMN, TRAIN, discarded_split
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.said import Said

#: Most rows of an episode that are read.
MAX_ROWS = 2000
#: Most characters of the words that a node shows, and of a message that is looked for in another row.
WORDS, SOUGHT = 120, 4000
#: Rows between two reports of progress.
_PULSE = 50
#: Most pieces of the texts of an episode without messages, and characters that two responses share by chance.
MAX_UNITS, BY_CHANCE = 1_000_000, 64
_POLICY, _ANSWERS = "assistant", ("tool", "environment", "user")

_FIRST = "The first {most:,} of {count:,} rows of the episode are shown."
_NO_EPISODE = "The log names no episode for this sample; log episode, agent, branch and parent."
_UNREAD = "{unread:,} of {count:,} rows cannot be read any more and are left out."
#: Templates of the remarks on an episode, for translators.
EPISODE_REMARKS = (_FIRST, _NO_EPISODE, _UNREAD)


@dataclass(frozen=True)
class AgentMessage:
    """A message from one row of an episode to another.

    Attributes
    ----------
    type : str
        ``asked`` and ``answered`` if the text was found in the other row, else the type in the log.
    uid : str
        The other row.
    turn : int or None
        Turn of the other row, from 1.
    """

    type: str
    uid: str
    turn: int | None


@dataclass(frozen=True)
class RolloutNode:
    """A row of an episode in its tree; a number is None where nothing is known.

    Attributes
    ----------
    uid, name, agent, kind : str
        ``kind`` is one of `rlpanel.analysis.rollout_tree.KINDS`.
    parent : str
        Uid of the parent; empty for a root.
    depth : int
    logged : bool
        Whether the log names the parent.
    shared : int
        Messages that it has in common with its parent, and that count there; characters without messages.
    turns, first_turn : int or None
        Turns of the policy beyond the shared messages, and the first of them, from 1.
    tokens, trained_tokens : int or None
        Response tokens of the row, and those that the policy's loss counts.
    reward, advantage, seconds, start, cost : float or None
        ``start`` is in Unix seconds, ``cost`` in dollars as logged.
    below_tokens, below_cost : float or None
        Sums over the row and all rows below it.
    status, status_reason, split, text : str
        ``text`` is the beginning of the first words of its own.
    messages : tuple of AgentMessage
    """

    uid: str
    name: str
    agent: str
    kind: str
    parent: str
    depth: int
    logged: bool
    shared: int
    turns: int | None
    first_turn: int | None
    tokens: int | None
    trained_tokens: int | None
    reward: float | None
    advantage: float | None
    seconds: float | None
    start: float | None
    cost: float | None
    below_tokens: float | None
    below_cost: float | None
    status: str
    status_reason: str
    split: str
    text: str
    messages: tuple[AgentMessage, ...] = ()


@dataclass(frozen=True)
class EpisodeTree:
    """The tree of an episode, or the number of its rows that were read so far.

    Attributes
    ----------
    episode : str
        Empty if the log names none.
    read, total : int
    nodes : list of RolloutNode
        Empty until all rows are read; each stands behind its parent.
    remarks : list of str
    """

    episode: str = ""
    read: int = 0
    total: int = 0
    nodes: list[RolloutNode] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def has_trees(snapshot: Snapshot) -> bool:
    """Return whether an episode of the run has several rows, or rows name their parent."""
    return EPISODE in snapshot.labels and (snapshot.has_episodes or "parent" in snapshot.labels)


def episode_rows(snapshot: Snapshot, row: int) -> np.ndarray:
    """Return the rows of a row's episode in all splits, in the order of turns and of the log, shape (N,)."""
    if EPISODE not in snapshot.labels:
        return np.array([row])
    codes, names = snapshot.label_codes(EPISODE)
    step = snapshot.metadata("step")
    same = (codes == codes[row]) & (step == step[row]) & snapshot.alive_in_all_splits
    if SPLIT_COLUMN in snapshot.labels:
        splits = snapshot.label(SPLIT_COLUMN, np.flatnonzero(same))
        own = _base(snapshot.label(SPLIT_COLUMN, np.array([row]))[0])
        same[same] = [_base(each) == own for each in splits]
    found = np.flatnonzero(same)
    labels = [snapshot.label_codes(name)[0][found] for name in PLACES if name in snapshot.labels]
    turn = snapshot.number(TURN)[found] if TURN in snapshot.numbers else np.full(len(found), np.nan)
    if codes[row] < 0 or names[codes[row]] == "" or counters(codes[found], names, labels, turn).any():
        return np.array([row])
    place = (snapshot.metadata(name)[found] for name in ("part", "offset", "file"))
    ordered: np.ndarray = found[np.lexsort((*place, np.where(np.isnan(turn), -1, turn)))]
    return ordered


def _base(split: str | None) -> str:
    """Return the split from which a sample was discarded, or its own."""
    name = split or TRAIN
    return next((base for base in (TRAIN, "eval") if name == discarded_split(base)), name)


def read_episode(index: RunIndex, view: RunView, uid: str) -> Iterator[EpisodeTree]:
    """Yield the progress, then the tree of a sample's episode.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    uid : str

    Raises
    ------
    SampleNotFound
        If no sample in the log has this uid.
    """
    snapshot = view.snapshot
    row = snapshot.row(uid)
    every = episode_rows(snapshot, row)
    rows, remarks = every[:MAX_ROWS], list[str]()
    if len(every) > MAX_ROWS:
        rows = rows if row in rows else np.append(rows[:-1], row)
        remarks.append(Said(_FIRST, most=MAX_ROWS, count=len(every)))
    episode = (snapshot.label(EPISODE, rows[:1])[0] or "") if EPISODE in snapshot.labels else ""
    if not episode:
        remarks.append(Said(_NO_EPISODE))
    samples: list[Sample] = []
    unread = 0
    for at, each in enumerate(rows.tolist()):
        if at % _PULSE == 0:
            yield EpisodeTree(episode, at, len(rows))
        try:
            samples.append(fetch(index, view, each, derived=False))
        except RLPanelError:  # the line has changed since
            unread += 1
    if unread:
        remarks.append(Said(_UNREAD, unread=unread, count=len(rows)))
    yield tree_of(samples, episode, remarks)


def tree_of(samples: Sequence[Sample], episode: str, remarks: Sequence[str] = ()) -> EpisodeTree:
    """Return the tree of an episode's samples, which are in the order of the log."""
    texts = sum(len(each.prompt or "") + len(each.response or "") for each in samples if not each.messages)
    piece = max(1, texts // MAX_UNITS)
    rows = [row_of(sample, piece) for sample in samples]
    tree = build_tree(rows, episode or None)
    tokens = {at: _tokens(sample) for at, sample in enumerate(samples)}
    costs = {at: _cost(sample) for at, sample in enumerate(samples)}
    below = totals(tree.nodes, {at: count for at, (count, _) in tokens.items()}), totals(tree.nodes, costs)
    names = {row.branch: sample.uid for row, sample in zip(rows, samples, strict=True) if row.branch}
    nodes = []
    for node in tree.nodes:
        sample, row = samples[node.row], rows[node.row]
        count, trained = tokens[node.row]
        policy = [
            at
            for at in range(max(node.shared, row.own), len(row.units))
            if row.policy[at : at + 1] == (True,)
        ]
        before = sum(row.policy[row.own : node.shared]) if row.policy else 0
        nodes.append(
            RolloutNode(
                uid=sample.uid,
                name=row.branch or row.trajectory or row.agent or f"row {node.row + 1}",
                agent=row.agent or "",
                kind=node.kind,
                parent=samples[node.parent].uid if node.parent >= 0 else "",
                depth=node.depth,
                logged=node.is_logged,
                shared=node.shared * (1 if row.policy else piece),
                turns=len(policy) if row.policy else None,
                first_turn=before + 1 if policy else None,
                tokens=count,
                trained_tokens=trained,
                reward=_known(sample.reward),
                advantage=_advantage(sample),
                seconds=_known(sample.columns.get("seconds")),
                start=_known(sample.timing.get("start")),
                cost=costs[node.row],
                below_tokens=below[0].get(node.row),
                below_cost=below[1].get(node.row),
                status=sample.status or "",
                status_reason=sample.status_reason or "",
                split=sample.split or TRAIN,
                text=_first_words(sample, node, row),
                messages=(*_linked(sample, names), *_found(sample, samples, node)),
            )
        )
    return EpisodeTree(episode, len(samples), len(samples), nodes, [*remarks, *tree.remarks])


def row_of(sample: Sample, piece: int = 1) -> EpisodeRow:
    """Return what decides a sample's place in the tree; ``piece`` is the length of the pieces of a text."""
    labels: dict[str, Any] = {
        name: getattr(sample, name) for name in ("agent", "trajectory", "branch", "parent")
    }
    kind, turn = sample.branch_kind, _known(sample.columns.get(TURN))
    if sample.messages:
        units: tuple[Hashable, ...] = tuple(map(_key, sample.messages))
        own = sample.prompt_messages if sample.prompt_messages >= 0 else len(units)
        policy = tuple(at >= own and each["role"] == _POLICY for at, each in enumerate(sample.messages))
        return EpisodeRow(**labels, kind=kind, turn=turn, units=units, own=own, policy=policy)
    text = (sample.prompt or "") + (sample.response or "")
    pieces = [text[at : at + piece] for at in range(0, len(text) - piece + 1, piece)]
    own, by_chance = len(sample.prompt or "") // piece, -(-BY_CHANCE // piece)
    return EpisodeRow(**labels, kind=kind, turn=turn, units=pieces, own=own, by_chance=by_chance)


def _key(message: Mapping[str, Any]) -> Hashable:
    """Return what makes two messages equal: role, text, reasoning and calls."""
    calls = [[call.get("name"), str(call.get("arguments"))] for call in message.get("tool_calls") or ()]
    parts = (message.get("role"), message.get("content"), message.get("reasoning_content"), calls)
    return json.dumps(parts, default=str)


def _tokens(sample: Sample) -> tuple[int | None, int | None]:
    """Return the number of response tokens, and of those that were trained on."""
    logged = _known(sample.columns.get("response_tokens"))
    if sample.response_tokens is not None:
        logged = len(sample.response_tokens)
    elif sample.response_token_ids is not None:
        logged = len(sample.response_token_ids)
    count = None if logged is None else int(logged)
    if sample.split not in (None, TRAIN) or sample.status in ("discarded", "environment_error"):
        return count, 0
    mask = sample.loss_mask
    return count, count if mask is None else int(np.count_nonzero(np.nan_to_num(mask)))


def _cost(sample: Sample) -> float | None:
    for name in ("cost", "cost_usd", "metrics/cost_usd", "metrics/cost"):
        if (found := _known(sample.columns.get(name))) is not None:
            return found
    return None


def _advantage(sample: Sample) -> float | None:
    """Return the sample's advantage, else the mean over its trained tokens."""
    if (own := _known(sample.advantage)) is not None:
        return own
    values = sample.advantages
    if values is None or not len(values):
        return None
    mask = sample.loss_mask
    used = values if mask is None or len(mask) != len(values) else values[np.nan_to_num(mask) > 0]
    known = used[np.isfinite(used)]
    return float(known.mean()) if len(known) else None


def _known(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _first_words(sample: Sample, node: TreeNode, row: EpisodeRow) -> str:
    """Return the beginning of the row's first own words; those of the policy before those of others."""
    rest = list(sample.messages)[max(node.shared, 0) :]
    if rest:
        own = [each for each in rest if each["role"] == _POLICY] or rest
        words = next((text for each in own for text in (_said(each),) if text), "")
    else:
        words = sample.response or ""
    return " ".join(words[: 4 * WORDS].split())[:WORDS]


def _said(message: Mapping[str, Any]) -> str:
    calls = ", ".join(str(call.get("name")) for call in message.get("tool_calls") or ())
    return str(message.get("content") or "") or str(message.get("reasoning_content") or "") or calls


def _linked(sample: Sample, names: Mapping[str, str]) -> Iterator[AgentMessage]:
    """Yield what the log says about messages between rows; what names an unknown row is left out."""
    logged = sample.extra.get("links")
    for link in logged if isinstance(logged, list) else ():
        if isinstance(link, Mapping) and (uid := names.get(str(link.get("from")))):
            turn = link.get("turn")
            yield AgentMessage(str(link.get("type"))[:40], uid, turn if isinstance(turn, int) else None)


def _found(sample: Sample, samples: Sequence[Sample], node: TreeNode) -> Iterator[AgentMessage]:
    """Yield where a sub-agent's task and its last words stand in its parent: equal text is the evidence."""
    if node.kind != SUB_AGENT or node.parent < 0 or not sample.messages:
        return
    parent = samples[node.parent]
    task = next((str(each.get("content") or "") for each in sample.messages if each["role"] == "user"), "")
    last = next((_said(each) for each in reversed(sample.messages) if each["role"] == _POLICY), "")
    task, last = task.strip()[:SOUGHT], last.strip()[:SOUGHT]
    turn, asked = 0, False
    for each in parent.messages:
        turn += each["role"] == _POLICY
        if task and not asked and any(task in _argument(call) for call in each.get("tool_calls") or ()):
            asked = True
            yield AgentMessage("asked", parent.uid, turn)
        if last and each["role"] in _ANSWERS and last in str(each.get("content") or ""):
            yield AgentMessage("answered", parent.uid, turn)
            return


def _argument(call: Mapping[str, Any]) -> str:
    """Return the texts in a call's arguments."""
    arguments = call.get("arguments")
    if isinstance(arguments, Mapping):
        return "\n".join(str(value) for value in arguments.values())
    return str(arguments)
