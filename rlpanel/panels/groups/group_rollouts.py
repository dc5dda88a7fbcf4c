"""Rows of a group of agents: numbers of each rollout, its end, its last line, its own words.

A rollout that was discarded has a row as well, so that nothing is missing in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rlpanel.number_text import number
from rlpanel.panels.compare.siblings import rollout_summary, shared_characters
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.texts.sample_texts import read_texts
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.agent_line import without_markup
from rlpanel.texts.prompt_parts import TextStyle, clean
from rlpanel.texts.shorten import last_line, one_line

#: Numbers of a row; those of which nothing is logged are left out.
_NUMBERS = ("reward", "advantage", "turns", "tool_errors", "seconds", "response_length")
_TITLES = {"tool_errors": marked("errors"), "seconds": marked("seconds"), "response_length": marked("length")}

#: A sample as the browser draws it: uid, numbers, and its text or some lines of it.
Card = dict[str, Any]


def are_agents(view: RunView, rows: np.ndarray) -> bool:
    """Return True if one of the samples has several turns or calls a tool."""
    return any(rollout_summary(view.snapshot, row) for row in rows.tolist())


def read_rollouts(index: RunIndex, view: RunView, rows: np.ndarray, style: TextStyle) -> Iterator[list[Card]]:
    """Yield a row for each rollout of a group of agents, once; the browser shows the texts as text."""
    snapshot = view.snapshot
    texts = [
        clean(text.get("response", text.get("prompt", "")), style)
        for text in read_texts(index, snapshot, rows)
    ]
    names = [name for name in _NUMBERS if snapshot.has_number(name) or name in view.derived]
    values = {name: view.values(name, rows) for name in names}
    statuses = _statuses(snapshot, rows)
    has_status = any(status != "–" for status in statuses)
    yield [
        {
            "uid": uid,
            "numbers": [
                [tr("rollout"), str(place + 1), tr("Place of the rollout in its group"), "rollout"],
                *(number_entry(name, float(values[name][place])) for name in names),
                *([[tr("status"), status, tr("How the rollout ended"), "status"]] if has_status else []),
            ],
            "lines": [[tr("last line"), without_markup(last_line(texts[place]))], [tr("parts with"), own]],
        }
        for place, (uid, status, own) in enumerate(
            zip(snapshot.uids(rows), statuses, own_words(texts), strict=True)
        )
    ]


def number_entry(name: str, value: float, label: str = "") -> list[str]:
    """Return label, text, tooltip and name of a number."""
    label = label or _TITLES.get(name, described(name).label)
    return [tr(label), number(value, sign=name not in _UNSIGNED), described(name).tip, name]


#: Numbers that are written without a plus sign.
_UNSIGNED = ("reward", "turns", "tool_errors", "seconds", "response_length")


def _statuses(snapshot: Snapshot, rows: np.ndarray) -> list[str]:
    """Return how each rollout ended; one that was discarded says so if its status does not."""
    known = snapshot.label("status", rows) if "status" in snapshot.labels else [None] * len(rows)
    counts = snapshot.alive[rows].tolist()
    return [
        tr("discarded") if not here and status in ("ok", "truncated", None) else status or "–"
        for status, here in zip(known, counts, strict=True)
    ]


def own_words(texts: Sequence[str]) -> list[str]:
    """Return for each text its first line, as far as no other text begins like it up to there.

    In the order of the alphabet, the text that shares the longest beginning stands before or after it.
    """
    order = sorted(range(len(texts)), key=lambda at: texts[at])
    pairs = [shared_characters(texts[a], texts[b]) for a, b in pairwise(order)]
    found = [""] * len(texts)
    for at, before, after in zip(order, [0, *pairs], [*pairs, 0], strict=True):
        text, shared = texts[at], max(before, after)
        start = text.rfind("\n", 0, shared) + 1
        found[at] = one_line(text[start:]) if shared < len(text) else tr("nothing of its own")
    return found


def discarded_text(snapshot: Snapshot, rows: np.ndarray, count: int) -> list[str]:
    """Return how many rollouts of a group are left, and why the others do not count; empty if all count."""
    if not len(rows):
        return []
    status = snapshot.label("status", rows) if "status" in snapshot.labels else []
    failed = status.count("environment_error")
    left_out, reasons = len(rows) - failed, []
    if left_out:
        one, many = "{count:,} was discarded by the trainer", "{count:,} were discarded by the trainer"
        reasons.append(trn(one, many, left_out))
    if failed:
        one, many = "{count:,} failed by its environment", "{count:,} failed by their environment"
        reasons.append(trn(one, many, failed))
    names = {"left": count - len(rows), "count": count, "why": "; ".join(reasons)}
    return [tr("{left:,} of {count:,} rollouts; {why}", **names)]
