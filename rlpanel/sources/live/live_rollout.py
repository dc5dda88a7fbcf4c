"""A rollout in flight, and the live files of rlpanel's recorder and of prime-rl that describe it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# -- live rollout --------------------------------------------------------------------------------------
# A rollout in flight, and the state of all that a run's live files name.


#: Seconds without a sign of life after which a recorder on another host counts as dead: six heartbeats.
STALE = 60.0


@dataclass(slots=True)
class LiveRollout:
    """A rollout that was begun and has not ended.

    Attributes
    ----------
    id : str
    step : int or None
        Step of the batch that waits for it.
    group, agent, env, worker, phase, text : str
        Empty if not logged; ``text`` holds its last words.
    turns : int
    tokens : int or None
        Tokens that the policy wrote so far.
    started, updated : float or None
        Unix seconds.
    lost : str
        Why it will not end; empty while its recorder lives.
    """

    id: str
    step: int | None = None
    group: str = ""
    agent: str = ""
    env: str = ""
    worker: str = ""
    phase: str = ""
    text: str = ""
    turns: int = 0
    tokens: int | None = None
    started: float | None = None
    updated: float | None = None
    lost: str = ""

    def seconds(self, now: float) -> float | None:
        """Return how long it has been in flight at a Unix time, or was when it was lost."""
        if self.started is None:
            return None
        end = (self.updated or self.started) if self.lost else now
        return max(0.0, end - self.started)


@dataclass(frozen=True)
class LiveState:
    """Everything that live files say at one time.

    Attributes
    ----------
    rollouts : list of LiveRollout
    others : int
        Number of further rollouts in flight whose details are not kept.
    ended : mapping of int to int
        Number of ended rollouts by step, where it is logged.
    files : int
    remarks : list of str
        Sentences on what could not be read.
    """

    rollouts: list[LiveRollout] = field(default_factory=list)
    others: int = 0
    ended: Mapping[int, int] = field(default_factory=dict)
    files: int = 0
    remarks: list[str] = field(default_factory=list)


# -- own live ------------------------------------------------------------------------------------------
# Reads a live file of rlpanel's recorder, ``in_flight/rank_{rank}.live``: a header, then lines of deltas.
#
# The recorder's process is dead if this host has no such process, or if the file gives no sign of life.


#: Most bytes of a file that are read; the recorder keeps below a third of that.
MAX_BYTES = 32 << 20
_TEXTS = ("group", "agent", "env", "worker", "phase", "text")


def read_own(path: str, modified: float, now: float) -> LiveState:
    """Return what a live file of rlpanel's recorder says.

    Parameters
    ----------
    path : str
    modified : float
        The file's modification time in Unix seconds, its heartbeat.
    now : float
        Unix seconds.

    Raises
    ------
    OSError
        If the file cannot be read, for example because its rollouts have ended.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES)
    name, remarks = os.path.basename(path), []
    end = data.rfind(b"\n") + 1
    if end < len(data):
        remarks.append(
            f"{name} ends in the middle of a line: its last {len(data) - end:,} bytes are not read yet."
        )
    header: dict[str, Any] = {}
    rollouts: dict[str, LiveRollout] = {}
    ended: dict[int, int] = {}
    others = bad = 0
    for line in data[:end].splitlines():
        try:
            delta = json.loads(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        if not isinstance(delta, Mapping):
            bad += 1
        elif "rlpanel_live" in delta:
            header = dict(delta)
            others = _whole(delta.get("others")) or 0
            ended = _counts(delta.get("ended"))
        elif "others" in delta:
            others = _whole(delta["others"]) or 0
        elif not _apply(delta, rollouts, ended):
            bad += 1
    if bad:
        remarks.append(f"{name}: {bad:,} {'line' if bad == 1 else 'lines'} could not be read.")
    if not header:
        remarks.append(f"{name} has no header: whether its recorder lives is known by the file's time only.")
    elif header["rlpanel_live"] != 1:
        remarks.append(f"{name} is of a newer version of rlpanel; some of it may be missing.")
    lost = death(header, modified, now)
    worker = f"rank {header['rank']}" if "rank" in header else ""
    for rollout in rollouts.values():
        rollout.worker = rollout.worker or worker
        if lost:
            rollout.lost = f"lost after {turns_text(rollout.turns)}: {lost}"
    return LiveState(list(rollouts.values()), others, ended, 1, remarks)


def death(header: Mapping[str, Any], modified: float, now: float) -> str:
    """Return why the process that wrote a header is dead; empty if it lives."""
    pid = header.get("pid")
    if header.get("host") == socket.gethostname() and isinstance(pid, int) and pid > 0 and not _runs(pid):
        return f"the recorder's process {pid} has ended"
    silent = now - modified
    return f"no sign of life for {silent:,.0f} s" if silent > STALE else ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's
        return True
    return True


def _apply(delta: Mapping[str, Any], rollouts: dict[str, LiveRollout], ended: dict[int, int]) -> bool:
    """Take a delta over; False if it is of no known kind."""
    time = _number(delta.get("time"))
    if isinstance(key := delta.get("begin"), str):
        texts = {name: str(delta[name]) for name in _TEXTS if delta.get(name) is not None}
        rollouts[key] = LiveRollout(
            key,
            _whole(delta.get("step")),
            turns=_whole(delta.get("turns")) or 0,
            tokens=_whole(delta.get("tokens")),
            started=time,
            updated=_number(delta.get("updated")) or time,
            **texts,
        )
    elif isinstance(key := delta.get("turn"), str):
        if (known := rollouts.get(key)) is not None:
            known.turns, known.updated = _whole(delta.get("turns")) or known.turns + 1, time
            known.tokens = _whole(delta.get("tokens")) if "tokens" in delta else known.tokens
            known.phase, known.text = str(delta.get("phase", known.phase)), str(delta.get("text", known.text))
    elif isinstance(key := delta.get("end"), str):
        gone = rollouts.pop(key, None)
        if gone is not None and gone.step is not None:
            ended[gone.step] = ended.get(gone.step, 0) + 1
    else:
        return False
    return True


def _counts(logged: Any) -> dict[int, int]:
    pairs = logged.items() if isinstance(logged, Mapping) else ()
    return {
        int(step): count for step, count in pairs if step.lstrip("-").isdecimal() and isinstance(count, int)
    }


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def turns_text(count: int) -> str:
    """Return a number of turns as words."""
    return "1 turn" if count == 1 else f"{count:,} turns"


# -- prime live ----------------------------------------------------------------------------------------
# Reads prime-rl's live traces, ``traces/live/{trace}.jsonl`` and ``live/pending/{id}.json``, as they are.
#
# Source: ``src/prime_rl/monitors/file/traces/live.py`` of prime-rl at ``048a6e23`` and the deltas of
# ``verifiers/v1/serve/delta.py`` of verifiers at ``021678bd``. The first line of a file holds the
# ``dispatch`` (kind, env, group, task, step, started); each line may append ``nodes`` and ``calls`` and
# ``set`` the trace's timing. The file is removed when its episode ends. Nobody notes whether the writer
# lives: a file without a change counts as lost only if all files of the folder are silent for ten minutes.


#: Seconds without any change in the folder after which its rollouts count as lost.
SILENT = 600.0
#: Most bytes of a file that are read at once, and most characters of the last words.
MAX_TRACE_BYTES, WORDS = 8 << 20, 160
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
            data = file.read(MAX_TRACE_BYTES)
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
