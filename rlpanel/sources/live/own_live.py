"""Reads a live file of rlpanel's recorder, ``in_flight/rank_{rank}.live``: a header, then lines of deltas.

The recorder's process is dead if this host has no such process, or if the file gives no sign of life.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from rlpanel.sources.live.live_rollout import STALE, LiveRollout, LiveState

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
