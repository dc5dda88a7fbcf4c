"""The rows of real episodes in their tree: what each trained, and what agents told each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.analysis.episode_tree import MAX_ROWS, EpisodeTree, episode_rows, read_episode

UPSTREAM = Path(__file__).parents[2] / "data" / "upstream"


def tree(folder: Path, uid: str) -> EpisodeTree:
    with rlpanel.open_run(folder, follow=False) as run:
        *_, last = read_episode(run.data.index, run.data.view, uid)
        return last


def test_a_fork_of_verifiers_shares_its_plan_and_trains_it_once() -> None:
    found = tree(UPSTREAM / "verifiers-0.4.0" / "fork", "rollouts/step_1/train/all/traces.jsonl:0/1")
    root, branch = found.nodes
    assert found.episode == "e1-0-train"
    assert (root.kind, root.tokens, root.trained_tokens, root.below_tokens) == ("root", 5, 5, 10)
    assert (branch.kind, branch.shared, branch.first_turn, branch.turns) == ("branch", 2, 2, 1)
    assert (branch.tokens, branch.trained_tokens, branch.advantage) == (5, 1, -0.5)
    assert branch.logged
    assert branch.parent == root.uid
    assert found.remarks == []


def test_harbors_sub_agent_stands_below_the_call_that_started_it() -> None:
    with rlpanel.open_run(UPSTREAM / "harbor-0.26.0", follow=False) as run:
        snapshot = run.data.snapshot
        uids = [
            uid for uid in snapshot.uids(range(snapshot.rows)) if "draw" in uid and "trajectory.json" in uid
        ]
        *_, found = read_episode(run.data.index, run.data.view, uids[0])
    root, child = found.nodes[:2]
    assert (root.name, child.name, child.kind) == ("s5", "sub-1", "sub-agent")
    assert [(each.type, each.uid, each.turn) for each in child.messages] == [("subagent_call", root.uid, 2)]


def test_verls_turns_follow_each_other(tmp_path: Path) -> None:
    lines = [
        {"input": "find the key", "output": word, "score": 1.0, "step": 0, "uid": f"q1_0_{at}"}
        for at, word in enumerate(("look", "open", "take"))
    ]
    (tmp_path / "0.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    found = tree(tmp_path, "0.jsonl:0")
    assert [(node.kind, node.text, node.logged) for node in found.nodes] == [
        ("root", "look", False), ("turn", "open", False), ("turn", "take", False)
    ]  # fmt: skip
    assert found.nodes[1].shared == len("find the key")


def message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


@pytest.fixture
def research(tmp_path: Path) -> Path:
    """A lead that asks a reader, whose words come back; and a branch that was not trained."""
    call = [{"id": "c1", "name": "ask", "arguments": {"task": "Read paper A."}}]
    lead = [message("user", "Compare."), message("assistant", "", tool_calls=call)]
    lead += [message("tool", "A uses TIS.", tool_call_id="c1"), message("assistant", "Done.")]
    reader = [message("user", "Read paper A."), message("assistant", "A uses TIS.")]
    common = {"step": 1, "group": "g", "episode": "e", "prompt_messages": 1}
    branch = [*lead[:3], message("assistant", "No.")]
    rows = [
        {
            "agent": "lead",
            "branch": "lead",
            "messages": lead,
            "reward": 1.0,
            "cost": 0.5,
            "advantage": 0.25,
            "response_token_ids": [1, 2, 3, 4],
            "loss_mask": [1, 0, 0, 1],
        },
        {"agent": "reader", "parent": "lead", "messages": reader, "cost": 0.25, "response_token_ids": [5, 6]},
        {
            "agent": "lead",
            "branch": "other",
            "parent": "lead",
            "messages": branch,
            "status": "discarded",
            "response_token_ids": [7],
        },
    ]
    (tmp_path / "rank_0.jsonl").write_text("".join(json.dumps(common | row) + "\n" for row in rows))
    return tmp_path


def test_numbers_and_messages_of_a_logged_tree(research: Path) -> None:
    lead, reader, other = tree(research, "rank_0.jsonl:0").nodes
    assert (lead.tokens, lead.trained_tokens, lead.turns, lead.advantage) == (4, 2, 2, 0.25)
    assert (lead.below_tokens, lead.below_cost) == (7, 0.75)
    assert (reader.kind, reader.reward, reader.advantage, reader.cost) == ("sub-agent", None, None, 0.25)
    assert [(each.type, each.turn) for each in reader.messages] == [("asked", 1), ("answered", 1)]
    assert (other.kind, other.shared, other.first_turn, other.trained_tokens) == ("branch", 3, 2, 0)


def test_any_row_of_an_episode_leads_to_the_same_tree(research: Path) -> None:
    with rlpanel.open_run(research, follow=False) as run:
        snapshot = run.data.snapshot
        found = [episode_rows(snapshot, row).tolist() for row in range(3)]
    assert found == [[0, 1, 2]] * 3


def test_a_sample_without_an_episode_is_alone_and_says_what_to_log(tmp_path: Path) -> None:
    (tmp_path / "rank_0.jsonl").write_text(json.dumps({"step": 1, "prompt": "p", "response": "r"}) + "\n")
    found = tree(tmp_path, "rank_0.jsonl:0")
    assert [node.kind for node in found.nodes] == ["root"]
    assert found.remarks == [
        "The log names no episode for this sample; log episode, agent, branch and parent."
    ]


def test_a_long_episode_is_cut_and_says_so(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "prompt": str(at), "response": "r", "episode": "e", "agent": "a"}
        for at in range(MAX_ROWS + 5)
    ]
    (tmp_path / "rank_0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        uid = run.snapshot.uid(MAX_ROWS + 4)
        *_, found = read_episode(run.data.index, run.data.view, uid)
    assert len(found.nodes) == MAX_ROWS
    assert uid in {node.uid for node in found.nodes}
    assert found.remarks[0] == f"The first {MAX_ROWS:,} of {MAX_ROWS + 5:,} rows of the episode are shown."
