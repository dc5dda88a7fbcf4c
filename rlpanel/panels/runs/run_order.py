"""Filters, sorts and groups the lines of the table of runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlpanel.errors import FilterError
from rlpanel.number_text import number
from rlpanel.panels.runs.run_rows import (
    ALARM,
    FINE,
    UNCHECKED,
    UNREAD,
    VERDICTS,
    WARNING,
    RunRow,
    setting_text,
)
from rlpanel.panels.sidebar.run_badge import FINISHED, LIVE, QUIET, STOPPED
from rlpanel.store.index.run_folder import Setting
from rlpanel.store.query.filter import LABEL, NUMBER, Filter, FilterInput, Labels

#: The order of a table that nobody has sorted: the worst finding first.
FINDING, NAME = "finding", "run"
#: Text of a group in the place of a value that is not known.
NOT_KNOWN = "–"
#: Chip → whether a run passes it. The chips of one kind widen each other, those of two kinds narrow.
CHIPS: dict[str, tuple[str, Callable[[RunRow], bool]]] = {
    "with": ("verdict", lambda row: row.verdict in (ALARM, WARNING)),
    "without": ("verdict", lambda row: row.verdict == FINE),
    "unchecked": ("verdict", lambda row: row.verdict == UNCHECKED),
    "unread": ("verdict", lambda row: row.verdict == UNREAD),
    "live": ("state", lambda row: row.state == LIVE),
    "quiet": ("state", lambda row: row.state == QUIET),
    "finished": ("state", lambda row: row.state == FINISHED),
    "stopped": ("state", lambda row: row.state == STOPPED),
}
#: A text with one of these is an expression of the filter language, any other one a list of words.
_EXPRESSION = re.compile(r"[<>=!]|\b(contains|startswith|endswith|matches|in|missing)\b")
#: Runs without a finding in a folder that are shown at once; of more, only their number.
_FEW = 3


@dataclass(frozen=True)
class Choice:
    """Choices of the viewer in the table.

    Attributes
    ----------
    sort : str
        `FINDING`, `NAME`, a number of the rows, or a setting.
    falls : bool
        Whether the highest value is the first one; of findings, the best.
    chips : frozenset of str
        Keys of `CHIPS`.
    text : str
        Words of the path, or a filter expression.
    folders : bool
        Whether runs stand in folders, where they are sorted by finding or name.
    group : str
        Setting by whose values runs are grouped instead of by folders; empty for none.
    toggled : frozenset of str
        Folders that are closed, and ``+`` with folders whose runs without a finding are shown.
    """

    sort: str = FINDING
    falls: bool = False
    chips: frozenset[str] = frozenset()
    text: str = ""
    folders: bool = True
    toggled: frozenset[str] = frozenset()
    group: str = ""


class Arranged(NamedTuple):
    """The lines of the table: names of runs, and dicts about folders; and what is wrong with the filter."""

    lines: list[str | dict[str, Any]]
    shown: int
    error: str = ""


def chip_counts(rows: Sequence[RunRow]) -> dict[str, int]:
    """Return the number of runs that pass each chip."""
    return {chip: sum(map(passes, rows)) for chip, (_, passes) in CHIPS.items()}


def arrange(rows: Sequence[RunRow], choice: Choice) -> Arranged:
    """Return the lines of the table for a choice."""
    chosen = [CHIPS[chip] for chip in choice.chips if chip in CHIPS]
    kinds: dict[str, list[Callable[[RunRow], bool]]] = {}
    for kind, passes in chosen:
        kinds.setdefault(kind, []).append(passes)
    passing = [row for row in rows if all(any(test(row) for test in tests) for tests in kinds.values())]
    try:
        passing, error = matching(passing, choice.text, rows), ""
    except FilterError as wrong:
        error = str(wrong)
    passing = ordered(passing, choice)
    if choice.group:
        return Arranged(_grouped(passing, choice), len(passing), error)
    if not (choice.folders and choice.sort in (FINDING, NAME)) or not any(row.folder for row in passing):
        return Arranged([row.name for row in passing], len(passing), error)
    folders: dict[str, list[RunRow]] = {}
    for row in passing:
        folders.setdefault(row.folder, []).append(row)
    folds = choice.sort == FINDING and "without" not in choice.chips and not choice.text
    lines: list[str | dict[str, Any]] = []
    for folder, inside in folders.items():
        lines += _folder_lines(folder, inside, choice, folds=folds)
    return Arranged(lines, len(passing), error)


def group_title(row: RunRow, name: str) -> str:
    """Return the title of the group of a run, such as ``lr = 3e-6``."""
    value = row.settings.get(name)
    return f"{name}: {NOT_KNOWN}" if value is None else f"{name} = {setting_text(value)}"


def _grouped(rows: Sequence[RunRow], choice: Choice) -> list[str | dict[str, Any]]:
    """Return the runs below a line for each value of a setting, the values ascending, unknown ones last."""
    groups: dict[str, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: _value_key(row.settings.get(choice.group))):
        groups.setdefault(group_title(row, choice.group), []).append(row)
    lines: list[str | dict[str, Any]] = []
    for title, inside in groups.items():
        is_open = title not in choice.toggled
        lines.append({"folder": title, "open": is_open, **_facts(inside, of_group=True)})
        lines += [row.name for row in inside] if is_open else []
    return lines


def _value_key(value: Setting | None) -> tuple[int, float, str]:
    """Sort key of a setting: numbers, then texts, then what is not known."""
    if value is None:
        return 2, 0.0, ""
    return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")


def _folder_lines(
    folder: str, inside: Sequence[RunRow], choice: Choice, *, folds: bool
) -> Iterable[str | dict[str, Any]]:
    """Return a folder's head and its runs; many runs without a finding become one line at its end."""
    is_open = folder not in choice.toggled
    yield {"folder": folder, "open": is_open, **_facts(inside)}
    if not is_open:
        return
    calm = [row for row in inside if row.verdict in (FINE, UNCHECKED)] if folds else []
    is_whole = f"+{folder}" in choice.toggled
    hidden = calm if len(calm) > _FEW and len(inside) > len(calm) else []
    names = {row.name for row in hidden}
    yield from (row.name for row in inside if is_whole or row.name not in names)
    if hidden:
        checked = sum(row.verdict == FINE for row in hidden)
        yield {"rest": folder, "open": is_whole, "fine": checked, "unchecked": len(hidden) - checked}


