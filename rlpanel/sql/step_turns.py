"""The turns of the samples of some steps as a table: who wrote what, with reasoning and tool calls.

Turns are the messages of the log. Of a log with texts only they are found by the markup of the chat template,
as on the board (`rlpanel.analysis.text_turns`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.analysis.text_turns import conversation_of
from rlpanel.errors import QueryError, RLPanelError
from rlpanel.number_text import size_text
from rlpanel.sql.sample_relation import clean_text
from rlpanel.sql.statement import TURNS
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView

#: Most bytes of the log that one query reads for tokens, texts or turns.
MAX_BYTES = 256 << 20
#: Columns of numbers and of texts.
_NUMBERS = ("step", "rank", "turn", "chars", "calls", "reward", "seconds")
_TEXTS = ("uid", "part", "role", "name", "tools", "text", "reasoning")


def rows_of_steps(view: RunView, ranges: Sequence[tuple[int, int]], what: str) -> np.ndarray:
    """Return the rows of the steps that count; QueryError if their lines are too large."""
    snapshot = view.snapshot
    step = snapshot.metadata("step")
    inside = np.zeros(snapshot.rows, bool)
    for first, last in ranges:
        inside |= (step >= first) & (step <= last)
    rows = np.flatnonzero(inside & snapshot.alive)
    size = int(snapshot.metadata("length")[rows].sum(dtype=np.int64))
    if size > MAX_BYTES:
        raise QueryError(
            f"these steps have {size_text(size)} of lines; {what} of at most "
            f"{size_text(MAX_BYTES)} are read: choose fewer steps"
        )
    return rows


def step_turns(
    index: RunIndex, view: RunView, ranges: Sequence[tuple[int, int]], seconds: float
) -> pd.DataFrame:
    """Return one row per turn of the samples in some ranges of steps.

    Columns: ``uid``, ``step``, ``rank``, ``turn`` (from 0), ``part`` (prompt or response), ``role``, ``name``
    (of the tool or agent), ``calls`` (number of tool calls), ``tools`` (their names, with commas),
    ``failed``, ``text``, ``reasoning``, ``chars`` (of the text), ``reward`` and ``seconds``; NULL where the
    log has none.

    Raises
    ------
    QueryError
        If more than `MAX_BYTES` of lines would have to be read, or reading takes longer than ``seconds``.
    """
    rows = rows_of_steps(view, ranges, TURNS)
    deadline = time.monotonic() + seconds
    found: list[dict[str, Any]] = []
    for row in rows.tolist():
        if time.monotonic() > deadline:
            raise QueryError(f"reading the turns took longer than {seconds:g} s: choose fewer steps")
        try:
            sample = fetch(index, view, row, derived=False)
        except RLPanelError:  # its file was rewritten; the index updates shortly
            continue
        told = conversation_of(sample)
        place = {"uid": sample.uid, "step": sample.step, "rank": None if sample.rank < 0 else sample.rank}
        for turn, message in enumerate(told.messages):
            calls = message.get("tool_calls") or ()
            found.append(
                {
                    **place,
                    "turn": turn,
                    "part": "prompt" if turn < told.prompt_messages else "response",
                    "role": message["role"],
                    "name": message.get("name"),
                    "calls": len(calls),
                    "tools": ", ".join(str(call["name"]) for call in calls) or None,
                    "failed": message.get("is_error"),
                    "text": message.get("content"),
                    "reasoning": message.get("reasoning_content"),
                    "chars": len(message.get("content") or ""),
                    "reward": message.get("reward"),
                    "seconds": message.get("seconds"),
                }
            )
    columns: dict[str, np.ndarray] = {}
    for name in ("uid", "step", "rank", "turn", "part", "role", "name", "calls", "tools", "failed", "text",
                 "reasoning", "chars", "reward", "seconds"):  # fmt: skip
        values = [each[name] for each in found]
        if name in _TEXTS:
            texts = [None if value is None else clean_text(str(value)) for value in values]
            columns[name] = np.array([*texts, None], object)[:-1]
        else:
            columns[name] = np.array([np.nan if value is None else float(value) for value in values], float)
    return pd.DataFrame(columns)
