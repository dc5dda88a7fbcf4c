"""Trainers that Ray wraps: their base classes record once a worker has imported them."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlpanel.recording import ray
from tests.unit.recording.trainers import standins
from tests.waiting import wait_until

#: Modules as verl and OpenRLHF lay them out, with base classes that are not decorated.
MODULES = {
    "verl.trainer.ppo.ray_trainer": """
from tests.unit.recording.trainers import standins

class RayPPOTrainer(standins.RayPPOTrainer):
    def _log_rollout_data(self, batch, reward_extra_infos_dict, timing_raw, rollout_data_dir):
        self.dumped += 1
""",
    "openrlhf.trainer.ppo_trainer": """
class BasePPOTrainer:
    def train_step(self, rollout_samples, global_step):
        self.experience_maker.compute_advantages_and_returns(rollout_samples)
        return {}, global_step + 1
""",
}


@pytest.fixture(autouse=True)
def trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the trainers' modules importable, and forget them and the hook after the test."""
    for name, text in MODULES.items():
        path = (tmp_path / "packages").joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for part in range(1, len(name.split(".")) + 1):
            monkeypatch.delitem(sys.modules, ".".join(name.split(".")[:part]), raising=False)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


def rows(folder: Path, count: int) -> list[dict[str, Any]]:
    file = folder / "rollout_data_rank_0.jsonl"
    wait_until(lambda: file.exists() and len(file.read_text("utf-8").splitlines()) == count)
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def verl_batch(**columns: Any) -> Any:
    values = {"uid": ["u1", "u2"], **columns}
    return SimpleNamespace(
        batch=standins.verl_batch(),
        non_tensor_batch={name: np.array(value) for name, value in values.items()},
    )


def async_trainer() -> Any:
    """Return verl's asynchronous trainer, which counts versions of the weights besides steps."""
    module = importlib.import_module("verl.trainer.ppo.ray_trainer")
    kind = type("FullyAsyncTrainer", (module.RayPPOTrainer,), {})
    trainer = kind()
    trainer.current_param_version, trainer.local_trigger_step = 2, 1
    return trainer


@pytest.mark.parametrize("first", ["hook", "trainer"])
def test_verls_base_class_records_whichever_is_imported_first(tmp_path: Path, first: str) -> None:
    if first == "trainer":
        importlib.import_module("verl.trainer.ppo.ray_trainer")
    ray.install()
    ray.install()
    trainer = async_trainer()
    batch = verl_batch(min_global_steps=[0, 1], max_global_steps=[1, 1])
    trainer._log_rollout_data(batch, {}, {}, str(tmp_path / "out" / "dump"))
    found = rows(tmp_path / "out" / "rollout_samples" / "out", 2)
    assert [(row["step"], row["group"], row["reward"], row["policy_version"]) for row in found] == [
        (3, "u1", 1.0, [0, 1]), (3, "u2", 0.25, [1, 1]),
    ]  # fmt: skip
    assert {row["trainer_version"] for row in found} == {1}, "the update that ended version 1 made version 2"
    assert trainer.dumped == 1, "verl's own dump is still written"


def test_a_trainer_that_records_by_itself_is_not_recorded_twice(tmp_path: Path) -> None:
    from rlpanel.recording.verl import recording

    ray.install()
    base = importlib.import_module("verl.trainer.ppo.ray_trainer").RayPPOTrainer
    recording(base, tmp_path / "own")()._log_rollout_data(
        verl_batch(), {}, {}, str(tmp_path / "out" / "dump")
    )
    assert len(rows(tmp_path / "own", 2)) == 2
    assert not (tmp_path / "out").exists()


def test_openrlhfs_trainers_record_with_the_step_of_the_trainer(tmp_path: Path) -> None:
    ray.install()
    kind = importlib.import_module("openrlhf.trainer.ppo_trainer").BasePPOTrainer
    trainer = kind()
    trainer.experience_maker = standins.RemoteExperienceMaker()
    trainer.args = SimpleNamespace(ckpt=SimpleNamespace(output_dir=str(tmp_path / "ckpt")))
    for resumed_at in (10, 11):
        assert trainer.train_step([standins.experience()], resumed_at) == ({}, resumed_at + 1)
    found = rows(tmp_path / "ckpt" / "rollout_samples" / "ckpt", 4)
    assert [(row["step"], row["response"]) for row in found] == [(11, "c"), (11, "d"), (12, "c"), (12, "d")]


def test_an_error_of_recording_does_not_reach_the_trainer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ray.install()
    (tmp_path / "out").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        trainer = async_trainer()
        trainer._log_rollout_data(verl_batch(), {}, {}, str(tmp_path / "out" / "dump"))
    assert trainer.dumped == 1
    assert [message for message in caplog.messages if "verl's rollouts is no longer recorded" in message]


def test_the_environment_gets_the_hook_unless_it_has_another(caplog: pytest.LogCaptureFixture) -> None:
    assert ray.runtime_env({"env_vars": {"A": "1"}}) == {
        "env_vars": {"A": "1"}, "worker_process_setup_hook": "rlpanel.recording.ray.install",
    }  # fmt: skip
    assert ray.runtime_env(None) == {"worker_process_setup_hook": "rlpanel.recording.ray.install"}
    with caplog.at_level(logging.WARNING):
        other = {"worker_process_setup_hook": "mine.setup"}
        assert ray.runtime_env(other) == other
    assert "call rlpanel.recording.ray.install()" in caplog.text
