"""Records Agent-Lightning's rollouts from the file of hooks that the training's configuration names.

``agentlightning.hooks`` is the path of a file that imports `recording_hooks` from this module and has a line
``RecordingHooks = recording_hooks()``.

The methods of its hooks get neither the step nor the group, and an asynchronous run calls them again for
rollouts that it carries over. Therefore the hooks only bring rlpanel into the trainer's process, where
`AglRolloutManagerBase` completes each rollout once. Tested with the manager of agentlightning 1.0.2, which
is imported only when `recording_hooks` is called.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from rlpanel.recording.hook_rows import HookRows
from rlpanel.recording.trainers.patching import Guard
from rlpanel.recording.trainers.rollout_rows import add_columns

_MARK = "_rlpanel_rows"


def recording_hooks(
    dir: str | os.PathLike[str] | None = None, base: type | None = None, **settings: Any
) -> type:
    """Return a subclass of ``RolloutHooks`` that records all rollouts of the trainer.

    Parameters
    ----------
    dir : path, optional
        The run's folder; by default ``rollout_samples/<EXP_NAME>`` in the folder that ``ROLLOUT_DATA_DIR``
        names, or else in the working folder.
    base : type, optional
        Your own hooks, which are called as before; the file may not hold their class, only their module.
    **settings
        See `rlpanel.recording.Options`.
    """
    hooks: Any = base or importlib.import_module("agentlightning.hooks").RolloutHooks
    guard = Guard()

    class RecordingHooks(hooks):
        def on_startup(self, store: Any | None = None) -> None:
            guard("Agent-Lightning's rollouts", _record_manager, dir, settings)
            super().on_startup(store)

    return RecordingHooks


def _record_manager(dir: str | os.PathLike[str] | None, settings: Mapping[str, Any]) -> None:
    manager: Any = importlib.import_module("agentlightning.verl.agl_rollout_manager").AglRolloutManagerBase
    original = manager._build_completed_rollout
    if hasattr(original, _MARK):
        return
    rows = HookRows(dir, **settings)

    @functools.wraps(original)
    def build(self: Any, enqueued_rollout: Any, rollout: Any) -> Any:
        completed = original(self, enqueued_rollout, rollout)
        rows.write("Agent-Lightning's rollouts", None, _rows, self, rollout, completed)
        return completed

    setattr(build, _MARK, rows)
    manager._build_completed_rollout = build


def _rows(manager: Any, rollout: Any, completed: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each request of a rollout that is trained on, or one for a rollout without any."""
    common: dict[str, Any] = {
        # A rollout that was carried over is trained in the step in which its group is complete.
        "step": manager._step,
        "group": str(completed.data_id),
        "episode": str(completed.rollout_id),
        "reward": completed.final_reward,
        **({} if rollout.is_train else {"split": "eval"}),
        **_status(completed),
    }
    if isinstance(completed.input, Mapping):
        add_columns(common, completed.input)
    if not completed.triplets:
        yield {**common, "prompt": str(completed.input), **_timing(completed)}
        return
    requests = _requests(completed.events)
    last = len(completed.triplets) - 1
    for turn, triplet in enumerate(completed.triplets):
        row = {**common, "turn": turn, **_tokens(triplet, requests)}
        if row.get("truncated") and row["status"] == "ok":
            row["status"] = "truncated"
        yield row | (_timing(completed) if turn == last else {})


def _status(completed: Any) -> dict[str, Any]:
    """Return how a rollout ended; one that failed is trained on nevertheless if it has requests."""
    if str(getattr(completed.rollout_state, "value", completed.rollout_state)) != "failed":
        return {"status": "ok"}
    status = "tool_error" if completed.triplets else "environment_error"
    return {"status": status, "status_reason": completed.error_message}


def _timing(completed: Any) -> dict[str, Any]:
    queued = None if completed.running_at is None else max(completed.running_at - completed.enqueue_time, 0.0)
    return {"timing": {"start": completed.enqueue_time} | ({} if queued is None else {"queue": queued})}


def _requests(events: list[dict[str, Any]]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """Return what the proxy logged of each request, by the ids of its prompt and response."""
    found = {}
    for event in events:
        answer = event["data"].get("response") if event["event_type"] == "model_request" else None
        if isinstance(answer, Mapping) and (choices := answer.get("choices")):
            prompt = answer.get("prompt_token_ids") or choices[0].get("prompt_token_ids") or ()
            found[(*prompt, None, *(choices[0].get("token_ids") or ()))] = event["data"]
    return found


def _tokens(triplet: Any, requests: Mapping[tuple[Any, ...], Mapping[str, Any]]) -> dict[str, Any]:
    """Return ids and logprobs of a request, and its messages if the proxy logged them."""
    prompt, response = triplet.prompt["token_ids"], triplet.response["token_ids"]
    row: dict[str, Any] = {
        "prompt_token_ids": prompt,
        "response_token_ids": response,
        "rollout_logprobs": triplet.response.get("log_probs"),
    }
    request = requests.get((*prompt, None, *response))
    if request is None:
        return row
    choice, reason = request["response"]["choices"][0], request.get("finish_reason")
    row |= {"finish_reason": reason, "truncated": reason == "length"}
    messages, answer = request["request"].get("messages"), choice.get("message")
    if isinstance(messages, list) and isinstance(answer, Mapping):
        return row | {"messages": [*messages, dict(answer)], "prompt_messages": len(messages)}
    return row | {"prompt": request["request"].get("prompt"), "response": choice.get("text")}
