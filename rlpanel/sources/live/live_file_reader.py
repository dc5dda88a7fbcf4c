"""`LiveFileReader`: the live files beside a run's log, read again only where they changed."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

from rlpanel.sources.files.file_access import AnyPath, is_remote
from rlpanel.sources.live.live_rollout import (
    SILENT,
    LiveRollout,
    LiveState,
    PrimeTrace,
    read_own,
    read_pending,
    turns_text,
)

#: Folder of rlpanel's own live files, and places of prime-rl's in a run that is its output folder or below.
OWN = "in_flight"
PRIME = ("live", "traces/live", "file/traces/live", "monitors/file/traces/live")
#: Most files of prime-rl that are read anew in one call, and most that are followed.
FILES_AT_ONCE, MAX_FILES = 2000, 100_000


def live_folders(run: AnyPath) -> tuple[list[str], list[str]]:
    """Return the folders of live files that exist: rlpanel's and prime-rl's; none for a remote run."""
    if is_remote(run):
        return [], []
    path = str(run)
    bases = [path] + ([os.path.dirname(path)] if os.path.basename(path) == "stream" else [])
    own = [folder for base in bases if os.path.isdir(folder := os.path.join(base, OWN))]
    prime = [folder for base in bases for name in PRIME if os.path.isdir(folder := os.path.join(base, name))]
    return own, prime


def has_live(run: AnyPath) -> bool:
    """Return whether a run has live files now; that costs a few looks at folders."""
    own, prime = live_folders(run)
    return any(_listed(folder, ".live") for folder in own) or any(
        _listed(folder, ".jsonl") or _listed(os.path.join(folder, "pending"), ".json") for folder in prime
    )


def _listed(folder: str, ending: str) -> list[os.DirEntry[str]]:
    """Return the files of a folder with an ending, without links: no path leads out of the run."""
    try:
        with os.scandir(folder) as entries:
            return [
                each for each in entries if each.name.endswith(ending) and each.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []


class LiveFileReader:
    """Follows the live files of one run.

    Parameters
    ----------
    run : path
    """

    def __init__(self, run: AnyPath) -> None:
        self._run = run
        self._traces: dict[str, PrimeTrace] = {}

    def read(self, now: float | None = None) -> LiveState:
        """Return the rollouts in flight at a Unix time, which is now by default."""
        now = time.time() if now is None else now
        own, prime = live_folders(self._run)
        states = [*self._own_states(own, now), *(self._prime_state(folder, now) for folder in prime)]
        ended: Counter[int] = Counter()
        for state in states:
            ended.update(state.ended)
        return LiveState(
            [rollout for state in states for rollout in state.rollouts],
            sum(state.others for state in states),
            dict(ended),
            sum(state.files for state in states),
            [remark for state in states for remark in state.remarks],
        )

    def _own_states(self, folders: list[str], now: float) -> list[LiveState]:
        states = []
        for folder in folders:
            for entry in _listed(folder, ".live"):
                with suppress(OSError):  # its rollouts ended meanwhile
                    states.append(read_own(entry.path, entry.stat(follow_symlinks=False).st_mtime, now))
        return states

    def _prime_state(self, folder: str, now: float) -> LiveState:
        entries = _listed(folder, ".jsonl")
        remarks = []
        if len(entries) > MAX_FILES:
            remarks.append(f"{len(entries):,} live files; the details of {MAX_FILES:,} are read.")
        used, newest, unread = entries[:MAX_FILES], 0.0, 0
        seen: dict[str, PrimeTrace] = {}
        torn = bad = 0
        for entry in used:
            trace = self._traces.get(entry.path)
            if trace is None and unread >= FILES_AT_ONCE:
                unread += 1
                continue
            try:
                status = entry.stat(follow_symlinks=False)
                if trace is None:
                    unread += 1
                    trace = PrimeTrace(LiveRollout(entry.name.removesuffix(".jsonl")))
                trace.read(entry.path, status)
            except OSError:
                continue
            seen[entry.path] = trace
            newest = max(newest, status.st_mtime)
            torn += trace.torn > 0
            bad += trace.bad
        others = [key for key in self._traces if not key.startswith(folder + os.sep)]
        self._traces = {key: self._traces[key] for key in others} | seen
        rollouts = [replace(trace.rollout) for trace in seen.values()]
        known = {rollout.id for rollout in rollouts}
        for entry in _listed(os.path.join(folder, "pending"), ".json")[:FILES_AT_ONCE]:
            pending = read_pending(entry.path)
            if pending is not None and pending[1].id not in known:
                rollouts.append(pending[1])
        if torn:
            words = "1 live file ends" if torn == 1 else f"{torn:,} live files end"
            remarks.append(f"{words} in the middle of a line; the rest is read once it is complete.")
        if bad:
            remarks.append(f"{bad:,} lines of live files could not be read.")
        later = len(entries) - len(seen)
        if later > 0 and unread > FILES_AT_ONCE:
            remarks.append(f"{len(seen):,} of {len(entries):,} live files were read so far.")
        if newest and now - newest > SILENT:
            for rollout in rollouts:
                rollout.lost = (
                    f"lost after {turns_text(rollout.turns)}: no live file changed for {now - newest:,.0f} s"
                )
        return LiveState(rollouts, max(0, later), {}, len(entries), remarks)
