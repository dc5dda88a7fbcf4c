"""The tree of one rollout: sub-agents, branches, compactions, retries and turns, from the rows of an episode.

A row names its parent by ``parent``: the ``branch``, ``trajectory`` or ``agent`` of another row, or the
episode for its first row. In an episode without any such name, the messages decide: a row follows the newest
row with which it shares the longest beginning.

- *turn*: it begins with all messages of its parent, or with its prompt and has a later ``turn`` or a longer
  prompt; some trainers log each turn as a row (verl's sessions).
- *branch*: it shares a message that the policy wrote, and then differs; of texts, 64 characters.
- *retry*: it shares exactly the prompt with another row of the same agent.
- *compaction*: it is a later row of the same agent and trajectory, and its prompt does not begin with the
  earlier row's (as the lint rule ``compacted``).

Rows that share less stand side by side as roots. Faults of the names (a missing parent, a cycle, one name
for two rows, several roots) become sentences, and every row stays in the tree exactly once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from rlpanel.texts.said import Said

ROOT, SUB_AGENT, BRANCH, COMPACTION, RETRY, TURN = (
    *("root", "sub-agent", "branch", "compaction", "retry", "turn"),
)
#: All kinds that a row can have, in the order of a legend.
KINDS = (ROOT, SUB_AGENT, BRANCH, COMPACTION, RETRY, TURN)
#: Most names in a sentence.
_NAMED = 3

_PLACED_ONE = "The log names no parents: 1 row is placed by the messages that it shares."
_PLACED = "The log names no parents: {count:,} rows are placed by the messages that they share."
_ROOTS = "{count} rows have no parent and stand side by side: {names}."
_KINDS_UNKNOWN = "Unknown kinds are shown as branches: {names}."
_OWN_PARENT = "The row {name} names itself as its parent; it is shown as a root."
_ORPHAN = "1 row names a parent that the episode does not log: {names}; shown as a root."
_ORPHANS = "{count:,} rows name a parent that the episode does not log: {names}; shown as roots."
_AMBIGUOUS = "Several rows have the name {names}: the newest before a child is its parent."
_CYCLE = "The parents of {count} rows form a cycle: {names}; cut at the first."
#: Templates of all remarks, for translators.
REMARKS = (
    *(_PLACED_ONE, _PLACED, _ROOTS, _KINDS_UNKNOWN, _OWN_PARENT, _ORPHAN, _ORPHANS, _AMBIGUOUS, _CYCLE),
)


@dataclass(frozen=True)
class EpisodeRow:
    """One row of an episode, in the order of the log.

    Attributes
    ----------
    agent, trajectory, branch, parent, kind : str, optional
        As logged; ``kind`` is one of `KINDS`.
    turn : float, optional
        Number of the row's turn, if rows are turns.
    units : sequence of hashable, shape (M,)
        Its messages, or pieces of its text of equal length, from the first of the prompt to the last of the
        response.
    own : int
        Number of units before the first that the policy wrote.
    policy : tuple of bool, shape (M,)
        Whether the policy wrote each unit; empty if that is not known.
    by_chance : int
        Number of units of a response that two rows may share by chance: 0 for messages.
    """

    agent: str | None = None
    trajectory: str | None = None
    branch: str | None = None
    parent: str | None = None
    kind: str | None = None
    turn: float | None = None
    units: Sequence[Hashable] = ()
    own: int = 0
    policy: tuple[bool, ...] = ()
    by_chance: int = 0


@dataclass(frozen=True)
class TreeNode:
    """A row's place in the tree.

    Attributes
    ----------
    row : int
        Number of the row.
    parent : int
        Number of its parent's row; -1 for a root.
    kind : str
        One of `KINDS`.
    depth : int
    shared : int
        Number of units that it has in common with its parent.
    is_logged : bool
        Whether the log names the parent; else it was inferred from the messages.
    """

    row: int
    parent: int
    kind: str
    depth: int
    shared: int
    is_logged: bool


@dataclass(frozen=True)
class RolloutTree:
    """The nodes of an episode, each behind its parent, children in the order of the log.

    Attributes
    ----------
    nodes : list of TreeNode
    remarks : list of str
        Sentences on faults of the log, and on what was inferred.
    """

    nodes: list[TreeNode] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def build_tree(rows: Sequence[EpisodeRow], episode: str | None = None) -> RolloutTree:
    """Return the tree of an episode's rows; each row is in it exactly once.

    Parameters
    ----------
    rows : sequence of EpisodeRow
        In the order of the log; turns of one trajectory in their order.
    episode : str, optional
        Name of the episode: a parent of this name is the first row without a parent.
    """
    remarks: list[str] = []
    if any(row.parent is not None for row in rows):
        parents = _logged_parents(rows, episode, remarks)
        _cut_cycles(rows, parents, remarks)
        found = [(parent, rows[at].kind) for at, parent in enumerate(parents)]
        is_logged = True
    else:
        found = list(_inferred(rows))
        is_logged = False
        inferred = sum(parent >= 0 for parent, _ in found)
        if inferred:
            remarks.append(Said(_PLACED_ONE if inferred == 1 else _PLACED, count=inferred))
    roots = [at for at, (parent, _) in enumerate(found) if parent < 0]
    if len(roots) > 1:
        names = _listed([_name(rows[at], at) for at in roots])
        remarks.append(Said(_ROOTS, count=len(roots), names=names))
    unknown = sorted({str(row.kind) for row in rows if row.kind is not None and row.kind not in KINDS})
    if unknown:
        remarks.append(Said(_KINDS_UNKNOWN, names=_listed(unknown)))
    return RolloutTree(_placed(rows, found, roots, is_logged=is_logged), remarks)


def shared_units(first: EpisodeRow, second: EpisodeRow) -> int:
    """Return the number of units at the beginning that two rows have in common."""
    pairs = zip(first.units, second.units, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first.units), len(second.units)))


def _logged_parents(rows: Sequence[EpisodeRow], episode: str | None, remarks: list[str]) -> list[int]:
    """Return the row of each row's parent, -1 for none; say which names are missing or ambiguous."""
    places: dict[str, list[int]] = {}
    for name in ("branch", "trajectory", "agent"):  # the most exact name first
        for key, found in _rows_of(rows, name).items():
            places.setdefault(key, found)
    top = next((at for at, row in enumerate(rows) if row.parent is None), 0)
    missing: dict[str, int] = {}
    ambiguous: set[str] = set()
    parents = []
    for at, row in enumerate(rows):
        if row.parent is None:
            parents.append(-1)
            continue
        known = [each for each in places.get(row.parent, ()) if each != at]
        if not known and row.parent == episode and top != at:
            known = [top]
        if not known and row.parent in places:
            remarks.append(Said(_OWN_PARENT, name=_name(row, at)))
        elif not known:
            missing[row.parent] = missing.get(row.parent, 0) + 1
        if len(known) > 1:
            ambiguous.add(row.parent)
        # Of several rows with the name, the newest before this one: a parent is older than its child.
        parents.append(max((each for each in known if each < at), default=known[0] if known else -1))
    if missing:
        count = sum(missing.values())
        remarks.append(Said(_ORPHAN if count == 1 else _ORPHANS, count=count, names=_listed(list(missing))))
    if ambiguous:
        remarks.append(Said(_AMBIGUOUS, names=_listed(sorted(ambiguous))))
    return parents


