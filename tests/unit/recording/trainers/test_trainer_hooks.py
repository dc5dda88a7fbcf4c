"""Hooks for frameworks that are not available here, tested on stand-ins with the published signatures."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.recording.openrlhf import record_experiences
from rlpanel.recording.verl import FIELDS, install, recording
from tests.unit.recording.trainers import standins


def rows(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "rollout_data_rank_0.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def long(completions: list[str], **_: Any) -> list[float | None]:
    return [float(len(text)) for text in completions]


def shy(completions: list[str], **_: Any) -> list[float | None]:
    return [None for _ in completions]


# -- any trainer with reward functions -------------------------------------------------------------


def test_a_trainer_without_the_hooked_methods_is_recorded_through_its_reward_functions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = standins.TrainerOfAnotherVersion(long, shy)
    with caplog.at_level(logging.WARNING), rlpanel.record(trainer, tmp_path):
        trainer.train(steps=2)
    assert [message for message in caplog.messages if "no logprobs" in message] == [
        "rlpanel: this TrainerOfAnotherVersion has no _generate_and_score_completions: rollouts come from "
        "its reward functions; no logprobs, ref_logprobs, advantages or entropies"
    ]
    keys = ("step", "response", "reward", "rewards", "group", "ground_truth", "response_tokens")
    assert [tuple(row[key] for key in keys) for row in rows(tmp_path)[:2]] == [
        (1, "bc", 2.0, {"long": 2.0, "shy": None}, "0-0", "yes", ["b", "c", "$"]),
        (1, "d", 1.0, {"long": 1.0, "shy": None}, "0-0", "no", ["d", "$"]),
    ]


@pytest.mark.parametrize(
    ("prompts", "groups"),
    [
        ("aabb", "0011"),
        ("abab", "0101"),  # OnlineDPOTrainer repeats the whole batch
        ("aaaa", "0011"),
        ("abaaba", "012012"),  # the same prompt twice in a batch
        ("abba", "0110"),
        ("aab", "001"),
    ],
)
def test_a_group_has_the_samples_of_one_prompt(tmp_path: Path, prompts: str, groups: str) -> None:
    trainer = standins.TrainerOfAnotherVersion(long)
    with rlpanel.record(trainer, tmp_path):
        trainer.train(
            steps=1, prompts=[*prompts], completions=[f"{number}" for number in range(len(prompts))]
        )
    assert [row["group"] for row in rows(tmp_path)] == [f"0-{number}" for number in groups]


def test_everything_is_put_back(tmp_path: Path) -> None:
    trainer = standins.TrainerOfAnotherVersion(long)
    before = dict(vars(trainer))
    taken = rlpanel.record(trainer, tmp_path)
    taken.close()
    taken.close()
    assert vars(trainer) == before
    assert trainer.reward_funcs == [long]


def test_steps_without_a_row_say_what_to_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = standins.TrainerOfAnotherVersion()
    with caplog.at_level(logging.WARNING), rlpanel.record(trainer, tmp_path):
        trainer.train(steps=6)
    assert len([message for message in caplog.messages if "no rollout was recorded" in message]) == 1


def test_without_a_folder_the_environment_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = standins.TrainerOfAnotherVersion(long)
    monkeypatch.delenv("SAVE_ROLLOUT_DATA", raising=False)
    assert rlpanel.record(trainer).writer is None
    monkeypatch.setenv("SAVE_ROLLOUT_DATA", "true")
    monkeypatch.setenv("EXP_NAME", "exp1")
    monkeypatch.setenv("ROLLOUT_DATA_DIR", str(tmp_path))
    with rlpanel.record(trainer):
        trainer.train(steps=1)
    assert len(rows(tmp_path / "rollout_samples" / "exp1")) == 2
    monkeypatch.setenv("SAVE_ROLLOUT_DATA", "false")
    assert rlpanel.record(trainer, tmp_path / "given").writer is None


# -- verl ------------------------------------------------------------------------------------------


def check_verl(found: list[dict[str, Any]]) -> None:
    assert [(row["step"], row["group"], row["prompt"], row["response"]) for row in found] == [
        (3, "u1", "ab", "bc"),
        (3, "u2", "aab", "df"),  # the tool's "e" is no word of the policy
    ]
    assert [(row["reward"], row["logprobs"], row.get("loss_mask")) for row in found] == [
        (1.0, [-1.0, -2.0, -3.0], None),
        (0.25, [-1.0, -1.0, -1.0, -1.0], [1, 0, 1, 1]),
    ]
    assert found[0]["ref_logprobs"] == [-1.5, -2.0, -3.0]


def test_the_older_trainer_of_verl(tmp_path: Path) -> None:
    trainer = recording(standins.RayPPOTrainer, tmp_path)()
    batch = SimpleNamespace(batch=standins.verl_batch(), non_tensor_batch={"uid": np.array(["u1", "u2"])})
    trainer._log_rollout_data(batch, {}, {}, "dump")
    trainer._rlpanel_hook.writer.close()
    assert trainer.dumped == 1
    check_verl(rows(tmp_path))


def test_responses_of_verl_end_with_their_last_token_that_is_no_padding(tmp_path: Path) -> None:
    """The token that pads may also end a response; a response without a token in the loss is kept."""
    contents = standins.verl_batch() | {
        "responses": np.array([[3, 4, 0, 0], [5, 6, 7, 0]]),
        "response_mask": np.array([[1, 1, 1, 0], [0, 0, 0, 0]]),
    }
    trainer = recording(standins.RayPPOTrainer, tmp_path)()
    trainer._log_rollout_data(SimpleNamespace(batch=contents, non_tensor_batch={}), {}, {}, "dump")
    trainer._rlpanel_hook.writer.close()
    names = ("response_token_ids", "response", "loss_mask")
    assert [[row.get(name) for name in names] for row in rows(tmp_path)] == [
        [[3, 4, 0], "bc", None],
        [[5, 6, 7], "def", [0, 0, 0]],
    ]


def test_v1_of_verl_by_its_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry: dict[str, type] = {"sync": standins.PPOTrainerSync}

    def kv_batch_get(*, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        assert (keys, partition_id) == (["u1_0_0", "u2_0_0"], "train")
        return {name: standins.verl_batch()[name] for name in select_fields}  # KeyError for missing fields

    monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=kv_batch_get))
    install(registry, dir=tmp_path)
    modes = install(registry, dir=tmp_path)  # a second call changes nothing
    trainer = registry["sync"]()
    trainer._log_rollout_data(SimpleNamespace(keys=["u1_0_0", "u2_0_0"], partition_id="train"), {}, "dump")
    trainer._rlpanel_hook.writer.close()
    assert (modes, trainer.dumped) == (["sync"], 1)
    check_verl(rows(tmp_path))
    assert "values" in FIELDS  # requested, but missing in this run


def record_v1(folder: Path, monkeypatch: pytest.MonkeyPatch, **batch: Any) -> list[dict[str, Any]]:
    """Record a batch of V1 whose queue holds the same contents under each key."""
    contents = standins.verl_batch()

    def kv_batch_get(*, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        return {name: np.stack([contents[name][0]] * len(keys)) for name in select_fields}

    monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=kv_batch_get))
    trainer = recording(standins.PPOTrainerSync, folder)()
    trainer._log_rollout_data(SimpleNamespace(partition_id="train", **batch), {}, "dump")
    trainer._rlpanel_hook.writer.close()
    return rows(folder) if (folder / "rollout_data_rank_0.jsonl").exists() else []


def test_v1s_rows_say_session_turn_and_versions_of_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = [
        {"global_steps": 3, "min_global_steps": 1, "max_global_steps": 2},
        {"global_steps": 3, "min_global_steps": None, "max_global_steps": None},
    ]
    first, second = record_v1(tmp_path, monkeypatch, keys=["u_1_0_0", "u_1_12_3"], tags=tags)
    names = ("group", "episode", "rollout_session", "turn", "min_global_steps", "max_global_steps")
    assert [first[name] for name in names] == ["u_1", "u_1_0", 0, 0, 1, 2]
    assert (first["policy_version"], first["trainer_version"]) == ([1, 2], first["step"] - 1)
    assert "policy_version" not in second
    assert [second.get(name, "absent") for name in names] == ["u_1", "u_1_12", 12, 3, "absent", "absent"]


@pytest.mark.parametrize(
    "padding",
    [
        {"keys": ["u1_0_0", f"pad{'0f' * 16}_0_0", f"pad{'0f' * 16}_11_0"]},
        {"keys": ["u1_0_0", "x_0_0", "x_1_0"], "tags": [{}, {"is_padding": True}, {"is_padding": True}]},
        {"keys": ["u1_0_0"], "tags": [{"is_padding": False}]},
    ],
    ids=["by key", "by tag", "none"],
)
def test_rows_that_fill_a_batch_of_v1_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: dict[str, Any]
) -> None:
    assert [row["group"] for row in record_v1(tmp_path, monkeypatch, **padding)] == ["u1"]


def test_a_batch_of_padding_alone_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert record_v1(tmp_path, monkeypatch, keys=[f"pad{'0f' * 16}_0_0"]) == []
    assert caplog.messages == []


def test_a_prompt_whose_uid_begins_like_padding_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ["pad_0_0", f"pad{'0f' * 16}_0_1", f"pad{'0f' * 15}_0_0", f"pad{'0g' * 16}_0_0"]
    found = record_v1(tmp_path, monkeypatch, keys=keys)
    assert [row["group"] for row in found] == [key.rsplit("_", 2)[0] for key in keys]


# -- OpenRLHF --------------------------------------------------------------------------------------


def test_openrlhf(tmp_path: Path) -> None:
    maker = standins.RemoteExperienceMaker()
    tap = record_experiences(maker, tmp_path, first_step=5)
    maker.compute_advantages_and_returns([standins.experience()])
    maker.compute_advantages_and_returns([standins.experience()])
    tap.close()
    keys = ("step", "group", "response", "reward", "truncated", "logprobs", "ref_logprobs", "advantages")
    assert [tuple(row[key] for key in keys) for row in rows(tmp_path)[:2]] == [
        (5, "0", "c", 1.0, False, [-1.0, -2.0], [-1.5, -2.0], [2.0, 4.0]),
        (5, "0", "d", 0.0, True, [-3.0, -4.0], [-3.0, -3.5], [6.0, 8.0]),
    ]
    assert rows(tmp_path)[2]["step"] == 6
    assert "compute_advantages_and_returns" not in vars(maker)


def test_openrlhfs_environment_tokens_are_masked_and_images_are_named(tmp_path: Path) -> None:
    maker, batch = standins.RemoteExperienceMaker(), standins.experience()
    batch.action_mask[0] = [1, 0, 1]
    batch.images = [["a/b.png"], None]
    tap = record_experiences(maker, tmp_path)
    maker.compute_advantages_and_returns([batch])
    tap.close()
    first, second = rows(tmp_path)
    assert (first["response_tokens"], first["loss_mask"], first["response"]) == (
        ["b", "c", "$"],
        [1, 0, 1],
        "b",
    )
    assert first["logprobs"] == [0.0, -1.0, -2.0]
    assert first["images"] == ["a/b.png"]
    assert second.keys().isdisjoint({"loss_mask", "images"})
