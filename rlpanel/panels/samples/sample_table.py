"""The grid's table: which columns a run has, in reading order, and the shortened texts of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from rlpanel import schema
from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.episode_traces import trace_column
from rlpanel.panels.samples.thumbnails import COLUMN
from rlpanel.panels.samples.visible_rows import attempt_column
from rlpanel.panels.tables.data_table import ROW_HEIGHT, DataColumn, cells_of
from rlpanel.panels.texts.sample_texts import MAX_CACHED, RowTexts
from rlpanel.panels.texts.text_style import style_of
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_columns import POSITION_COLUMNS
from rlpanel.store.query.query import QueryResult
from rlpanel.store.query.sample_notes import Notes
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.agent_line import agent_line
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


def columns_of(frame: pd.DataFrame) -> list[DataColumn]:
    """Return the definitions of the grid's columns for these rows."""
    return [_column(name, frame[name]) for name in frame.columns if name != "uid"]


def row_height(frame: pd.DataFrame) -> int:
    """Return the height of a row in pixels: rows with thumbnails are higher."""
    return 44 if COLUMN in frame else ROW_HEIGHT


def _column(name: str, values: pd.Series) -> DataColumn:
    number, label = _is_number(values), f"{column_info.describe(name).label}{_reduction(name)}"
    filtered = (tr("{column} at least") if number else tr("{column} contains")).format(column=label)
    return DataColumn(
        name,
        title=title_of(name),
        tip=column_info.describe(name).tip,
        width=column_width(name, values),
        align="right" if number else "left",
        filter="" if name == COLUMN else "number" if number else "text",
        filter_label=filtered,
        image=name == COLUMN,
    )


def title_of(name: str) -> str:
    """Return a column's title."""
    return "media" if name == COLUMN else f"{column_info.describe(name).label}{_reduction(name)}"


def _reduction(name: str) -> str:
    """Return the suffix for the title of a token metric's mean or sum; empty for other columns."""
    suffix = {"mean": " mean", "sum": " sum"}.get(name.rpartition("_")[2], "")
    return suffix if column_info.describe(name).detail else ""


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values)


#: Maximum width of a number column, in pixels; a name of the log may have any length.
_WIDEST = 146


def column_width(name: str, values: pd.Series) -> int:
    """Return the width of a column in pixels, from its title and its values."""
    if name in ("prompt", "response"):
        return 128
    if name == COLUMN:
        return 72
    if name == "step":
        return 64
    if _is_number(values):
        # 6 pixels per character of the title, 38 for padding and sort arrow.
        title = column_info.describe(name).label + _reduction(name)
        return min(max(84, 38 + 6 * len(title)), _WIDEST)
    return 150 if name in schema.TEXTS else 90


#: Maximum characters of a text in a row, for filters of columns; the search looks at the whole text.
TEXT_CHARS = 2000
#: Maximum characters that a cell shows: about as many as fit into a column as wide as a large screen.
CELL_CHARS = 400
#: Attribute of a frame: True if its responses are shown as `agent_line` writes them.
AGENT_LINES = "agent_lines"


def sample_cells(page: pd.DataFrame, name: str) -> Sequence[str | None]:
    """Return the cells of a column of the grid."""
    if name == "response" and page.attrs.get(AGENT_LINES):
        cells: Sequence[str | None] = [
            agent_line(text, whole=len(text) <= TEXT_CHARS) for text in page[name].tolist()
        ]
    else:
        cells = cells_of(page, name)
    return cells if name == COLUMN else [cell and shorten(cell, CELL_CHARS) for cell in cells]


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
    """
    snapshot = view.snapshot
    usual = grid_columns(snapshot, display.kl_estimator)
    queried = [name for name in dict.fromkeys(outcome.columns) if name not in (*usual, *POSITION_COLUMNS)]
    cells = view.row_columns(rows, [*usual, *queried])
    cells |= _texts(rows, texts, outcome.tests, style)
    cells |= {name: values[: len(rows)] for name, values in outcome.extra.items()}
    cells |= _note_columns(notes, cells["uid"])
    cells |= attempt_column(snapshot, rows)
    if display.fold_episodes:
        cells |= trace_column(snapshot, rows)
    first = ["uid", "step"] if whole_run else ["uid"]
    early = ["attempt", "prompt", "response", "tag", "reward", "traces", *queried]
    late = ["note", "ground_truth", "ref_response", "rank", "line"]
    order = dict.fromkeys([*first, *early, *usual, *late])
    frame = pd.DataFrame({name: cells[name] for name in order if name in cells})
    # Texts in which places were found show these. Filters of the columns look at the texts as logged.
    frame.attrs[AGENT_LINES] = not outcome.tests
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
        return frame_of(view, rows, row_texts, outcome, notes, display, style, whole_run=whole_run)

    row_texts = texts.texts
    style = style_of(index, view.snapshot, display) if index is not None else TextStyle()
    if outcome.extra or (notes is not None and not notes.empty):
        return make()
    key = (
        rows.tobytes(), len(row_texts), tuple(outcome.columns), outcome.tests, display.kl_estimator, style,
        whole_run, display.fold_episodes,
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


def _cell(name: str, text: str, places: Sequence[Place], style: TextStyle) -> str:
    shown = (
        prompt_cell(text, style, places, narrow=True)
        if name == "prompt"
        else answer_cell(text, style, places)
    )
    return shorten(shown, TEXT_CHARS)


def _note_columns(notes: Notes | None, uids: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns of tags and notes that are not empty for these rows."""
    row_notes = [notes.of(uid) for uid in uids] if notes is not None and not notes.empty else []
    columns = {"tag": [note.tag for note in row_notes], "note": [note.note for note in row_notes]}
    return {name: texts for name, texts in columns.items() if any(texts)}