def _rows_of(rows: Sequence[EpisodeRow], name: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        value = getattr(row, name)
        if value is not None:
            found.setdefault(value, []).append(at)
    return found


def _cut_cycles(rows: Sequence[EpisodeRow], parents: list[int], remarks: list[str]) -> None:
    """Make the first row of each cycle a root."""
    state = [0] * len(rows)  # 0 not seen, 1 on the way, 2 done
    for start in range(len(rows)):
        way = []
        at = start
        while at >= 0 and state[at] == 0:
            state[at] = 1
            way.append(at)
            at = parents[at]
        if at >= 0 and state[at] == 1:
            cycle = way[way.index(at) :]
            first = min(cycle)
            names = _listed([_name(rows[each], each) for each in sorted(cycle)])
            remarks.append(Said(_CYCLE, count=len(cycle), names=names))
            parents[first] = -1
        for each in way:
            state[each] = 2


def _inferred(rows: Sequence[EpisodeRow]) -> list[tuple[int, str]]:
    """Return the parent and the kind of each row by what its messages share with earlier rows."""
    newest: dict[int, int] = {}  # hash of a beginning → the newest row that has it
    prompts: dict[tuple[str | None, int], int] = {}  # agent and hash of a prompt → their newest row
    last: dict[tuple[str | None, str | None], int] = {}  # agent and trajectory → their newest row
    found: list[tuple[int, str]] = []
    for at, row in enumerate(rows):
        key, parent, seen = row.agent, -1, 0
        beginnings = []
        beginning = 0
        for count, unit in enumerate(row.units, 1):
            beginning = hash((beginning, unit))
            beginnings.append(beginning)
            if beginning in newest:
                parent, seen = newest[beginning], count
        kind = _kind(row, rows[parent], seen) if parent >= 0 else ""
        prompt = key, beginnings[row.own - 1] if 0 < row.own <= len(beginnings) else 0
        if not kind and prompt[1] and prompt in prompts:
            parent, kind = prompts[prompt], RETRY
        if not kind:
            parent = last.get((key, row.trajectory), -1)
            is_later = parent >= 0 and bool(row.units) and bool(rows[parent].units)
            parent, kind = (parent, COMPACTION) if is_later else (-1, ROOT)
        found.append((parent, kind))
        for each in beginnings:
            newest[each] = at
        prompts[prompt] = last[key, row.trajectory] = at
    return found


def _kind(row: EpisodeRow, parent: EpisodeRow, shared: int) -> str:
    """Return how a row came from the one with which it shares so many units; empty if it did not."""
    whole, own = len(parent.units), parent.own
    if whole > own and shared >= whole and len(row.units) > shared:
        return TURN
    is_next = row.turn is not None and parent.turn is not None and row.turn > parent.turn
    if not is_next and shared > own + row.by_chance:
        return BRANCH if not parent.policy or any(parent.policy[own:shared]) else ""
    if shared < own or not own or row.agent != parent.agent:
        return ""
    return TURN if is_next or row.own > own else RETRY


def _placed(
    rows: Sequence[EpisodeRow],
    found: Sequence[tuple[int, str | None]],
    roots: Sequence[int],
    *,
    is_logged: bool,
) -> list[TreeNode]:
    """Return the nodes in the order of a walk from the roots."""
    children: dict[int, list[int]] = {}
    for at, (parent, _) in enumerate(found):
        children.setdefault(parent, []).append(at)
    nodes = []
    waiting = [(at, 0) for at in reversed(roots)]
    while waiting:
        at, depth = waiting.pop()
        parent, kind = found[at]
        shared = shared_units(rows[parent], rows[at]) if parent >= 0 else 0
        named = ROOT if parent < 0 else kind or _guessed(rows[at], rows[parent], shared)
        named = named if named in KINDS else BRANCH
        nodes.append(TreeNode(at, parent, named, depth, shared, is_logged and parent >= 0))
        waiting += [(each, depth + 1) for each in reversed(children.get(at, ()))]
    return nodes


def _guessed(row: EpisodeRow, parent: EpisodeRow, shared: int) -> str:
    """Return the kind of a row whose parent is logged, and its kind is not."""
    if row.agent != parent.agent:
        return SUB_AGENT
    return _kind(row, parent, shared) or (BRANCH if shared else SUB_AGENT)


def totals(nodes: Sequence[TreeNode], values: Mapping[int, float | None]) -> dict[int, float | None]:
    """Return for each row the sum of a number over it and all rows below it; None if none of them has one."""
    sums: dict[int, float | None] = {}
    for node in reversed(nodes):  # children come before their parents
        own, below = values.get(node.row), sums.get(node.row)
        total = own if below is None else below if own is None else own + below
        sums[node.row] = total
        if node.parent >= 0 and total is not None:
            sums[node.parent] = total + (sums.get(node.parent) or 0)
    return sums


def _name(row: EpisodeRow, at: int) -> str:
    return (row.branch or row.trajectory or row.agent or f"row {at + 1}")[:40]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
