"""slime's dumps as native lines; tests/train tests files that torch itself wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.errors import RunNotFound
from rlpanel.sources.pickles.dump_worker import rows, trained_samples
from rlpanel.sources.slime_convert import convert
from tests.torch_dump import write_torch


def rollout(**fields: Any) -> dict[str, Any]:
    """Two samples of a group, as ``Sample.to_dict`` gives them; arrays where torch has tensors."""
    sample = {
        "group_index": 4, "index": 0, "prompt": "2 + 2?", "tokens": [5, 6, 7, 8], "response": "4.",
        "response_length": 2, "label": "4", "reward": 1.0, "loss_mask": [1, 1],
        "rollout_log_probs": [-0.1, -0.2], "status": "completed", "metadata": {"a": 1},
    }  # fmt: skip
    second = sample | {"index": 1, "status": "truncated", "reward": {"score": 0.25, "format": 1, "why": "x"}}
    return {"rollout_id": 3, "samples": [sample | fields, second]}


TRAINED = {
    "samples": [
        {"rollout_position": 1, "log_probs": np.array([-1.0, -2.0]), "advantages": np.array([0.5, 0.5])},
        {"rollout_position": 0, "log_probs": np.array([-3.0, -4.0]), "ref_log_probs": np.array([-5.0, -6.0])},
    ]
}


def opened(tmp_path: Path, name: str, *parts: dict[str, Any]) -> rlpanel.Run:
    text = "".join(json.dumps(row) + "\n" for row in rows(*parts, name))
    (tmp_path / name.replace(".pt", ".jsonl")).write_text(text)
    return rlpanel.open_run(tmp_path, follow=False)


def test_samples_are_joined_with_what_training_computed_for_them(tmp_path: Path) -> None:
    with opened(tmp_path, "3.pt", rollout(), TRAINED) as run:
        frame = run.samples()
        first, second = (run.sample(uid) for uid in frame["uid"])
    assert (first.step, first.group, first.prompt, first.response, first.ground_truth, first.reward) == (
        3, "4", "2 + 2?", "4.", "4", 1.0,
    )  # fmt: skip
    assert {name: array.tolist() for name, array in first.arrays().items()} == {
        "response_token_ids": [7, 8],
        "rollout_logprobs": [-0.1, -0.2],
        "loss_mask": [1, 1],
        "logprobs": [-3.0, -4.0],
        "ref_logprobs": [-5.0, -6.0],
    }
    assert second.logprobs is not None
    assert second.logprobs.tolist() == [-1.0, -2.0]
    assert (second.truncated, second.finish_reason, second.reward) == (1.0, "truncated", 0.25)
    assert frame[["rewards/format"]].fillna(-1).values.tolist() == [[-1.0], [1.0]]


def test_a_rollout_that_was_not_trained_on_yet_is_shown_without(tmp_path: Path) -> None:
    with opened(tmp_path, "3.pt", rollout(), {}) as run:
        assert run.sample(run.samples()["uid"][0]).logprobs is None


def test_weight_versions_are_the_versions_of_the_policy(tmp_path: Path) -> None:
    with opened(tmp_path, "3.pt", rollout(weight_versions=["3", "4", "6"]), {}) as run:
        versions = run.samples()[["policy_version_min", "policy_version_max"]]
    assert versions.fillna(-1).values.tolist() == [[3, 6], [-1, -1]]


@pytest.mark.parametrize(
    ("mask", "wanted"), [([1, 0, 1, 1], [3, 5, 5, 5]), ([1, 1, 1, 1], None), ([1, 0, 1, 0], [3, 5, 5, 5])]
)
def test_each_call_of_the_engine_has_its_version(mask: list[int], wanted: list[int], tmp_path: Path) -> None:
    """A tool's token between two calls counts as the second one's; a call that went on has no border."""
    sample = {"tokens": [9, 1, 2, 3, 4], "response_length": 4, "weight_versions": ["3", "5"]}
    sample |= {"rollout_log_probs": [-0.1] * 4, "loss_mask": mask}
    with opened(tmp_path, "3.pt", rollout(**sample), {}) as run:
        found = run.sample(run.samples()["uid"][0]).token_arrays.get("token_version")
    assert (None if found is None else found.tolist()) == wanted


def test_a_version_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    with opened(tmp_path, "3.pt", rollout(weight_versions=["main", "4"]), {}) as run:
        assert "policy_version_min" not in run.samples()


def test_eval_files_are_eval(tmp_path: Path) -> None:
    with opened(tmp_path, "eval_3.pt", rollout(), {}) as run:
        assert run.samples()["split"].tolist() == ["eval", "eval"]


def test_a_folder_without_dumps_says_which_to_give(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="--dump-details"):
        convert(tmp_path, tmp_path / "out")


def test_the_teachers_logprobs_and_other_arrays_of_training_are_kept(tmp_path: Path) -> None:
    trained = {
        "samples": [
            {"rollout_position": 0, "opd_reverse_kl": np.array([0.5, -0.5]), "total_length": 4},
            {"rollout_position": 1, "opd_reverse_kl": np.array([0.25, 0.0])},
        ]
    }
    with opened(tmp_path, "3.pt", rollout(teacher_log_probs=[-0.6, -0.1]), trained) as run:
        first = run.sample(run.samples()["uid"][0])
    assert first.teacher_logprobs is not None
    assert first.teacher_logprobs.tolist() == [-0.6, -0.1]
    assert first.token_arrays["opd_reverse_kl"].tolist() == [0.5, -0.5]


#: What miles writes as train_data/{id}_{rank}.pt, by save_debug_train_data_for_rank.
RANK = {
    "rollout_id": 3, "rank": 1, "cp_rank": 0, "cp_size": 1, "qkv_format": "thd",
    "rollout_data": {
        "sample_indices": [1, 0], "response_lengths": [2, 2], "total_lengths": [4, 4],
        "log_probs": [np.array([-1.0, -2.0]), np.array([-3.0, -4.0])], "raw_reward": [1.0],
    },
}  # fmt: skip


def test_ranks_of_miles_are_joined_by_the_samples_index(tmp_path: Path) -> None:
    trained = {"samples": trained_samples(RANK)}
    with opened(tmp_path, "3.pt", rollout(), trained) as run:
        first, second = (run.sample(uid) for uid in run.samples()["uid"])
    assert first.logprobs is not None
    assert second.logprobs is not None
    assert (first.logprobs.tolist(), second.logprobs.tolist()) == ([-3.0, -4.0], [-1.0, -2.0])
    assert trained_samples(RANK | {"cp_size": 2}) == []  # parts of sequences


def test_conversations_of_miles_are_joined_with_the_tokens(tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": "2 + 2?"}]
    answer = {"role": "assistant", "content": "4."}
    talk = {"sample_index": 0, "prompt": prompt, "messages": [*prompt, answer]}
    made = list(rows(rollout(), {}, "3.pt", {0: talk}))
    (tmp_path / "3.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        first = run.sample(run.samples()["uid"][0])
    assert [message["role"] for message in first.messages] == ["user", "assistant"]
    assert first.prompt_messages == 1
    assert first.rollout_logprobs is not None


def test_dumps_of_miles_are_converted_with_arrays_and_conversations(tmp_path: Path) -> None:
    first, second = rollout()["samples"]
    mask = {"loss_mask": np.array([1, 0])}
    write_torch(tmp_path / "rollout_data/3.pt", {"rollout_id": 3, "samples": [first | mask, second]})
    logprobs = [np.array([-1.0, -2.0], np.float32), np.array([-3.0, -4.0], np.float32)]
    for rank in (0, 1):
        columns = {"sample_indices": [1 - rank], "log_probs": [logprobs[rank]], "is_masked": [np.ones(2)]}
        dump = {"rollout_id": 3, "rank": rank, "cp_size": 1, "rollout_data": columns}
        write_torch(tmp_path / f"train_data/3_{rank}.pt", dump)
    prompt = [{"role": "user", "content": "2 + 2?"}]
    talk = {
        "sample_index": 0,
        "prompt": prompt,
        "messages": [*prompt, {"role": "assistant", "content": "4."}],
    }
    (tmp_path / "trajectory").mkdir()
    (tmp_path / "trajectory/3.jsonl").write_text(json.dumps(talk))
    done, again = convert(tmp_path), convert(tmp_path)
    assert (done.files, done.samples, done.alone, done.untrained, again.kept) == (1, 2, 1, 0, 1)
    with rlpanel.open_run(tmp_path / "rlpanel", follow=False) as run:
        one, two = (run.sample(uid) for uid in run.samples()["uid"])
    assert [message["role"] for message in one.messages] == ["user", "assistant"]
    assert {name: one.arrays()[name].tolist() for name in ("logprobs", "is_masked", "loss_mask")} == {
        "logprobs": [-3.0, -4.0], "is_masked": [1.0, 1.0], "loss_mask": [1.0, 0.0],
    }  # fmt: skip
    assert two.arrays()["logprobs"].tolist() == [-1.0, -2.0]
