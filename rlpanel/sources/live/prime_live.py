"""Reads prime-rl's live traces, ``traces/live/{trace}.jsonl`` and ``live/pending/{id}.json``, as they are.

Source: ``src/prime_rl/monitors/file/traces/live.py`` of prime-rl at ``048a6e23`` and the deltas of
``verifiers/v1/serve/delta.py`` of verifiers at ``021678bd``. The first line of a file holds the ``dispatch``
(kind, env, group, task, step, started); each line may append ``nodes`` and ``calls`` and ``set`` the trace's
timing. The file is removed when its episode ends. Nobody notes whether the writer lives: a file without a
change counts as lost only if all files of the folder are silent for ten minutes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlpanel.sources.live.live_rollout import LiveRollout

#: Seconds without any change in the folder after which its rollouts count as lost.
SILENT = 600.0
#: Most bytes of a file that are read at once, and most characters of the last words.
MAX_BYTES, WORDS = 8 << 20, 160
#: Phases by the spans of a trace's timing, the latest first.
_PHASES = (
    ("scoring", "score"),
    ("finalize", "environment"),
    ("agent", "generation"),
    ("setup", "environment"),
    ("boot", "environment"),
)


@dataclass(slots=True)
class PrimeTrace:
    """State of one live file: the part that was read.

    Attributes
    ----------
    rollout : LiveRollout
    offset : int
        Bytes that were read: whole lines only.
    torn : int
        Bytes behind the last whole line.
    bad : int
        Number of lines that could not be read.
    """

    rollout: LiveRollout
    offset: int = 0
    torn: int = 0
    bad: int = 0
    _calls: list[int] = field(default_factory=list)

    def read(self, path: str, status: os.stat_result) -> None:
        """Read what was appended; a smaller file is that of a new attempt.

        Raises
        ------
        OSError
            If the file is gone: its episode has ended.
        """
        if status.st_size < self.offset:
            self.offset, self.bad, self.rollout = 0, 0, LiveRollout(self.rollout.id)
        if status.st_size == self.offset + self.torn and self.offset:
            return
        with open(path, "rb") as file:
            file.seek(self.offset)
            data = file.read(MAX_BYTES)
        end = data.rfind(b"\n") + 1
        self.torn = len(data) - end
        self.offset += end
        for line in data[:end].splitlines():
            try:
                delta = json.loads(line)
                if not isinstance(delta, Mapping):
                    raise TypeError(delta)
                self._apply(delta)
            except (ValueError, TypeError, AttributeError, RecursionError):
                self.bad += 1
        self.rollout.updated = status.st_mtime

    def _apply(self, delta: Mapping[str, Any]) -> None:
        rollout = self.rollout
        if isinstance(dispatch := delta.get("dispatch"), Mapping):
            dispatched(rollout, dispatch)
        for node in delta.get("nodes") or ():
            message = node.get("message") or {}
            if message.get("role") == "assistant" and (words := _words(message)):
                rollout.text = words
        for call in delta.get("calls") or ():
            rollout.turns += 1
            written = (call.get("usage") or {}).get("completion_tokens")
            if isinstance(written, int):
                rollout.tokens = (rollout.tokens or 0) + written
        changed = delta.get("set") or {}
        if isinstance(agent := changed.get("agent"), Mapping) and agent.get("name"):
            rollout.agent = str(agent["name"])
        if isinstance(timing := changed.get("timing"), Mapping):
            begun = (phase for key, phase in _PHASES if (timing.get(key) or {}).get("start"))
            rollout.phase = next(begun, rollout.phase or "queue")
        if delta.get("errors"):
            rollout.phase = "error"


def dispatched(rollout: LiveRollout, dispatch: Mapping[str, Any]) -> None:
    """Take over the identity that prime-rl's orchestrator gave a rollout."""
    step, started = dispatch.get("step"), dispatch.get("started")
    rollout.step = step if isinstance(step, int) else None
    rollout.started = float(started) if isinstance(started, int | float) else None
    for name in ("env", "group", "worker"):
        if dispatch.get(name) is not None:
            setattr(rollout, name, str(dispatch[name]))
    rollout.phase = rollout.phase or "queue"


def read_pending(path: str) -> tuple[Any, LiveRollout] | None:
    """Return the dispatch id and the rollout of a pending file; None if it is gone or half written."""
    try:
        with open(path, "rb") as file:
            dispatch = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(dispatch, Mapping):
        return None
    rollout = LiveRollout(str(dispatch.get("id") or os.path.basename(path).removesuffix(".json")))
    dispatched(rollout, dispatch)
    return dispatch.get("id"), rollout


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return " ".join(str(content or "").split())[:WORDS]
