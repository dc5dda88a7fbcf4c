"""rlpanel's hooks, called by frameworks' own code: ``python -m tests.upstream.writers_hooks NAME FOLDER``.

Runs with the Python of the training environment, as `tests.upstream.writers`.
"""

from __future__ import annotations

import dataclasses
import importlib
import random
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from tests.upstream.sources import SOURCES, load


class Letters:
    """A tokenizer with one token per character; 1 ends a response."""

    def decode(self, ids: Any, skip_special_tokens: bool = False, **_: Any) -> str:
        return "".join(("" if skip_special_tokens else "$") if each == 1 else chr(each) for each in ids)


def tokens(text: str) -> list[int]:
    """Return the ids of a text, in which $ ends a response."""
    return [1 if letter == "$" else ord(letter) for letter in text]


# -- SkyRL -------------------------------------------------------------------------------------------


def skyrl(folder: Path) -> None:
    """Log a step of training, plain and step-wise, and a step-wise evaluation."""
    from rlpanel.recording.skyrl import TrajectoryLogger

    kinds = load("skyrl/train/generators/base.py", "TrajectoryID", dataclass=dataclasses.dataclass)
    views = load(
        "skyrl/train/evaluate.py", "_EvalRows", "_scored_view", "_rows_for_output", Counter=Counter,
        dataclass=dataclasses.dataclass, field=dataclasses.field,
    )  # fmt: skip
    table: list[Any] = []
    tracker = SimpleNamespace(backend="wandb", log_samples_to_table=lambda **values: table.append(values))
    own = load(
        "skyrl/train/utils/trajectory_logging.py", "TrajectoryLogger", dataclasses=dataclasses, random=random,
        **dict.fromkeys(("Optional", "Dict", "List", "Sequence"), Any), Tuple=tuple,
    ).TrajectoryLogger()  # fmt: skip
    logger = TrajectoryLogger(folder / "exports", beside=own)
    common = {"tracker": tracker, "num_samples": 2, "tokenizer": Letters()}
    names = [kinds.TrajectoryID("q1", 0), kinds.TrajectoryID("q1", 0), kinds.TrajectoryID("q1", 1)]
    inputs = {
        "prompts": [[{"role": "user", "content": "2 + 2?"}]] * 2, "env_classes": ["math"] * 2,
        "env_extras": None, "trajectory_ids": [names[0], names[2]],
    }  # fmt: skip
    stepwise = {
        "prompt_token_ids": [tokens("2 + 2?"), tokens("2 + 2?add(2,2)=4"), tokens("2 + 2?")],
        "response_ids": [tokens("add(2,2)"), tokens("4$"), tokens("five")],
        "loss_masks": [[1] * 8, [1, 1], [1] * 4],
        "stop_reasons": ["stop", "stop", "length"],
        "rollout_logprobs": [[-0.125] * 8, [-0.25, -0.5], [-1.0] * 4],
        "trajectory_ids": names, "is_last_step": [False, True, True], "rollout_metrics": {"a": 1},
        "env_metrics": [{}, {"calls": 1}, {"calls": 0}],
    }  # fmt: skip
    rewards = {"rewards": [[0.0] * 8, [0.0, 1.0], [0.0] * 4]}
    logger.log(
        prompts=inputs["prompts"], generator_output=stepwise | rewards, global_step=3, include_idx=False,
        wandb_key="trajectories/train", **common,
    )  # fmt: skip
    evaluated = stepwise | {"rewards": [0.0, 1.0, 0.25]}
    rows = views._rows_for_output(inputs, ["q1", "q1"], evaluated, step_wise=True)
    view, scored, turns = views._scored_view(evaluated, rows, step_wise=True)
    logger.log(
        prompts=scored.prompts, generator_output=view, global_step=3, num_turns_list=turns,
        wandb_key="trajectories/eval", **common,
    )  # fmt: skip
    # A batch that dynamic sampling has replaced: the prompts passed are those before it.
    plain = {key: value[2:] * 2 for key, value in (stepwise | rewards).items() if isinstance(value, list)}
    plain |= {
        "trajectory_ids": None,
        "is_last_step": None,
        "env_metrics": None,
        "loss_masks": [[1, 1, 0, 1]] * 2,
    }
    plain["trajectory_time_splits"] = {"llm": [1.5, 2.0], "env": [0.5, 0.25]}
    logger.log(
        prompts=["another", "prompt"], generator_output=plain, global_step=4, include_idx=False,
        wandb_key="trajectories/train", **common,
    )  # fmt: skip
    logger.flush()
    assert [each["step"] for each in table] == [3, 3, 4], "SkyRL's own table is still written"


