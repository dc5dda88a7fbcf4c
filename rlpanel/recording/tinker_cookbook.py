"""Records tinker-cookbook's trajectories with their tokens, which its rollout summaries leave out.

Call `install` in the training script before training. tinker-cookbook passes all trajectories, of training
and of evaluations, through ``serialize_rollout_summaries``, unless ``rollout_json_export`` is off. Its own
files are still written. Tested with its code of version 0.6.1.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlpanel.recording.hook_rows import HookRows, HookTexts

_MODULES = ("tinker_cookbook.rl.rollout_logging", "tinker_cookbook.rl.metric_util")
_FUNCTION, _MARK = "serialize_rollout_summaries", "_rlpanel_rows"
#: Metrics of a step: why the trajectory stopped, and that its tokens are out of the loss.
_STOP, _MASKED = "stop/", "parse_error_masked"
#: Status of a trajectory by the reason why it stopped; other reasons are successes.
_STATUS = {
    "max_tokens": "truncated",
    "max_sampled_tokens": "truncated",
    "max_turns": "truncated",
    "max_tool_calls": "truncated",
    "context_overflow": "truncated",
    "rollout_timeout": "timeout",
}
_LENGTH_LIMITS = ("max_tokens", "max_sampled_tokens", "context_overflow")


def install(tokenizer: Any = None, dir: str | os.PathLike[str] | None = None, **settings: Any) -> HookRows:
    """Record all trajectories of this process from now on.

    Parameters
    ----------
    tokenizer : tokenizer, optional
        Decodes prompts and responses; without it, only the tokens' ids are recorded, which
        ``rlpanel serve --tokenizer`` decodes.
    dir : path, optional
        The run's folder; by default ``rollout_samples/<EXP_NAME>`` in the folder that ``ROLLOUT_DATA_DIR``
        names, or else in the working folder. Not tinker-cookbook's own folder, whose files hold the same
        trajectories.
    **settings
        See `rlpanel.recording.Options`.

    Returns
    -------
    HookRows
        Its `flush` waits until all rows are on disk.
    """
    modules = [importlib.import_module(name) for name in _MODULES]
    original = getattr(modules[0], _FUNCTION)
    if hasattr(original, _MARK):
        found: HookRows = getattr(original, _MARK)
        return found
    rows = HookRows(dir, **settings)
    texts = None if tokenizer is None else HookTexts(tokenizer)

    @functools.wraps(original)
    def serialize(*args: Any, **kwargs: Any) -> Any:
        records = original(*args, **kwargs)
        rows.write("tinker-cookbook's trajectories", None, _rows, records, kwargs, texts)
        return records

    setattr(serialize, _MARK, rows)
    for module in modules:  # the second one imported the function by its name
        setattr(module, _FUNCTION, serialize)
    return rows


@dataclass
class _Sequence:
    """Tokens of the turns whose observations continue each other; a training example holds them all."""

    prompt: list[int]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    stop: Any = None

    def add(self, observed: Sequence[int], transition: Any) -> None:
        """Add what was observed since the turn before, and the policy's answer."""
        action = transition.ac
        count, masked = len(action.tokens), (transition.metrics.get(_MASKED) or 0) >= 1
        self.ids += [*observed, *action.tokens]
        self.logprobs += [0.0] * len(observed) + list(action.maybe_logprobs or [None] * count)
        self.written += [0] * len(observed) + [1] * count
        self.mask += [0] * len(observed) + [0 if masked else 1] * count
        self.stop = action.stop_reason


def _rows(
    records: Sequence[Mapping[str, Any]], given: Mapping[str, Any], texts: HookTexts | None
) -> Iterator[dict[str, Any]]:
    """Yield a row for each sequence of each trajectory."""
    trajectories = [each for group in given["trajectory_groups_P"] for each in group.trajectories_G]
    for record, trajectory in zip(records, trajectories, strict=True):
        common = _summary(record, trajectory)
        sequences = _sequences(trajectory.transitions)
        for turn, sequence in enumerate(sequences):
            part = {"turn": turn} if len(sequences) > 1 else {}
            yield {**common, **part, **_tokens(sequence, texts)}
        if not sequences:  # the first prompt was too long
            yield {**common, "response": ""}


def _summary(record: Mapping[str, Any], trajectory: Any) -> dict[str, Any]:
    """Return a trajectory's values under the names that rlpanel gives to those of the summaries."""
    split, _, dataset = str(record["split"]).partition("/")
    group = f"{dataset}:{record['group_idx']}" if dataset else str(record["group_idx"])
    steps = trajectory.transitions
    metrics = {**(steps[-1].metrics if steps else {}), **record["trajectory_metrics"]}
    found = (name.removeprefix(_STOP) for name, value in metrics.items() if name.startswith(_STOP) and value)
    reason = trajectory.stop_reason or next(found, None)
    row = {
        "step": record["iteration"],
        "split": split,
        "dataset": dataset or None,
        "group": group,
        "episode": f"{group}-{record['traj_idx']}",
        "reward": record["total_reward"],
        "turn_rewards": [float(step.reward) for step in steps],
        "policy_version": record["sampling_client_step"],
        "trainer_version": record["iteration"] if split == "train" else None,
        "env": ",".join(record["tags"]) or None,
        **{f"metrics/{name}": value for name, value in metrics.items() if not name.startswith(_STOP)},
    }
    if reason:
        row |= {"finish_reason": str(reason), "truncated": reason in _LENGTH_LIMITS}
        row |= {"status": _STATUS.get(reason, "ok")}
    return row


def _sequences(transitions: Sequence[Any]) -> list[_Sequence]:
    """Join turns as ``trajectory_to_data`` does: if an observation begins with all tokens before it."""
    found: list[_Sequence] = []
    for transition in transitions:
        observed = [token for chunk in transition.ob.chunks for token in getattr(chunk, "tokens", ())]
        if not observed and not transition.ac.tokens:
            continue
        before = [*found[-1].prompt, *found[-1].ids] if found else []
        if not found or observed[: len(before)] != before:
            found.append(_Sequence(observed))
            before = observed
        found[-1].add(observed[len(before) :], transition)
    return found


def _tokens(sequence: _Sequence, texts: HookTexts | None) -> dict[str, Any]:
    logged = {} if None in sequence.logprobs else {"rollout_logprobs": sequence.logprobs}
    if texts is not None:
        return logged | texts.fields(sequence.prompt, sequence.ids, sequence.mask, sequence.written)
    mask = {} if all(sequence.mask) else {"loss_mask": sequence.mask}
    return logged | mask | {"prompt_token_ids": sequence.prompt, "response_token_ids": sequence.ids}
