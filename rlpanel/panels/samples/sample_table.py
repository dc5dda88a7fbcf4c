"""Columns of the grid: which ones a run has, in reading order, their titles and widths."""

from __future__ import annotations

import pandas as pd

from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.thumbnails import COLUMN
from rlpanel.panels.tables.data_table import ROW_HEIGHT, DataColumn
from rlpanel.store.snapshot.snapshot import Snapshot

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