def _facts(inside: Sequence[RunRow], *, of_group: bool = False) -> dict[str, Any]:
    """Return what the head of a folder says about its runs; of a group, the error of the mean."""
    rewards = [row.numbers["reward"] for row in inside if "reward" in row.numbers]
    facts: dict[str, Any] = {"runs": len(inside)}
    facts |= {
        verdict: count for verdict in VERDICTS if (count := sum(row.verdict == verdict for row in inside))
    }
    if len(rewards) > 1:
        spread = float(np.std(rewards, ddof=1))
        facts["mean"] = number(float(np.mean(rewards)))
        facts["spread"] = number(spread / math.sqrt(len(rewards)) if of_group else spread)
    elif rewards and of_group:
        facts["mean"] = number(rewards[0])
    if of_group:
        facts["group"] = True
        facts["rewards"] = len(rewards)
        for name in ("best", "tokens", "hours", "gpu_hours"):
            values = [row.numbers[name] for row in inside if name in row.numbers]
            if values:
                facts[name] = number(float(np.mean(values) if name == "best" else np.sum(values)))
    return facts


def ordered(rows: Sequence[RunRow], choice: Choice) -> list[RunRow]:
    """Return the rows sorted by the choice; unknown values come last, and newer runs before older ones."""
    newest = sorted(rows, key=lambda row: (-row.time, row.name))
    if choice.sort == NAME:
        return sorted(newest, key=lambda row: _natural(row.place), reverse=choice.falls)
    if choice.sort == FINDING:
        return sorted(newest, key=_badness, reverse=choice.falls)
    known = [(value, row) for row in newest if (value := value_of(row, choice.sort)) is not None]
    unknown = [row for row in newest if value_of(row, choice.sort) is None]
    known.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]), reverse=choice.falls)
    return [row for _, row in known] + unknown


def _badness(row: RunRow) -> tuple[int, float, float]:
    """Sort key: the worst verdict first; among equal ones that with more alarms, then with more warnings."""
    return VERDICTS.index(row.verdict), -row.numbers.get("alarms", 0.0), -row.numbers.get("warnings", 0.0)


def value_of(row: RunRow, name: str) -> float | str | None:
    """Return the number or setting of a row; None if it is not known."""
    value = row.numbers.get(name, row.settings.get(name))
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _natural(text: str) -> list[tuple[int, str]]:
    """Sort key of a path in which numbers stand in their order: seed2 before seed10."""
    parts = re.split(r"(\d+)", text.lower())
    return [(int(part) if part.isdigit() and len(part) < 16 else -1, part) for part in parts]


# -- filter ------------------------------------------------------------------------------------------


def matching(rows: Sequence[RunRow], text: str, all_rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the rows whose path has all words of a text, or that pass the expression, such as lr > 1e-6.

    Raises
    ------
    FilterError
        If the expression is not valid for the columns of ``all_rows``.
    """
    if not text.strip():
        return list(rows)
    if not _EXPRESSION.search(text):
        words = text.lower().split()
        return [row for row in rows if all(word in row.label.lower() for word in words)]
    table = _Table(rows, all_rows)
    passes = Filter(text, table.kinds).evaluate(FilterInput(table)).sure
    return [row for row, passed in zip(rows, passes.tolist(), strict=True) if passed]


class _Table:
    """The rows as the filter language reads them."""

    def __init__(self, rows: Sequence[RunRow], all_rows: Sequence[RunRow]) -> None:
        self._rows = rows
        self.kinds = dict.fromkeys((NAME, "folder", "state", FINDING), LABEL)
        for row in all_rows:
            for name, value in (*row.numbers.items(), *row.settings.items()):
                kind = LABEL if isinstance(value, str) else NUMBER
                self.kinds[name] = LABEL if self.kinds.get(name) == LABEL else kind

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, name: str) -> np.ndarray:
        values = (value_of(row, name) for row in self._rows)
        return np.array([np.nan if value is None else float(value) for value in values], float)

    def codes(self, name: str) -> Labels:
        texts = [self._text(row, name) for row in self._rows]
        found = sorted({text for text in texts if text is not None})
        place = {text: at for at, text in enumerate(found)}
        return np.array([-1 if text is None else place[text] for text in texts], int), found

    @staticmethod
    def _text(row: RunRow, name: str) -> str | None:
        own = {NAME: row.label, "folder": row.folder, "state": row.state, FINDING: row.cells.get("said", "")}
        if name in own:
            return str(own[name])
        value = value_of(row, name)
        return None if value is None else str(value)
