"""The mean reward of logs with several rows an episode is the one that the trainer itself reports.

The lines are those of SkyRL 0.4.0 (``dump_per_dataset_eval_results``), verl 0.9.1 (``_write_generations``),
verifiers 0.4.0 (``Episode.to_record``) and rLLM 9beb6e0f, shortened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from tests.factories import append


def put(path: Path, *documents: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def skyrl(prompt: str, response: str, *scores: float) -> dict[str, Any]:
    extras = {"reward_spec": {"ground_truth": "key"}, "uid": "q1"}
    return {"input_prompt": prompt, "output_response": response, "score": list(scores), "stop_reason": "stop",
            "env_class": "text_adventure", "env_extras": extras, "data_source": "adventure"}  # fmt: skip


def verl(uid: str, prompt: str, response: str, score: float) -> dict[str, Any]:
    return {"input": prompt, "output": response, "gts": "key", "score": score, "step": 5, "reward": score,
            "acc": score > 0, "uid": uid}  # fmt: skip


def test_step_wise_trajectories_of_skyrl_are_scored_by_their_last_step(tmp_path: Path) -> None:
    """SkyRL's own eval/all/avg_score of these four lines is 0.5, and pass@2 is 1."""
    start = "<user>Find the key."
    put(
        tmp_path / "dumped_evals" / "global_step_5_evals" / "adventure.jsonl",
        skyrl(start, "look", 0.0, 0.0),
        skyrl(f"{start}<a>look<obs>a drawer", "open", 0.0, 0.0),
        skyrl(f"{start}<a>look<obs>a drawer<a>open<obs>a key", "take key", 0.0, 1.0),
        skyrl(start, "give up", 0.0, 0.0),
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.steps[["samples", "reward_mean"]].values.tolist() == [[4, 0.5]]
        assert run.steps["reward_std"].tolist() == pytest.approx([0.5**0.5])
        groups = run.groups(5)
        assert groups[["samples", "reward_mean", "pass_rate", "signal"]].values.tolist() == [
            [2, 0.5, 0.5, "signal"]
        ]
        assert run.samples()["reward"].tolist() == [0, 0, 1, 0]


def test_sessions_of_verl_are_scored_by_their_last_output(tmp_path: Path) -> None:
    """verl copies the final score to each output, and takes one of each session: 0.5."""
    rows = [
        verl("q1_0_0", "find the key", "look", 1.0),
        verl("q1_0_2", "find the key", "take key", 1.0),
        verl("q1_0_1", "find the key", "open", 1.0),
        verl("q1_1_0", "find the key", "give up", 0.0),
        verl("q2_0_0", "moon?", "no", 0.0),
        verl("q2_1_0", "moon?", "yes", 1.0),
    ]
    put(tmp_path / "5.jsonl", *rows)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        means = run.steps[["samples", "reward_mean", "acc_mean", "pass_at_1"]]
        assert means.values.tolist() == [[6, 0.5, 0.5, 0.5]]
        assert run.groups(5)["samples"].tolist() == [2, 2]
        assert run.view.by_rows.step_values("reward").tolist() == pytest.approx([4 / 6])


def node(parent: int | None, text: str, tokens: int = 0) -> dict[str, Any]:
    message = {"role": "assistant" if tokens else "user", "content": text}
    return {"parent": parent, "message": message, "sampled": tokens > 0, "token_ids": [1] * max(tokens, 1),
            "mask": [tokens > 0] * max(tokens, 1), "logprobs": [-0.1] * tokens}  # fmt: skip


def traces(episode: str, *rewards: float, forked: bool = False, ids: bool = True) -> dict[str, Any]:
    """An episode with a trace for each reward; a forked trace has two branches."""
    nodes = [node(None, "Try twice."), node(0, "plan", 4), node(1, "first"), node(2, "A", 1)]
    nodes += [node(1, "second"), node(4, "BB", 1)] if forked else []
    made = [
        {"nodes": nodes, "rewards": {"right": {"score": reward, "weight": 1.0}}, "ok": True,
         "agent": {"name": "solver", "trainable": True}} | ({"id": f"{episode}-{number}"} if ids else {})
        for number, reward in enumerate(rewards)
    ]  # fmt: skip
    return {"id": episode, "task": {}, "group": {"id": "g"}, "ok": True, "traces": made,
            "run": {"type": "train", "work": {"type": "train", "step": 0}}}  # fmt: skip


def test_traces_of_prime_rl_are_scored_once_each(tmp_path: Path) -> None:
    """prime-rl's mean is over the traces: 1, 0 and 0.5, not over the four branches."""
    put(
        tmp_path / "rollouts" / "step_1" / "train" / "all" / "traces.jsonl",
        traces("e1", 1.0, forked=True),
        traces("e2", 0.0, 0.5),
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.steps[["samples", "reward_mean", "rewards/right_mean"]].values.tolist() == [[4, 0.5, 0.5]]
        assert run.groups(1)["samples"].tolist() == [3]
        # Both branches are trained, so their tokens count: the shared plan in the first of them only.
        assert run.samples()["response_tokens"].tolist() == [5, 1, 5, 5]
        assert run.steps["response_tokens_mean"].tolist() == [4]


def test_trajectories_of_one_agent_in_an_rllm_episode_keep_their_rewards(tmp_path: Path) -> None:
    """Three trajectories named solver have a reward each; the judge has one of its own."""
    names = [("solver", 1.0), ("solver", 0.0), ("solver", 0.5), ("judge", 0.25)]
    document = {
        "id": "task:0", "task": {"question": "2+2?"}, "termination_reason": "env_done", "is_correct": True,
        "trajectories": [
            {"name": name, "reward": reward, "steps": [{"chat_completions": [
                {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": str(reward)}]}]}
            for name, reward in names
        ],
    }  # fmt: skip
    folder = tmp_path / "episodes" / "train_step_3_epoch_0"
    folder.mkdir(parents=True)
    (folder / "episode_hashtask_id0.json").write_text(json.dumps(document, indent=2))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.steps[["samples", "reward_mean"]].values.tolist() == [[4, 0.4375]]
        assert run.samples()["trajectory"].fillna("").tolist() == ["0", "1", "2", ""]
        assert run.groups(3)["samples"].tolist() == [3]
