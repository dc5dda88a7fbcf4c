"""Events of a run on its time axis: restarts, evaluations, the trainer's events, and notes on steps.

The trainer's events are in a hidden JSONL file beside the log, to which `RolloutWriter.event` appends, and
in the list ``events`` of ``run.json``. A note on a step is a note with the uid ``step:412``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard

from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import AnyPath, reason_of
from rlpanel.store.columns.splits import is_evaluation_split
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.snapshot.snapshot import Snapshot

#: File of the trainer's events in the run's folder; `rlpanel.recording` writes it.
EVENTS_FILE = ".rlpanel-events.jsonl"
#: Most bytes of that file, most events of it, and most characters of a text.
MAX_BYTES, MAX_EVENTS, MAX_TEXT = 4 << 20, 5000, 2000
#: Uid of a note that is about a step.
_STEP_NOTE = re.compile(r"step:(-?\d{1,18})")

Kind = Literal["resume", "evaluation", "event", "note"]


@dataclass(frozen=True)
class RunEvent:
    """Something that happened at a step.

    Attributes
    ----------
    step : int
    kind : str
        ``resume``: a restarted job began here; ``evaluation``: an evaluation has samples of this step;
        ``event``: the trainer reports it; ``note``: a viewer wrote it.
    text : str
        What happened; it may come from a log, so it is plain text.
    time : float or None
        When it was written, in seconds since the epoch.
    """

    step: int
    kind: Kind
    text: str
    time: float | None = None


def note_step(uid: str) -> int | None:
    """Return the step that a note's uid stands for; None if it stands for a sample."""
    found = _STEP_NOTE.fullmatch(uid)
    return int(found[1]) if found else None


def run_events(
    snapshot: Snapshot, notes: Notes, logged: Mapping[str, Any], folder: AnyPath
) -> tuple[list[RunEvent], list[str]]:
    """Return all events by step, and what could not be read.

    Parameters
    ----------
    snapshot : Snapshot
    notes : Notes
        Of the run.
    logged : mapping
        The content of ``run.json``.
    folder : path
        The run's folder.
    """
    reported, problems = _reported(folder, logged)
    found = [*_restarts(snapshot), *_evaluations(snapshot), *reported, *_noted(notes)]
    order = {"resume": 0, "evaluation": 1, "event": 2, "note": 3}
    return sorted(found, key=lambda each: (each.step, order[each.kind], each.time or 0.0)), problems


def _restarts(snapshot: Snapshot) -> Iterator[RunEvent]:
    for step in snapshot.restarts:
        yield RunEvent(int(step), "resume", f"A restarted job began another attempt at step {int(step):,}")


def _evaluations(snapshot: Snapshot) -> Iterator[RunEvent]:
    """Yield the steps of the evaluations that are not shown."""
    for split in filter(is_evaluation_split, snapshot.splits if snapshot.has_splits else ()):
        if split == snapshot.split:
            continue
        for step in snapshot.in_split(split).steps.values.tolist():
            yield RunEvent(int(step), "evaluation", f"samples of the split {split}")


def _noted(notes: Notes) -> Iterator[RunEvent]:
    for note in notes.all():
        step = note_step(note.uid)
        text = " ".join(filter(None, (note.tag and f"[{note.tag}]", note.note)))
        if step is not None and text:
            yield RunEvent(step, "note", text, note.time)


def _reported(folder: AnyPath, logged: Mapping[str, Any]) -> tuple[list[RunEvent], list[str]]:
    """Return the trainer's events, and what of them is not valid."""
    problems: list[str] = []
    listed = logged.get("events", [])
    rows: list[Any] = listed if isinstance(listed, list) else [None]
    sources = [("run.json", rows)]
    if isinstance(folder, Path):
        try:
            with SafeFolder.open(folder.resolve()) as opened:
                lines = opened.read(EVENTS_FILE, MAX_BYTES).splitlines()
            sources.append((EVENTS_FILE, [_parsed(line) for line in lines if line.strip()]))
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(f"{EVENTS_FILE} is not read: {reason_of(error)}")
    found: list[RunEvent] = []
    for name, values in sources:
        events = [_event(value) for value in values]
        if bad := sum(each is None for each in events):
            problems.append(f"{name}: {bad:,} of {len(events):,} events have no step or name")
        good = [each for each in events if each is not None]
        if len(good) > MAX_EVENTS:
            problems.append(f"{name}: only the newest {MAX_EVENTS:,} of {len(good):,} events are shown")
        found += good[-MAX_EVENTS:]
    return found, problems


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _event(value: Any) -> RunEvent | None:
    """Return the event of ``{"step": 3, "name": …, "text": …}``; None if it is not one."""
    if not isinstance(value, dict):
        return None
    step, name = value.get("step"), value.get("name")
    if not _is_number(step) or step != int(step) or abs(step) > 2**53:
        return None
    if not isinstance(name, str) or not name:
        return None
    text, time = value.get("text"), value.get("time")
    whole = f"{name}: {text}" if isinstance(text, str) and text else name
    return RunEvent(int(step), "event", whole[:MAX_TEXT], float(time) if _is_number(time) else None)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
