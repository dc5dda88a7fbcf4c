"""Hooks that get a trainer's own samples, on samples that the trainers' classes made."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rlpanel
from rlpanel.recording import slime
from rlpanel.schema import Sample
from rlpanel.slime_samples import sample_rows

DATA = Path(__file__).parents[2] / "data" / "hooks"


class Saved:
    """A sample with the fields that ``Sample.to_dict`` of the trainer returned."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return dict(self.fields)


def samples(values: Any) -> Any:
    return [samples(value) if isinstance(value, list) else Saved(value) for value in values]


def flat(values: Any) -> list[dict[str, Any]]:
    return [each for value in values for each in (flat(value) if isinstance(value, list) else [value])]


def read(folder: Path, split: str = "train") -> list[Sample]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty, run.errors
        shown = run.split(split)
        return [shown.sample(uid) for uid in shown.samples()["uid"]]


# -- slime and miles -------------------------------------------------------------------------------


@pytest.fixture
def batch() -> dict[str, Any]:
    """Samples of one training rollout, nested as trainers nest them, and of an evaluation.

    The classes of slime and of miles gave the same values; those that are empty are left out.
    """
    found: dict[str, Any] = json.loads((DATA / "slime-624b824a8-miles-31f1ca961.json").read_text("utf-8"))
    return found


def arguments(folder: Path, **more: Any) -> Any:
    return SimpleNamespace(save=str(folder), reward_key=None, eval_reward_key=None, **more)


def recorded(folder: Path) -> Path:
    slime.flush()
    return folder / "rollout_samples" / folder.name


def test_samples_are_recorded_as_convert_reads_their_dump(batch: dict[str, Any], tmp_path: Path) -> None:
    assert slime.log(5, arguments(tmp_path), samples(batch["training"]), {}, 1.5) is False
    lines = (recorded(tmp_path) / "rollout_data_rank_0.jsonl").read_text("utf-8").splitlines()
    written = [json.loads(line) for line in lines]
    expected = list(sample_rows(flat(batch["training"])))
    assert [
        {key: row[key] for key in fields} for row, fields in zip(written, expected, strict=True)
    ] == expected
    assert {row["step"] for row in written} == {5}


def test_every_field_of_a_sample_is_right(batch: dict[str, Any], tmp_path: Path) -> None:
    slime.log(5, arguments(tmp_path), samples(batch["training"]), {}, 1.5)
    found = read(recorded(tmp_path))
    assert [(each.group, each.response, each.reward, each.status, each.episode) for each in found] == [
        ("0", "<a>4四🙂", 1.0, "ok", None),
        ("0", "five", 0.0, "truncated", None),
        ("1", "Titan", 1.0, "ok", None),
        ("1", "Mars", 0.25, "tool_error", None),
        ("2", "1+2", 0.0, "ok", "7"),  # one rollout that the agent split into two samples
        ("2", "=3", 1.0, "ok", "7"),
        ("2", "9", 0.0, "ok", None),
    ]
    (aborted,) = read(recorded(tmp_path), "discarded")
    assert (aborted.response, aborted.finish_reason) == ("Ma", "aborted")
    tool, removed = found[0], found[3]
    assert tool.prompt == "[system] Use the tool.\n[user] 2 + 2 等于几？ 🙂"
    assert tool.arrays()["rollout_logprobs"].tolist() == [-0.125 * (place + 1) for place in range(6)]
    assert tool.arrays()["response_token_ids"].tolist() == list(map(ord, "<a>4四🙂"))
    assert tool.arrays()["loss_mask"].tolist() == [1, 1, 1, 0, 1, 1]
    assert (tool.columns["policy_version_min"], tool.columns["policy_version_max"]) == (3, 4)
    assert tool.columns["rewards/format"] == 0.5
    assert removed.arrays()["loss_mask"].tolist() == [0] * 4, "remove_sample takes it out of the loss"


def test_evaluations_keep_their_data_set_and_its_reward(batch: dict[str, Any], tmp_path: Path) -> None:
    args = arguments(tmp_path)
    args.eval_reward_key = "acc"
    data = {name: part | {"samples": samples(part["samples"])} for name, part in batch["evaluation"].items()}
    assert slime.log_eval(5, args, data, None) is False
    found = read(recorded(tmp_path), "eval")
    assert [(each.prompt, each.response, each.reward) for each in found] == [
        ("aime?", "yes", 1.0), ("aime?", "n", 0.0), ("gsm8k?", "yes", 1.0), ("gsm8k?", "n", 0.0),
    ]  # fmt: skip
    assert [each.extra["data_source"] for each in found] == ["aime", "aime", "gsm8k", "gsm8k"]


def test_equal_groups_of_two_data_sets_are_two_groups(tmp_path: Path) -> None:
    fields = {"group_index": 0, "prompt": "2 + 2?", "response": "4", "reward": 1.0, "status": "completed"}
    data = {name: {"samples": [Saved(fields)]} for name in ("aime", "gsm8k")}
    slime.log_eval(5, arguments(tmp_path), data)
    assert [each.group for each in read(recorded(tmp_path), "eval")] == ["aime:0", "gsm8k:0"]


def test_an_error_of_recording_is_logged_once_and_never_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slime, "_ROWS", slime.HookRows())
    with caplog.at_level(logging.WARNING):
        for step in (1, 2):
            assert slime.log(step, arguments(tmp_path), [object()], {}, 1.5) is False
    assert len([message for message in caplog.messages if "slime's rollouts is no longer" in message]) == 1


def test_the_environment_turns_hooks_off_and_names_their_folder(
    batch: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAVE_ROLLOUT_DATA", "false")
    slime.log(5, arguments(tmp_path / "off"), samples(batch["training"]), {}, 1.5)
    monkeypatch.delenv("SAVE_ROLLOUT_DATA")
    monkeypatch.setenv("ROLLOUT_DATA_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("EXP_NAME", "exp1")
    slime.log(5, arguments(tmp_path / "off"), samples(batch["training"]), {}, 1.5)
    slime.flush()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["named"]
    assert len(read(tmp_path / "named" / "rollout_samples" / "exp1")) == 7
