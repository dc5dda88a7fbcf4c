"""Hooks that get a trainer's own samples.

Those of slime and miles were made by the trainers' classes; others have the same shape as in `make upstream`,
which calls the hooks from the trainers' code.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import rlpanel
from rlpanel.recording import slime, tinker_cookbook
from rlpanel.recording.agent_lightning import recording_hooks
from rlpanel.recording.skyrl import TrajectoryLogger
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


# -- SkyRL -----------------------------------------------------------------------------------------


class Letters:
    """A tokenizer with one token per character."""

    def decode(self, ids: Any, **_: Any) -> str:
        return "".join(map(chr, ids))


def ids(text: str) -> list[int]:
    return list(map(ord, text))


def trajectory(name: str, repetition: int) -> Any:
    text = f"{name}_{repetition}"
    return SimpleNamespace(instance_id=name, repetition_id=repetition, to_string=lambda: text)


def skyrl_output(**more: Any) -> dict[str, Any]:
    return {
        "prompt_token_ids": [ids("q"), ids("q add =4"), ids("q")],
        "response_ids": [ids("add"), ids("4"), ids("5")],
        "rewards": [[0.0, 0.0, 0.0], [1.0], [0.5]],
        "loss_masks": [[1, 1, 1], [1], [1]],
        "stop_reasons": ["stop", "stop", "length"],
        "rollout_logprobs": [[-0.5] * 3, [-0.25], [-1.0]],
        "trajectory_ids": [trajectory("u", 0), trajectory("u", 0), trajectory("u", 1)],
        "is_last_step": [False, True, True],
        **more,
    }


def test_skyrls_step_wise_rows_have_an_episode_and_a_turn(tmp_path: Path) -> None:
    table: list[Any] = []
    beside = SimpleNamespace(log=lambda **values: table.append(values))
    logger = TrajectoryLogger(dir=tmp_path, beside=beside)
    batch = {"prompts": ["of another length"], "tokenizer": Letters(), "wandb_key": "trajectories/train"}
    logger.log(generator_output=skyrl_output(), global_step=7, **batch)
    logger.flush()
    found = read(tmp_path)
    assert [(each.step, each.group, each.episode, each.columns["turn"]) for each in found] == [
        (7, "u", "u_0", 0), (7, "u", "u_0", 1), (7, "u", "u_1", 0),
    ]  # fmt: skip
    assert [(each.prompt, each.response, each.reward, each.truncated) for each in found] == [
        ("q", "add", 0.0, 0), ("q add =4", "4", 1.0, 0), ("q", "5", 0.5, 1),
    ]  # fmt: skip
    assert found[1].arrays()["rollout_logprobs"].tolist() == [-0.25]
    assert len(table) == 1


def test_skyrls_evaluation_outside_of_training_is_step_0(tmp_path: Path) -> None:
    logger = TrajectoryLogger(dir=tmp_path)
    plain = skyrl_output(
        trajectory_ids=None, is_last_step=None, rewards=[0.0, 1.0, 0.5], rollout_logprobs=None
    )
    logger.log(generator_output=plain, tokenizer=Letters(), global_step=None, wandb_key="trajectories/eval")
    logger.flush()
    assert [(each.step, each.episode, each.reward) for each in read(tmp_path, "eval")] == [
        (0, None, 0.0), (0, None, 1.0), (0, None, 0.5),
    ]  # fmt: skip


# -- Agent-Lightning -------------------------------------------------------------------------------


def agent_lightning_modules(monkeypatch: pytest.MonkeyPatch, completed: Any) -> Any:
    """Put stand-ins of Agent-Lightning's hooks and manager in place, and return the manager."""

    class RolloutHooks:
        def on_startup(self, store: Any | None = None) -> None: ...

    class AglRolloutManagerBase:
        _step = 3

        def _build_completed_rollout(self, enqueued_rollout: Any, rollout: Any) -> Any:
            return completed

    hooks, managers = ModuleType("agentlightning.hooks"), ModuleType("agl_rollout_manager")
    hooks.RolloutHooks = RolloutHooks  # type: ignore[attr-defined]
    managers.AglRolloutManagerBase = AglRolloutManagerBase  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agentlightning.hooks", hooks)
    monkeypatch.setitem(sys.modules, "agentlightning.verl.agl_rollout_manager", managers)
    return AglRolloutManagerBase()


