"""Other samples of a sample's prompt, and the one of its group that it is shown beside."""

from __future__ import annotations

import math

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.number_text import number
from rlpanel.panels.language.labels import tr, trn
from rlpanel.panels.texts.sample_texts import READ_NOW, read_texts, unread_bytes
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most rollouts of one reward whose beginnings are compared with the sample's.
MAX_READ = 16


def whole_group(snapshot: Snapshot, sample: Sample) -> np.ndarray:
    """Return the rows of the sample's group with its own: by group label, else by prompt within the step.

    Rows that the trainer discarded from the group are among them.
    """
    wide = snapshot.with_discarded
    rows = wide.rows_of(sample.step)
    if sample.group is not None and "group" in wide.labels:
        codes, names = wide.label_codes("group")
        code = names.index(sample.group) if sample.group in names else -1
        return rows[codes[rows] == code]
    if sample.prompt is not None:
        return rows[wide.prompts(rows) == _prompt_hash(snapshot, sample)]
    return np.empty(0, int)


def same_group(snapshot: Snapshot, sample: Sample) -> np.ndarray:
    """Return the other rows of the sample's group."""
    rows = whole_group(snapshot, sample)
    return rows[rows != row_of(snapshot, sample)]


def same_prompt(snapshot: Snapshot, sample: Sample) -> dict[int, np.ndarray]:
    """Return the rows with the sample's prompt at other steps, by step in ascending order."""
    if sample.prompt is None:
        return {}
    same = snapshot.alive & (snapshot.prompts() == _prompt_hash(snapshot, sample))
    rows = np.flatnonzero(same & (snapshot.metadata("step") != sample.step))
    rows = rows[np.argsort(snapshot.metadata("step")[rows], kind="stable")]
    steps, starts = np.unique(snapshot.metadata("step")[rows], return_index=True)
    return dict(zip(steps.tolist(), np.split(rows, starts[1:]), strict=True)) if len(steps) else {}


def counterpart(index: RunIndex, snapshot: Snapshot, sample: Sample, rows: np.ndarray) -> tuple[int, str]:
    """Return the row of the group to show beside a sample, and why it was chosen.

    It is the rollout with the highest reward, or with the lowest one if the sample itself has the highest.
    Of equal ones it is the one whose beginning is the same for longest.

    Parameters
    ----------
    rows : ndarray of int, shape (N,)
        The other rows of the group; N is at least 1.
    """
    rewards = snapshot.number("reward")[rows] if snapshot.has_number("reward") else np.full(len(rows), np.nan)
    known, why = np.isfinite(rewards), ""
    if known.any():
        highest, lowest = rewards[known].max(), rewards[known].min()
        is_best = sample.reward >= highest - EQUAL_WITHIN
        wanted = lowest if is_best else highest
        if is_best and lowest >= sample.reward - EQUAL_WITHIN:
            why = tr("all have the same reward")
        else:
            why = tr("the lowest reward of the group") if is_best else tr("the highest reward of the group")
        rows = rows[known & (np.abs(rewards - wanted) <= EQUAL_WITHIN)]
    if len(rows) > 1:
        nearest, said = _nearest(index, snapshot, sample, rows)
        return nearest, f"{why}; {said}" if why else said
    return int(rows[0]), why


def _nearest(index: RunIndex, snapshot: Snapshot, sample: Sample, rows: np.ndarray) -> tuple[int, str]:
    """Return the row whose response begins like the sample's for longest, and what was compared."""
    count, read = len(rows), rows[:MAX_READ]
    while len(read) > 1 and unread_bytes(index, snapshot, read) > READ_NOW:
        read = read[: len(read) // 2]
    own = sample.response or ""
    texts = [texts.get("response", "") for texts in read_texts(index, snapshot, read)]
    shared = [shared_characters(own, text) for text in texts]
    said = tr("of {count:,} with it, the one that stays the same for longest", count=count)
    if len(read) < count:
        said += tr(" among the first {read:,}", read=len(read))
    return int(read[int(np.argmax(shared))]), said


def rollout_labels(snapshot: Snapshot, sample: Sample, rows: np.ndarray) -> dict[str, str]:
    """Return the uids of some rollouts by label: place in the sample's group, else step; and the reward."""
    group = whole_group(snapshot, sample).tolist()
    rewards = snapshot.number("reward") if snapshot.has_number("reward") else None
    options: dict[str, str] = {}
    for row, uid in zip(np.asarray(rows, int).tolist(), snapshot.uids(np.asarray(rows, int)), strict=True):
        step = int(snapshot.metadata("step")[row])
        in_group = row in group
        label = (
            tr("rollout {place:,}", place=group.index(row) + 1)
            if in_group
            else tr("step {place:,}", place=step)
        )
        if rewards is not None:
            label += tr(" · reward {reward}", reward=number(float(rewards[row])))
        label += tr(" · discarded") if not snapshot.alive[row] else ""
        options[f"{label} · {uid}" if label in options else label] = uid
    return options


def rollout_summary(snapshot: Snapshot, row: int) -> str:
    """Return turns, errors and status of an agent's rollout; empty for a single answer without calls."""
    logged = {
        name: float(snapshot.number(name)[row]) if snapshot.has_number(name) else math.nan
        for name in ("turns", "tool_calls", "tool_errors")
    }
    if not (logged["turns"] > 1 or logged["tool_calls"] > 0):
        return ""
    parts = []
    if logged["turns"] > 0:
        parts.append(trn("{count:,} turn", "{count:,} turns", int(logged["turns"])))
    if logged["tool_errors"] >= 0:
        parts.append(trn("{count:,} error", "{count:,} errors", int(logged["tool_errors"])))
    status = snapshot.label("status", np.array([row]))[0] if "status" in snapshot.labels else None
    return ", ".join([*parts, *([status] if status and status != "ok" else [])])


def shared_characters(left: str, right: str) -> int:
    """Return the length of the common beginning; each comparison halves the rest of a long text."""
    least, most = 0, min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if left[:middle] == right[:middle] else (least, middle - 1)
    return least


def row_of(snapshot: Snapshot, sample: Sample) -> int:
    """Return the sample's row; -1 if its file was rewritten."""
    try:
        return snapshot.row(sample.uid)
    except SampleNotFound:
        return -1


def _prompt_hash(snapshot: Snapshot, sample: Sample) -> np.uint64:
    row = row_of(snapshot, sample)
    return snapshot.prompts()[row] if row >= 0 else np.uint64(0)
