"""The tree of an episode: by logged parents, else by shared messages; every fault is one sentence."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rlpanel.analysis.rollout_tree import (
    BRANCH,
    COMPACTION,
    RETRY,
    ROOT,
    SUB_AGENT,
    TURN,
    EpisodeRow,
    RolloutTree,
    build_tree,
    totals,
)


def row(*units: str, own: int = 1, agent: str = "solver", **more: object) -> EpisodeRow:
    """A row whose units are messages; those from ``own`` on that begin with ``a`` are of the policy."""
    policy = tuple(at >= own and unit.startswith("a") for at, unit in enumerate(units))
    return EpisodeRow(agent=agent, units=units, own=own, policy=policy, **more)  # type: ignore[arg-type]


def shape(tree: RolloutTree) -> list[tuple[int, int, str, int]]:
    return [(node.row, node.parent, node.kind, node.depth) for node in tree.nodes]


def test_logged_parents_are_followed_by_branch_trajectory_agent_and_episode() -> None:
    rows = [
        EpisodeRow(agent="lead", branch="b0"),
        EpisodeRow(agent="reader", trajectory="t1", parent="b0"),
        EpisodeRow(agent="finder", parent="t1"),
        EpisodeRow(agent="lead", parent="finder", kind="compaction"),
        EpisodeRow(agent="writer", parent="e1"),
    ]
    tree = build_tree(rows, "e1")
    assert shape(tree) == [
        (0, -1, ROOT, 0), (1, 0, SUB_AGENT, 1), (2, 1, SUB_AGENT, 2), (3, 2, COMPACTION, 3),
        (4, 0, SUB_AGENT, 1),
    ]  # fmt: skip
    assert tree.remarks == []
    assert [node.is_logged for node in tree.nodes] == [False, True, True, True, True]


def test_a_missing_parent_makes_a_root_and_is_named() -> None:
    tree = build_tree([EpisodeRow(branch="a"), EpisodeRow(branch="b", parent="gone")])
    assert shape(tree) == [(0, -1, ROOT, 0), (1, -1, ROOT, 0)]
    assert tree.remarks == [
        "1 row names a parent that the episode does not log: gone; shown as a root.",
        "2 rows have no parent and stand side by side: a, b.",
    ]


def test_a_cycle_is_cut_at_its_first_row() -> None:
    rows = [EpisodeRow(branch=name, parent=parent) for name, parent in (("a", "c"), ("b", "a"), ("c", "b"))]
    tree = build_tree(rows)
    assert [(node.row, node.parent) for node in tree.nodes] == [(0, -1), (1, 0), (2, 1)]
    assert tree.remarks == ["The parents of 3 rows form a cycle: a, b, c; cut at the first."]


def test_a_row_that_names_itself_is_a_root() -> None:
    tree = build_tree([EpisodeRow(branch="a", parent="a")])
    assert shape(tree) == [(0, -1, ROOT, 0)]
    assert tree.remarks == ["The row a names itself as its parent; it is shown as a root."]


def test_of_several_rows_with_a_name_the_newest_before_the_child_is_its_parent() -> None:
    rows = [EpisodeRow(agent="lead"), EpisodeRow(agent="lead"), EpisodeRow(branch="x", parent="lead")]
    tree = build_tree(rows)
    assert {node.row: node.parent for node in tree.nodes}[2] == 1
    assert tree.remarks[0].startswith("Several rows have the name lead")


def test_shared_messages_place_rows_without_parents() -> None:
    rows = [
        row("u", "a1"),
        row("u", "a1", "u2", "a2", own=3),
        row("u", "a1", "u2", "a3", own=3),
        row("u", "a4"),
        row("summary", "a5"),
        row("task", "a6", agent="reader"),
    ]
    tree = build_tree(rows)
    found = {node.row: (node.parent, node.kind, node.shared) for node in tree.nodes}
    assert found == {
        0: (-1, ROOT, 0), 1: (0, TURN, 2), 2: (1, RETRY, 3), 3: (0, RETRY, 1), 4: (3, COMPACTION, 0),
        5: (-1, ROOT, 0),
    }  # fmt: skip
    assert tree.remarks[0] == "The log names no parents: 4 rows are placed by the messages that they share."


def test_a_prompt_that_is_equal_makes_a_retry_and_a_shared_answer_a_branch() -> None:
    tree = build_tree(
        [row("u", "a1", "u2", "a2"), row("u", "a1", "u2", "a3"), row("v", "a1"), row("v", "a2")]
    )
    assert [(node.row, node.parent, node.kind) for node in tree.nodes] == [
        (0, -1, ROOT), (1, 0, BRANCH), (2, 1, COMPACTION), (3, 2, RETRY)
    ]  # fmt: skip


def test_rows_of_turns_with_equal_prompts_follow_each_other() -> None:
    rows = [EpisodeRow(units="task" + text, own=4, turn=at, by_chance=64) for at, text in enumerate("xyz")]
    assert [(node.parent, node.kind) for node in build_tree(rows).nodes] == [(-1, ROOT), (0, TURN), (1, TURN)]


def test_unknown_kinds_are_branches_and_said() -> None:
    tree = build_tree([EpisodeRow(branch="a"), EpisodeRow(branch="b", parent="a", kind="fork")])
    assert tree.nodes[1].kind == BRANCH
    assert tree.remarks == ["Unknown kinds are shown as branches: fork."]


names = st.sampled_from(["a", "b", "c", "d", "e", "f"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(names, st.none() | names), max_size=12))
def test_every_row_is_in_the_tree_once_behind_its_parent(pairs: list[tuple[str, str | None]]) -> None:
    tree = build_tree([EpisodeRow(branch=name, parent=parent) for name, parent in pairs])
    order = [node.row for node in tree.nodes]
    assert sorted(order) == list(range(len(pairs)))
    depth = {-1: -1}
    for node in tree.nodes:
        assert node.depth == depth[node.parent] + 1
        depth[node.row] = node.depth


def test_totals_add_up_all_rows_below_and_keep_what_is_unknown() -> None:
    chance = random.Random(4)
    rows = [EpisodeRow(branch="0")]
    rows += [EpisodeRow(branch=str(at), parent=str(chance.randrange(at))) for at in range(1, 40)]
    tree = build_tree(rows)
    values = {at: float(chance.randrange(100)) if at % 3 else None for at in range(40)}
    parent = {node.row: node.parent for node in tree.nodes}

    def is_below(at: int, top: int) -> bool:
        return at == top or (parent[at] >= 0 and is_below(parent[at], top))

    sums = totals(tree.nodes, values)
    for top in range(40):
        known = [values[at] for at in range(40) if is_below(at, top) and values[at] is not None]
        assert sums[top] == (sum(known) if known else None)  # type: ignore[arg-type]