# -- Agent-Lightning ---------------------------------------------------------------------------------


def agent_lightning(folder: Path) -> None:
    """Complete the rollouts of two steps with the real managers, hooks and schemas, without its server."""
    sys.path.insert(0, str(next(SOURCES.glob("agentlightning"))))
    sys.modules["agentlightning.client"] = SimpleNamespace(AgentLightningSyncClient=lambda **_: None)  # type: ignore[assignment]
    sys.modules["httpx_retries"] = SimpleNamespace(Retry=dict, RetryTransport=lambda **_: None)  # type: ignore[assignment]
    managers = importlib.import_module("agentlightning.verl.agl_rollout_manager")
    schemas = importlib.import_module("agentlightning.schemas")
    (folder / "hooks.py").write_text(
        "from rlpanel.recording.agent_lightning import recording_hooks\n"
        f"RecordingHooks = recording_hooks({str(folder / 'recorded')!r})\n"
    )
    hooks = importlib.import_module("agentlightning.hooks").load_hooks(str(folder / "hooks.py"))
    hooks.on_startup()

    chat = [{"role": "user", "content": "2 + 2?"}]

    def request(
        messages: list[dict[str, str]], prompt: str, answer: str, reason: str = "stop"
    ) -> dict[str, Any]:
        choice = {"message": {"role": "assistant", "content": answer}, "token_ids": tokens(answer)}
        return {
            "request": {"messages": messages}, "status": "ok", "http_status": 200, "finish_reason": reason,
            "response": {"prompt_token_ids": tokens(prompt), "choices": [choice]},
        }  # fmt: skip

    def events(rollout: str) -> list[dict[str, Any]]:
        if rollout == "r0":
            told = [*chat, {"role": "assistant", "content": "add(2,2)"}, {"role": "user", "content": "=4"}]
            return [
                request(chat, "2 + 2?", "add(2,2)"),
                request(told, "2 + 2?add(2,2)=4", "4"),
                {"value": 1.0},
            ]
        return [request(chat, "2 + 2?", "five", "length"), {"value": 0.0}] if rollout == "r1" else []

    def event(rollout: str, data: dict[str, Any]) -> Any:
        kind = "reward" if "value" in data else "model_request"
        return schemas.Event(event_type=kind, rollout_id=rollout, attempt_id="0", timestamp=5.0, data=data)

    def triplet(data: dict[str, Any]) -> dict[str, Any]:
        if "value" in data:
            return data
        choice = data["response"]["choices"][0]
        return {
            "prompt_token_ids": data["response"]["prompt_token_ids"],
            "response_token_ids": choice["token_ids"],
            "response_log_probs": [-0.5] * len(choice["token_ids"]), "status": "ok", "http_status": 200,
        }  # fmt: skip

    class Without(managers.AglRolloutManager):  # type: ignore[misc,name-defined]
        def _get_rollout(self, rollout_id: str) -> Any:
            state = schemas.RolloutState.FAILED if rollout_id == "r2" else schemas.RolloutState.SUCCEEDED
            error = "the pod was evicted" if rollout_id == "r2" else None
            status = schemas.RolloutLifecycleStatus(
                state=state, error_message=error, created_at=1.0, updated_at=9.0, last_attempt_id="0"
            )
            return schemas.Rollout(
                rollout_id=rollout_id, input={"question": "2 + 2?", "answer": "4"}, is_train=self.is_train,
                config=schemas.RolloutConfig(), status=status,
            )  # fmt: skip

        def _get_events(self, rollout_id: str, *, format: str | None = None, **_: Any) -> list[Any]:
            shown = triplet if format == "triplet" else lambda data: data
            return [event(rollout_id, shown(data)) for data in events(rollout_id)]

        def _create_rollouts(self, data: dict[str, Any], *, is_train: bool) -> list[Any]:
            self.is_train = is_train
            return [
                managers.EnqueuedRollout(
                    data_id="d0", rollout_id=name, step=self._step, sample_idx_in_step=0, enqueue_time=1.5,
                    input={"question": "2 + 2?", "answer": "4"},
                ) for name in data["names"]
            ]  # fmt: skip

        def _delete_rollout(self, rollout_id: str) -> None:
            pass

    for step, is_train in ((1, True), (2, True), (2, False)):
        manager = Without(agl_base_url="", agl_key="", model="m", step=step, hooks=hooks)
        manager.enqueue_and_wait_until_completed({"names": ["r0", "r1", "r2"]}, is_train=is_train)