def completed_rollout(**more: Any) -> Any:
    triplets = [
        SimpleNamespace(
            prompt={"token_ids": ids("q")}, response={"token_ids": ids("a"), "log_probs": [-0.5]}
        ),
        SimpleNamespace(
            prompt={"token_ids": ids("qa?")}, response={"token_ids": ids("4"), "log_probs": None}
        ),
    ]
    values = {
        "data_id": "d", "rollout_id": "r", "final_reward": 1.0, "triplets": triplets, "events": [],
        "rollout_state": "succeeded", "error_message": None, "input": {"answer": "4"},
        "enqueue_time": 5.0, "running_at": 6.0,
    }  # fmt: skip
    return SimpleNamespace(**values | more)


def test_agent_lightnings_rollouts_are_recorded_once_with_the_step_that_trains_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = agent_lightning_modules(monkeypatch, completed_rollout())
    for _ in range(2):
        recording_hooks(tmp_path)().on_startup()
    manager._build_completed_rollout(None, SimpleNamespace(is_train=True))
    type(manager)._build_completed_rollout._rlpanel_rows.flush()
    first, second = read(tmp_path)
    assert [(each.step, each.group, each.episode, each.reward) for each in (first, second)] == [
        (3, "d", "r", 1)
    ] * 2
    assert (first.columns["turn"], second.columns["turn"], first.ground_truth) == (0, 1, "4")
    assert first.arrays()["rollout_logprobs"].tolist() == [-0.5]
    assert second.timing["queue"] == 1.0


def test_a_rollout_of_agent_lightning_without_requests_is_a_failure_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = completed_rollout(
        triplets=[], final_reward=None, rollout_state="failed", error_message="evicted"
    )
    manager = agent_lightning_modules(monkeypatch, failed)
    recording_hooks(tmp_path)().on_startup()
    manager._build_completed_rollout(None, SimpleNamespace(is_train=True))
    type(manager)._build_completed_rollout._rlpanel_rows.flush()
    (sample,) = read(tmp_path, "discarded")
    assert (sample.status, sample.status_reason) == ("environment_error", "evicted")


# -- tinker-cookbook -------------------------------------------------------------------------------


def test_tinkers_trajectories_get_their_tokens_from_both_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serialize(*, split: str, iteration: int, trajectory_groups_P: Any) -> list[dict[str, Any]]:
        values = {"split": split, "iteration": iteration, "group_idx": 0, "traj_idx": 0, "tags": ["math"]}
        return [values | {"total_reward": 1.0, "sampling_client_step": 2, "trajectory_metrics": {"ok": 1.0}}]

    modules = {name: ModuleType(name) for name in tinker_cookbook._MODULES}
    for name, module in modules.items():
        module.serialize_rollout_summaries = serialize  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    rows = tinker_cookbook.install(Letters(), tmp_path)
    assert tinker_cookbook.install() is rows

    def step(seen: str, said: str, **metrics: float) -> Any:
        action = SimpleNamespace(tokens=ids(said), maybe_logprobs=[-0.5] * len(said), stop_reason="stop")
        chunks = [SimpleNamespace(tokens=ids(seen)), SimpleNamespace(location="an image")]
        return SimpleNamespace(ob=SimpleNamespace(chunks=chunks), ac=action, reward=0.5, metrics=metrics)

    turns = [step("q", "add"), step("qadd=4", "4", **{"stop/max_turns": 1.0})]
    group = SimpleNamespace(trajectories_G=[SimpleNamespace(transitions=turns, stop_reason=None)])
    for split, module in zip(("train", "eval/aime"), modules.values(), strict=True):
        module.serialize_rollout_summaries(split=split, iteration=4, trajectory_groups_P=[group])
    rows.flush()
    (trained,), (evaluated,) = read(tmp_path), read(tmp_path, "eval")
    assert (trained.step, trained.prompt, trained.response, trained.reward) == (4, "q", "add4", 1.0)
    assert trained.arrays()["loss_mask"].tolist() == [1, 1, 1, 0, 0, 1]
    assert (trained.columns["lag"], trained.status, trained.finish_reason) == (2, "truncated", "max_turns")
    assert (evaluated.group, evaluated.episode) == ("aime:0", "aime:0-0")
