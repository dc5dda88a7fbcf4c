"""The grid's table: which columns a run has, in reading order, and the shortened texts of its cells."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from unicodedata import east_asian_width

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info
from rlpanel.number_text import number
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.samples.grid_cells import AGENT_LINES, COLUMN, MATCH, answer_tip, trace_column
from rlpanel.panels.samples.visible_rows import attempt_column
from rlpanel.panels.tables.data_table import ROW_HEIGHT, DataColumn
from rlpanel.panels.texts.sample_texts import MAX_CACHED, RowTexts, style_of
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_columns import POSITION_COLUMNS, AnswerColumns, answer_columns
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.text_predicate import ANY, PlaceFinder, TextPredicate
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.agent_line import ends_of
from rlpanel.texts.prompt_parts import Place, TextStyle, answer_cell, prompt_cell
from rlpanel.texts.shorten import shorten

_HIDDEN = frozenset({"prompt_chars", "response_chars", "time", "response_length", "logged_uid"})


def grid_columns(snapshot: Snapshot, kl: str) -> list[str]:
    """Return the grid's number and label columns that the run has, in reading order.

    Runs with agents show turns and tool calls first.
    """
    usual = [
        "reward",
        *(_TURNS if _has_agents(snapshot) else ()),
        f"{kl}_mean",
        f"{kl}_sum",
        "log_ratio_mean",
        "log_ratio_sum",
        "response_tokens",
        "trajectory_tokens",
        "lag",
        "advantage",
        "ref_reward",
        "reward_gap",
        "valid_reward",
        "ref_valid_reward",
        "valid_reward_gap",
        "group",
        "truncated",
        "surprisal_mean",
        "token_entropy_mean",
        "value_mean",
        "token_reward_sum",
        *_TURNS,
    ]
    derived = {f"{m.name}_{r}" for m in column_info.of_level("token") for r in m.reductions}
    custom = [
        n for n in (*snapshot.labels, *snapshot.numbers) if n not in usual and n not in derived | _HIDDEN
    ]
    available = {*snapshot.labels, *(name for name in snapshot.numbers if snapshot.has_number(name))}
    return [name for name in dict.fromkeys([*usual, *custom]) if name in available]


_TURNS = ("turns", "tool_calls", "tool_errors")


def _has_agents(snapshot: Snapshot) -> bool:
    """Return whether samples have several turns or call tools."""
    means = {name: snapshot.steps.statistic(name, "mean") for name in _TURNS[:2] if snapshot.has_number(name)}
    return any(bool((values > (name == "turns")).any()) for name, values in means.items())


def columns_of(
    frame: pd.DataFrame, widths: dict[str, int] | None = None, sorted_by: str = ""
) -> list[DataColumn]:
    """Return the definitions of the grid's columns for these rows.

    Parameters
    ----------
    widths : dict of str to int, optional
        Width by column of the rows shown before, which is only ever widened: a following grid stays calm.
    sorted_by : str
        The column whose head has an arrow.
    """
    known = {} if widths is None else widths
    answers = frame.attrs.get(ANSWERS)
    columns = dict(frame.items())  # pandas copies the frame's attributes for each column that is taken
    for name, values in columns.items():
        width = column_width(name, values, arrow=name == sorted_by)
        known[name] = max(width, known.get(name, 0))
    return [_column(name, values, known[name], answers) for name, values in columns.items() if name != "uid"]


def row_height(frame: pd.DataFrame) -> int:
    """Return the height of a row in pixels: rows with thumbnails are higher."""
    return 44 if COLUMN in frame else ROW_HEIGHT


def _column(name: str, values: pd.Series, width: int, answers: AnswerColumns | None) -> DataColumn:
    is_number, label = _is_number(values), f"{described(name).label}{_reduction(name)}"
    filtered = (tr("{column} at least") if is_number else tr("{column} contains")).format(column=label)
    title, tip = title_of(name), described(name).tip
    if answers is not None and answers.chosen is not None and name in answers.names:
        tip = answer_tip(answers.chosen)
    grows = name in _TEXTS
    return DataColumn(
        name,
        title=title,
        tip=tip,
        width=min(width, _READABLE if name == "response" else _GROWING) if grows else width,
        grow=width if grows else 0,
        align="right" if is_number else "left",
        filter="" if name == COLUMN else "number" if is_number else "text",
        filter_label=filtered,
        image=name == COLUMN,
    )


#: Titles that are shorter than the column's label.
_TITLES = {
    COLUMN: marked("media"),
    "ground_truth": marked("truth"),
    "answer": marked("answer"),
    "match": marked("match"),
}
#: The suffix of a token metric's column, by its reduction.
_REDUCTIONS = {"mean": marked(" mean"), "sum": marked(" sum")}


def title_of(name: str) -> str:
    """Return a column's title."""
    own = _TITLES.get(name)
    return tr(own) if own is not None else f"{described(name).label}{_reduction(name)}"