# -- tinker-cookbook ---------------------------------------------------------------------------------


def tinker(folder: Path) -> None:
    """Serialize an iteration of training and an evaluation with the real functions."""
    file = "tinker_cookbook/rl/rollout_logging.py"
    own = load(
        file, "serialize_rollout_summaries", "serialize_rollout_summaries_from_groups", "_json_safe",
        safezip=partial(zip, strict=True), logger=None,
    )  # fmt: skip
    logging_module, metrics_module = ModuleType("rollout_logging"), ModuleType("metric_util")
    logging_module.__dict__.update(vars(own))
    metrics_module.serialize_rollout_summaries = own.serialize_rollout_summaries  # type: ignore[attr-defined]
    sys.modules["tinker_cookbook.rl.rollout_logging"] = logging_module
    sys.modules["tinker_cookbook.rl.metric_util"] = metrics_module
    sys.modules["tinker_cookbook"] = sys.modules["tinker_cookbook.rl"] = ModuleType("tinker_cookbook")

    from rlpanel.recording.tinker_cookbook import install

    rows = install(Letters(), folder / "recorded")
    assert install(Letters(), folder / "again") is rows
    kinds = load(
        "tinker_cookbook/rl/types.py", "Trajectory", "Transition", "TrajectoryGroup",
        dataclass=dataclasses.dataclass, field=dataclasses.field, safezip=partial(zip, strict=True),
    )  # fmt: skip
    action = load("tinker_cookbook/completers.py", "TokensWithLogprobs", dataclass=dataclasses.dataclass)

    def observation(text: str) -> Any:
        ids = tokens(text)
        return SimpleNamespace(
            chunks=[SimpleNamespace(tokens=ids[:2]), SimpleNamespace(tokens=ids[2:])], length=len(ids)
        )

    def step(seen: str, said: str, reward: float, **metrics: float) -> Any:
        spoken = action.TokensWithLogprobs(tokens(said), [-0.25] * len(said))
        return kinds.Transition(observation(seen), spoken, reward, False, metrics)

    def group(*trajectories: list[Any]) -> Any:
        ends = [kinds.Trajectory(steps, observation("end"), None) for steps in trajectories]
        return kinds.TrajectoryGroup(ends, [1.0] + [0.0] * (len(ends) - 1), [{"ok": 1.0}] * len(ends))

    continued = [step("2 + 2?", "add$", 0.25), step("2 + 2?add$=4", "4$", 0.0, **{"stop/completed": 1.0})]
    masked = [
        step("2 + 2?", "a{", 0.0, parse_error_masked=1.0),
        step("2 + 2?a{!", "5", 0.0, **{"stop/max_tokens": 1.0}),
    ]
    rewritten = [step("Name a moon.", "Ti", 0.0), step("Shorter.", "Titan", 0.5)]
    serialize = metrics_module.serialize_rollout_summaries  # type: ignore[attr-defined]
    for name in ("aime", "gsm8k"):
        records = serialize(
            split=f"eval/{name}", iteration=4, trajectory_groups_P=[group(continued)], taglist_P=[["math"]],
            sampling_client_steps_P=[4],
        )  # fmt: skip
        assert len(records) == 1
    # As train.py calls it: by the module's other function.
    space = logging_module.__dict__
    by_groups = FunctionType(own.serialize_rollout_summaries_from_groups.__code__, space)
    by_groups.__kwdefaults__ = own.serialize_rollout_summaries_from_groups.__kwdefaults__
    groups = [
        SimpleNamespace(trajectory_group=each, tags=["math"], sampling_client_step=3)
        for each in (group(continued, masked), group(rewritten))
    ]
    assert len(by_groups(split="train", iteration=5, groups_P=groups)) == 3
    rows.flush()


def main() -> None:
    """Run the hook that the command line names."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    writers = (skyrl, agent_lightning, tinker)
    {writer.__name__: writer for writer in writers}[name](folder)


if __name__ == "__main__":
    main()
