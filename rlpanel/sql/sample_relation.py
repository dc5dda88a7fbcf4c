"""Samples of a run, and the turns of their steps, as tables of duckdb and of Arrow."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.analysis.text_turns import conversation_of
from rlpanel.errors import QueryError, RLPanelError, install_command
from rlpanel.number_text import size_text
from rlpanel.sql.statement import TURNS
from rlpanel.store.columns.row_table import DEAD
from rlpanel.store.columns.splits import SPLIT_COLUMN, limit_codes, split_name
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from rlpanel.store.snapshot.run_view import RunView

# -- sample relation -----------------------------------------------------------------------------------
# The samples of a run as a table of duckdb and of Arrow, over the store's own arrays.
#
# Numbers are not copied. duckdb takes NaN for NULL while it scans a column, so that a value that was not
# logged is NULL. The Arrow table is for polars and other tools.


#: Columns of every sample, which identify it.
UID, STEP, RANK, LINE, PROMPT_KEY = "uid", "step", "rank", "line", "prompt_key"
#: True in the rows whose rewards count; only of runs in which an episode has several rows.
OUTCOME = "outcome"
#: Column of `everything` that says whether a sample counts in its split, and its values by state of the row.
STATE = "state"
STATES = ["gone", "counts", "counts", "duplicate", "older attempt"]
_PLACE = (UID, STEP, RANK, LINE, PROMPT_KEY)


@dataclass
class Relation:
    """A table of arrays, and the expressions that make the columns of a view from them.

    Attributes
    ----------
    arrays : dict of str to array
        Columns under internal names, which need no quotes.
    columns : dict of str to str
        Name of each column of the view, and its SQL expression.
    where : str
        Condition on the rows; empty for all.
    """

    arrays: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    where: str = ""

    def add(self, values: Any) -> str:
        """Add an array, and return its internal name."""
        name = f"c{len(self.arrays)}"
        self.arrays[name] = values
        return name

    def add_texts(self, codes: np.ndarray, texts: Sequence[str]) -> str:
        """Add texts by their codes, and return the expression of the column; code -1 is missing."""
        values = category(codes, texts)
        # duckdb has no enumeration without texts.
        return f"cast({self.add(values)} as varchar)" if len(values.categories) else "cast(null as varchar)"

    def select(self, source: str) -> str:
        """Return the query of the view over the registered table ``source``."""
        names = distinct_names(self.columns)
        parts = [f"{sql} as {quoted(name)}" for name, sql in zip(names, self.columns.values(), strict=True)]
        return f"select {', '.join(parts)} from {quoted(source)}" + (
            f" where {self.where}" if self.where else ""
        )


def sample_relation(view: RunView, reads: Callable[[str], bool], *, everything: bool = False) -> Relation:
    """Return the samples that count as a relation.

    Parameters
    ----------
    view : RunView
    reads : function
        Tells if the query may read a column. Others get no array.
    everything : bool
        All splits, and the samples that do not count, with the column ``state``.
    """
    snapshot, made = view.snapshot, Relation()
    shown_rows = snapshot.state != DEAD if everything else snapshot.alive
    if not shown_rows.all():
        made.where = made.add(shown_rows)
    makers: dict[str, tuple[str, Callable[[], str]]] = {
        UID: ("varchar", lambda: _uid(made, view)),
        STEP: ("bigint", lambda: made.add(snapshot.metadata("step"))),
        RANK: ("bigint", lambda: f"nullif({made.add(snapshot.metadata('rank'))}, -1)"),
        LINE: ("bigint", lambda: f"nullif({made.add(snapshot.lines(np.arange(snapshot.rows)))}, 0)"),
        PROMPT_KEY: ("varchar", lambda: f"format('{{:016x}}', {made.add(snapshot.prompts())})"),
    }
    makers[SPLIT_COLUMN] = ("varchar", lambda: _split(made, view, everything=everything))
    if everything:
        makers[STATE] = ("varchar", lambda: made.add_texts(snapshot.state.astype(np.int32), STATES))
    for shown, name in view.label_names.items():
        makers.setdefault(shown, ("varchar", partial(_label, made, view, name)))
    for name in view.number_names:
        makers.setdefault(name, ("double", partial(_number, made, view, name)))
    further = snapshot.further
    if further is not None:
        makers.setdefault(OUTCOME, ("boolean", lambda: f"not {made.add(further)}"))
    for shown, (kind, make) in zip(distinct_names(makers), makers.values(), strict=True):
        # The steps are always there, because they tell how many rows there are.
        made.columns[shown] = make() if shown == STEP or reads(shown) else unread(kind)
    return made


def _uid(made: Relation, view: RunView) -> str:
    """Add what a uid consists of, and return its expression."""
    snapshot = view.snapshot
    file = made.add_texts(snapshot.metadata("file"), snapshot.files)
    offset, part = made.add(snapshot.metadata("offset")), made.add(snapshot.metadata("part"))
    return f"{file} || ':' || {offset} || case when {part} > 0 then '/' || {part} else '' end"


def _split(made: Relation, view: RunView, *, everything: bool) -> str:
    """Return the expression of the split: that of the view, or of each row."""
    snapshot = view.snapshot
    if not everything or SPLIT_COLUMN not in snapshot.labels:
        return "'" + clean_text(snapshot.split).replace("'", "''") + "'"
    codes, names = snapshot.label_codes(SPLIT_COLUMN)
    limited = limit_codes(codes, names)
    texts = [split_name(int(code), names) for code in np.unique(limited)]
    return made.add_texts(np.searchsorted(np.unique(limited), limited).astype(np.int32), texts)


def _label(made: Relation, view: RunView, name: str) -> str:
    return made.add_texts(*view.snapshot.label_codes(name))


def _number(made: Relation, view: RunView, name: str) -> str:
    return made.add(view.number(name))


def unread(kind: str) -> str:
    """Return the expression of a column that the query does not read; reading it would be an error."""
    return f"cast(error('this column was not prepared') as {kind})"


def category(codes: np.ndarray, texts: Sequence[str]) -> pd.Categorical:
    """Return labels as a categorical array; code -1 is missing.

    Lone surrogates and zero bytes, which duckdb cannot hold, are replaced.
    """
    clean = [clean_text(text) for text in texts[: int(codes.max(initial=-1)) + 1]]
    places = {text: place for place, text in enumerate(dict.fromkeys(clean))}
    if len(places) < len(clean):
        code_of = np.array([*(places[text] for text in clean), -1], np.int32)
        codes = code_of[codes]
    return pd.Categorical.from_codes(codes, pd.Index(list(places), dtype=object))


def clean_text(text: str) -> str:
    """Return a text that duckdb can hold."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def clean_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return texts that duckdb can hold; a few are looked at together, since hardly any has to be changed."""
    joined = "".join(texts)
    return texts if clean_text(joined) == joined else [clean_text(text) for text in texts]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return names that are different for duckdb, which ignores case: ``Reward`` becomes ``Reward_2``."""
    seen: set[str] = set()
    found = []
    for name in names:
        candidate, number = clean_text(name) or "_", 2
        while candidate.lower() in seen:
            candidate, number = f"{clean_text(name)}_{number}", number + 1
        seen.add(candidate.lower())
        found.append(candidate)
    return found


def quoted(name: str) -> str:
    """Return an SQL identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def samples_arrow(view: RunView, columns: Collection[str] | None = None) -> Any:
    """Return the samples that count as a ``pyarrow.Table``, one row per sample.

    If all stored samples count, number columns are the store's own memory, read-only, and only a bitmap of
    nulls is made. Otherwise they are copied.

    Parameters
    ----------
    view : RunView
    columns : collection of str, optional
        By default all, as in `RunView.frame`.

    Raises
    ------
    QueryError
        If pyarrow is not installed, or the run has no column of a given name.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise QueryError(f"Arrow tables need the package pyarrow: {install_command('parquet')}") from error
    snapshot = view.snapshot
    rows: Any = slice(None) if snapshot.alive.all() else snapshot.alive_rows
    numbered = np.arange(snapshot.rows)[rows]

    def whole(values: np.ndarray, missing: int) -> Any:
        return pyarrow.array(values, mask=values == missing)

    makers: dict[str, Any] = {
        UID: lambda: pyarrow.array([clean_text(uid) for uid in snapshot.uids(numbered)], pyarrow.string()),
        STEP: lambda: pyarrow.array(snapshot.metadata("step")[rows]),
        RANK: lambda: whole(snapshot.metadata("rank")[rows], -1),
        LINE: lambda: whole(snapshot.lines(numbered), 0),
    }

    def label(name: str) -> Any:
        codes, texts = snapshot.label_codes(name)
        indices = pyarrow.array(codes[rows], mask=codes[rows] < 0)
        names = pyarrow.array([clean_text(text) for text in texts], pyarrow.string())
        return pyarrow.DictionaryArray.from_arrays(indices, names)

    for shown, name in view.label_names.items():
        makers.setdefault(shown, lambda name=name: label(name))
    for name in view.number_names:
        makers.setdefault(name, lambda name=name: pyarrow.array(view.number(name)[rows], from_pandas=True))
    chosen = list(makers) if columns is None else list(columns)
    if unknown := [name for name in chosen if name not in makers]:
        raise QueryError(f"no column {unknown[0]!r} in {snapshot.name}; columns: {', '.join(makers)}")
    return pyarrow.table([makers[name]() for name in chosen], names=chosen)


# -- step turns ----------------------------------------------------------------------------------------
# The turns of the samples of some steps as a table: who wrote what, with reasoning and tool calls.
#
# Turns are the messages of the log. Of a log with texts only they are found by the markup of the chat
# template, as on the board (`rlpanel.analysis.text_turns`).


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