def _reduction(name: str) -> str:
    """Return the suffix for the title of a token metric's mean or sum; empty for other columns."""
    suffix = _REDUCTIONS.get(name.rpartition("_")[2])
    return tr(suffix) if suffix is not None and column_info.describe(name).detail else ""


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values)


#: Widths of columns in pixels: a column has the first one that its cells fit in, so that few steps change it.
_WIDTHS = (52, 60, 68, 76, 84, 94, 106, 120, 134, 152, 170, 194, 220, 258, 300, 360, 420, 510, 600, 900)
#: Widest number column; a name of the log may have any length. Narrowest column of texts that share the room.
_WIDEST, _GROWING = 134, 128
#: Narrowest column of responses: what was done, and how it ended.
_READABLE = 172
#: Pixels of a character, and of a cell's padding with the arrow of its head.
_CHARACTER, _PADDING = 7.2, 17
#: Pixels of a character of running text, which has many narrow letters, and of one that is as wide as two.
_LETTER, _WIDE_LETTER = 6.3, 12.5
#: How many of the longest texts of a column are measured: few are much wider than they are long.
_MEASURED = 8
#: Characters of the sign before a state, and of an arrow.
_SIGN = 2
#: Columns that share the room which the others leave.
_TEXTS = ("prompt", "response", "ref_response")


def column_width(name: str, values: pd.Series, *, arrow: bool = False) -> int:
    """Return the width of a column in pixels, from its title, with an arrow or without, and its cells."""
    if name == COLUMN:
        return 72
    title = title_of(name) + _SIGN * " " * arrow
    if _is_number(values):
        # Arrays: the same on a series takes ten times as long, for each column of each step.
        finite = np.asarray(values, np.float64)
        finite = finite[np.isfinite(finite)]
        ends = [finite.min(), finite.max(), np.abs(finite).min()] if len(finite) else []
        longest = max((len(number(float(value), whole=True)) for value in ends), default=1)
        if (finite != finite.round()).any():
            longest = max(longest, 6)
        return _fitting(max(longest, _width(title)), _WIDEST)
    texts = {str(value) for value in values.dropna().tolist()}
    if name in _TEXTS:
        longest_texts = heapq.nlargest(_MEASURED, texts, key=len)
        pixels = max((_pixels(text) for text in longest_texts), default=0.0)
        return _fitting(max(pixels / _CHARACTER, min(_width(title), 8) + 1), _WIDTHS[-1])
    longest = max(map(len, texts), default=0) + _SIGN
    return _fitting(max(longest, min(_width(title), 8) + 1), _WIDTHS[-1])


