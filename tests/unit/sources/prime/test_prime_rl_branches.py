"""Branches of a trace: which of them, and which of their tokens, were trained on.

The files were written by verifiers 0.4.0 and prime-rl's FileMonitor from made-up episodes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.sources.prime.prime_rl import Node, branches

UPSTREAM = Path(__file__).parents[3] / "data" / "upstream" / "verifiers-0.4.0"


def by_split(name: str) -> dict[str, list[Sample]]:
    """All samples of a recorded run by split; the run has no bad lines."""
    with rlpanel.open_run(UPSTREAM / name, follow=False) as run:
        assert not len(run.errors)
        parts = {split: run.split(split) for split in run.splits}
        return {split: [part.sample(uid) for uid in part.samples()["uid"]] for split, part in parts.items()}


def node(parent: int | None, own: int = 0, *links: tuple[int, str]) -> Node:
    """A message with two tokens of a template, and ``own`` that the policy sampled."""
    tied = [{"node": at, "type": kind} for at, kind in links]
    return {
        "parent": parent, "sampled": own > 0, "token_ids": [0] * (2 + own),
        "mask": [False] * 2 + [True] * own, "semantic_parents": tied,
    }  # fmt: skip


def test_a_shared_message_is_trained_in_its_first_branch_only() -> None:
    """As prime-rl's `iter_trainable_branches`, which gives 5 and 1 trainable tokens."""
    first, second, *_ = by_split("fork")["train"]
    assert first.loss_mask is not None
    assert first.loss_mask.tolist() == [1] * 5
    assert second.loss_mask is not None
    assert second.loss_mask.tolist() == [0, 0, 0, 0, 1]
    assert [each.columns["response_tokens"] for each in (first, second)] == [5.0, 1.0]
    assert second.advantages is not None
    assert len(second.advantages) == 5, "the arrays keep the tokens before"


def test_a_summary_that_was_not_used_is_discarded() -> None:
    read = by_split("compaction")
    assert {split: len(found) for split, found in read.items()} == {"train": 7, "discarded": 4}
    unused = next(each for each in read["discarded"] if each.status == "discarded")
    assert unused.response is not None
    assert "SUMMARY ATTEMPT" in unused.response
    assert unused.status_reason is not None
    assert unused.status_reason.startswith("the branch was not trained")
    used = [each for each in read["train"] if "SUMMARY ATTEMPT" in (each.response or "")]
    assert len(used) == 1, "the agent continued from the summary of this one"


def test_what_the_trainer_computed_is_read_from_the_messages() -> None:
    sample = by_split("compaction")["train"][0]
    assert {
        name: array.tolist() for name, array in sample.arrays().items() if name != "response_token_ids"
    } == {
        "rollout_logprobs": [-0.1111, -0.2, -0.3, -0.4],
        "logprobs": [-0.12, -0.21, -0.31, -0.41],
        "entropy": [0.5, 0.6, 0.1, 0.2],
        "loss_mask": [1, 1, 1, 1],
    }


def test_a_rollout_whose_time_was_up_is_a_timeout() -> None:
    found = [each for each in by_split("compaction")["discarded"] if each.status == "timeout"]
    assert [(each.status_reason or "").partition(":")[0] for each in found] == [
        "HarnessError",
        "SandboxError",
    ]
    assert all(math.isnan(each.reward) for each in found)


def test_an_evaluation_of_verifiers_has_step_0() -> None:
    read = by_split("evaluation")
    assert {split: len(found) for split, found in read.items()} == {"eval": 5, "discarded eval": 1}
    assert {each.step for each in read["eval"]} == {0}
    assert sum(each.reward for each in read["eval"]) / 5 == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stop_condition": "max_turns"}, ("truncated", "max_turns", 1.0)),
        ({"stop_condition": "done", "calls": [{"finish_reason": "stop"}, {"finish_reason": "length"}]},
         ("truncated", "done", 1.0)),
        ({"stop_condition": "done", "calls": [{"finish_reason": "length", "error": {}}]}, ("ok", None, 0.0)),
        ({"stop_condition": "agent_timeout", "is_timeout": True}, ("timeout", "agent_timeout", 0.0)),
    ],
)  # fmt: skip
def test_the_end_of_a_trace_gives_its_status(
    tmp_path: Path, fields: dict[str, Any], expected: tuple[str, str | None, float]
) -> None:
    nodes = [{"message": {"role": "assistant", "content": "a"}, "sampled": True}]
    trace = {"nodes": nodes, "ok": True} | fields
    line = {"task": {}, "run": {"work": {"type": "train", "step": 3}}, "traces": [trace]}
    (tmp_path / "traces.jsonl").write_text(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (sample.status, sample.status_reason, sample.truncated) == expected


@pytest.mark.parametrize(
    ("nodes", "trainable", "masks"),
    [
        # A plain conversation.
        ([node(None), node(0, 2)], [True], [[1, 1]]),
        # The second branch adds no token of the policy.
        ([node(None), node(0, 2), node(1), node(1)], [True, False], [[1, 1], [0, 0]]),
        # The branch that shares the message first is not trained, so the second one trains it.
        ([node(None), node(0, 1), node(1, 1, (1, "compaction_attempt")), node(1, 1)],
         [False, True], [[1, 1], [1, 1]]),
        # The agent continued from the summary.
        ([node(None), node(0, 1, (0, "compaction_attempt")), node(None), node(2, 1, (1, "compaction"))],
         [True, True], [[1], [1]]),
    ],
)  # fmt: skip
def test_each_sampled_token_is_trained_once(
    nodes: list[Node], trainable: list[bool], masks: list[list[int]]
) -> None:
    found = branches(nodes)
    assert [each.trainable for each in found] == trainable
    assert [each.loss_mask for each in found] == masks
