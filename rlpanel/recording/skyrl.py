"""Records SkyRL's training and evaluation by the trajectory logger of its entry point.

Override one method of the entry point, as of ``BasePPOExp``::

    def get_trajectory_logger(self):
        return TrajectoryLogger(self.cfg.trainer.export_path, beside=super().get_trajectory_logger())

SkyRL passes all samples to it, at every step. SkyRL is not imported. Tested with its code of version 0.4.0.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlpanel.recording.hook_rows import HookRows, HookTexts

#: rlpanel's names of phases, and SkyRL's.
_PHASES = {"generation": "llm", "environment": "env"}


class TrajectoryLogger:
    """Trajectory logger that records all samples, and passes them on to SkyRL's own.

    Parameters
    ----------
    output : path, optional
        The training's output folder: rows go to its ``rollout_samples/<EXP_NAME>``, or to the folder that
        ``ROLLOUT_DATA_DIR`` names.
    dir : path, optional
        The run's folder itself.
    beside : TrajectoryLogger, optional
        SkyRL's logger, which writes a table to W&B.
    **settings
        See `rlpanel.recording.Options`.
    """

    def __init__(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        dir: str | os.PathLike[str] | None = None,
        beside: Any = None,
        **settings: Any,
    ) -> None:
        self._output, self._beside = output, beside
        self._rows = HookRows(dir, **settings)
        self._texts: HookTexts | None = None

    def log(self, **values: Any) -> None:
        """Record a batch; SkyRL passes every value by its name."""
        self._rows.write("SkyRL's trajectories", self._output, self._batch, values)
        if self._beside is not None:
            self._beside.log(**values)

    def flush(self) -> None:
        """Wait until all rows so far are on disk."""
        self._rows.flush()

    def _batch(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if self._texts is None:
            self._texts = HookTexts(values["tokenizer"])
        output = values["generator_output"]
        step = values.get("global_step") or 0  # None: an evaluation outside of training
        split = {"split": "eval"} if str(values.get("wandb_key")).endswith("eval") else {}
        turns = values.get("num_turns_list")
        columns = _by_row(output)
        for index, identity in enumerate(_identities(output)):
            row = _row(self._texts, output, columns, index)
            if turns is not None:  # of a trajectory of which only the last row is passed
                identity |= {"num_turns": turns[index], "turn": turns[index] - 1}
            yield {"step": step, **split, **identity, **row}


def _by_row(output: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return the lists that have one item per row; optional ones may be missing or of another length."""
    rows = len(output["response_ids"])
    lists = {**output, **(output.get("trajectory_time_splits") or {})}
    return {key: value for key, value in lists.items() if isinstance(value, list) and len(value) == rows}


def _identities(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each row's group, and its episode and turn if trajectories have a row for each step."""
    trajectories = output.get("trajectory_ids")
    if trajectories is None:
        return [{} for _ in output["response_ids"]]
    step_wise = output.get("is_last_step") is not None
    turns: Counter[str] = Counter()
    found = []
    for trajectory in trajectories:
        name = trajectory.to_string()
        identity = {"group": str(trajectory.instance_id)}
        found.append(identity | {"episode": name, "turn": turns[name]} if step_wise else identity)
        turns[name] += 1
    return found


def _row(
    texts: HookTexts, output: Mapping[str, Any], columns: Mapping[str, Sequence[Any]], index: int
) -> dict[str, Any]:
    # The tokens of the prompt, because the prompts beside them are those before sampling dynamically, and
    # step-wise there is one prompt for all rows of a trajectory.
    ids = output["response_ids"][index]
    mask = [int(bit == 1) for bit in output["loss_masks"][index]]
    row = texts.fields(output["prompt_token_ids"][index], ids, mask) | _reward(output["rewards"][index])
    if "rollout_logprobs" in columns:
        row["rollout_logprobs"] = columns["rollout_logprobs"][index]
    reason = columns["stop_reasons"][index] if "stop_reasons" in columns else None
    if reason is not None:
        row |= {"finish_reason": reason, "truncated": reason == "length"}
    metrics = columns["env_metrics"][index] if "env_metrics" in columns else None
    row |= {f"metrics/{name}": value for name, value in (metrics or {}).items() if _is_number(value)}
    timing = {phase: columns[key][index] for phase, key in _PHASES.items() if key in columns}
    return row | ({"timing": timing} if timing else {})


def _reward(reward: Any) -> dict[str, Any]:
    """Return a number as the reward; of one number per token, also their sum."""
    if isinstance(reward, list):
        return {"reward": float(sum(reward)), "token_rewards": reward}
    return {"reward": None if reward is None else float(reward)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
