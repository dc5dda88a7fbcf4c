"""Splits the messages of a trace into branches, and finds out which of their tokens were trained on.

A trace is a graph of messages. Each path from a root to a leaf is a branch, and one training sample. As in
prime-rl, a message that several branches share is trained in the first of them that is trained. A summary
that the agent attempted and did not continue from is not trained (verifiers' ``compaction_attempt``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpanel.errors import LineError

Node = Mapping[str, Any]


@dataclass(frozen=True)
class Branch:
    """A path from a root to a leaf.

    Attributes
    ----------
    index : int
        Number of the leaf among all leaves of the trace.
    nodes : list of Node
    trainable : bool
        False for a summary that was not used, and if earlier branches train all sampled tokens.
    trained : list of bool
        For each node, whether its sampled tokens are trained in this branch.
    """

    index: int
    nodes: list[Node]
    trainable: bool
    trained: list[bool]

    @property
    def loss_mask(self) -> list[int] | None:
        """1 for each sampled token that is trained in this branch, else 0; None if all are."""
        if all(self.trained):
            return None
        sampled = (sum(map(bool, node.get("mask") or ())) for node in self.nodes)
        return [int(own) for own, count in zip(self.trained, sampled, strict=True) for _ in range(count)]


def branches(nodes: list[Node]) -> list[Branch]:
    """Return the branches that contain a message of the policy, or else all messages as one branch.

    Raises
    ------
    LineError
        If a node's parent is not an earlier node.
    """
    ways = paths(nodes)
    if not any(node.get("sampled") for node in nodes):
        return [Branch(0, nodes, True, [True] * len(nodes))]
    used = {link.get("node") for node in nodes for link in _links(node) if link.get("type") == "compaction"}
    found: list[Branch] = []
    earlier: set[int] = set()  # sampled nodes that a branch before trains
    for index, path in enumerate(ways):
        attempt = any(link.get("type") == "compaction_attempt" for link in _links(nodes[path[-1]]))
        sampled = {at for at in path if nodes[at].get("sampled") and any(nodes[at].get("mask") or ())}
        trainable = (not attempt or path[-1] in used) and not (sampled and sampled <= earlier)
        if any(nodes[at].get("sampled") for at in path):
            own = [at not in earlier for at in path]
            found.append(Branch(index, [nodes[at] for at in path], trainable, own))
        if trainable:
            earlier |= sampled
    return found


def paths(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the nodes from a root to each leaf, in the order of the leaves.

    Raises
    ------
    LineError
        If a node's parent is not an earlier node.
    """
    parents = [node.get("parent") for node in nodes]
    for index, parent in enumerate(parents):
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < index):
            raise LineError("a message's 'parent' is not an earlier message")
    found = []
    for leaf in sorted(set(range(len(parents))) - set(parents)):
        path: list[int] = []
        at: int | None = leaf
        while at is not None:
            path.append(at)
            at = parents[at]
        found.append(path[::-1])
    return found


def _links(node: Node) -> list[Mapping[str, Any]]:
    return [link for link in node.get("semantic_parents") or () if isinstance(link, Mapping)]