def _width(text: str) -> int:
    """Return how many Latin letters are as wide as a text: a Chinese character is as wide as two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _pixels(text: str) -> float:
    """Return about how many pixels a running text takes."""
    text = text[: int(_WIDTHS[-1] / _LETTER)]
    wide = sum(east_asian_width(letter) in "WF" for letter in text)
    return wide * _WIDE_LETTER + (len(text) - wide) * _LETTER


def _fitting(characters: float, most: int) -> int:
    needed = characters * _CHARACTER + _PADDING
    return min(next((width for width in _WIDTHS if width >= needed), _WIDTHS[-1]), most)


#: Attribute of a frame: the columns of answers that it has.
ANSWERS = "answers"
#: Maximum characters of a text in a row, for filters of columns; the search looks at the whole text.
TEXT_CHARS = 2000


def frame_of(
    view: RunView,
    rows: np.ndarray,
    texts: Mapping[int, Mapping[str, str]],
    outcome: QueryResult,
    notes: Notes | None,
    display: Display,
    style: TextStyle,
    *,
    whole_run: bool,
    answers: AnswerColumns | None = None,
) -> pd.DataFrame:
    """Return the rows with the run's columns in reading order; columns that the query names come early.

    Parameters
    ----------
    rows : ndarray of int, shape (N,)
        The first rows of the query's result.
    texts : mapping
        Row → its texts by name; rows that have not been read are missing.
    outcome : QueryResult
        If it looked for texts, the cells show the places that were found.
    answers : AnswerColumns, optional
        Adds the answer and whether it matches, if the run has ground truths.
    """
    snapshot = view.snapshot
    usual = grid_columns(snapshot, display.kl_estimator)
    queried = [name for name in dict.fromkeys(outcome.columns) if name not in (*usual, *POSITION_COLUMNS)]
    cells = view.row_columns(rows, [*usual, *queried])
    cells |= _texts(rows, texts, outcome.tests, style)
    beside = _answers(rows, texts, answers) if answers is not None and answers.chosen is not None else {}
    cells |= beside
    cells |= {name: values[: len(rows)] for name, values in outcome.extra.items()}
    cells |= _note_columns(notes, cells["uid"])
    cells |= attempt_column(snapshot, rows)
    if display.fold_episodes:
        cells |= trace_column(snapshot, rows)
    first = ["uid", "step"] if whole_run else ["uid"]
    named = [name for name in dict.fromkeys(outcome.columns) if name in cells]
    early = ["attempt", "prompt", "response", "tag", *named, "reward", "traces"]
    compared = [*beside][:1] + ["ground_truth"] * bool(beside) + [*beside][1:]
    late = ["note", "ground_truth", "ref_response", "rank", "line"]
    order = dict.fromkeys([*first, *early, *compared, *usual, *late])
    frame = pd.DataFrame({name: cells[name] for name in order if name in cells})
    # Texts in which places were found show these. Filters of the columns look at the texts as logged.
    frame.attrs[AGENT_LINES] = not any(test.field in (ANY, "response") for test in outcome.tests)
    if beside and answers is not None:
        frame.attrs |= {ANSWERS: answers, MATCH: answers.match}
    return frame


def table_frame(
    index: RunIndex | None,
    view: RunView,
    rows: np.ndarray,
    texts: RowTexts,
    outcome: QueryResult,
    notes: Notes | None,
    display: Display,
    *,
    whole_run: bool,
) -> pd.DataFrame:
    """Return `frame_of`, cached for all sessions unless there are notes or columns of the query alone."""

    def make() -> pd.DataFrame:
        return frame_of(
            view, rows, row_texts, outcome, notes, display, style, whole_run=whole_run, answers=answers
        )

    row_texts = texts.texts
    answers = answer_columns(index, view.snapshot, display.answer_rule) if index is not None else None
    style = style_of(index, view.snapshot, display) if index is not None else TextStyle()
    if outcome.extra or (notes is not None and not notes.empty):
        return make()
    key = (
        rows.tobytes(), len(row_texts), tuple(outcome.columns), outcome.tests, display.kl_estimator, style,
        whole_run, display.fold_episodes, display.answer_rule,
    )  # fmt: skip
    return cached_on(view, "table", key, make, most=MAX_CACHED)


def _texts(
    rows: np.ndarray,
    texts: Mapping[int, Mapping[str, str]],
    tests: Sequence[TextPredicate],
    style: TextStyle,
) -> dict[str, list[str]]:
    row_texts = [texts.get(row, {}) for row in rows.tolist()]
    logged = [
        name for name in schema.TEXTS if name in ("prompt", "response") or any(name in t for t in row_texts)
    ]
    finder = PlaceFinder(tests)
    columns = {}
    for name in logged:
        column = [each.get(name, "") for each in row_texts]
        # The samples of a group have the same prompt, which is worked on once.
        cells = {text: _cell(name, text, finder.places(name, text), style) for text in {*column}}
        columns[name] = [cells[text] for text in column]
    return columns


def _answers(
    rows: np.ndarray, texts: Mapping[int, Mapping[str, str]], answers: AnswerColumns
) -> dict[str, list[str | None]]:
    """Return the answers of the rows whose texts are read, and whether they match."""
    read = [answers.read(texts[row]) if row in texts else {} for row in rows.tolist()]
    return {name: [each.get(name) for each in read] for name in answers.names}


def _cell(name: str, text: str, places: Sequence[Place], style: TextStyle) -> str:
    shown = (
        prompt_cell(text, style, places, narrow=True)
        if name == "prompt"
        else answer_cell(text, style, places)
    )
    return ends_of(shown, TEXT_CHARS) if name == "response" and not places else shorten(shown, TEXT_CHARS)


def _note_columns(notes: Notes | None, uids: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of tags and notes that are not empty for these rows."""
    row_notes = [notes.of(uid) for uid in uids] if notes is not None and not notes.empty else []
    columns = {"tag": [note.tag for note in row_notes], "note": [note.note for note in row_notes]}
    return {name: texts for name, texts in columns.items() if any(texts)}
