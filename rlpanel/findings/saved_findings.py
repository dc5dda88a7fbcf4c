"""Findings saved beside a run's columns, so that a command on an unchanged run does not run the rules again.

Only findings that do not depend on the clock are saved. They are valid as long as their key is the same: a
hash of everything that the rules can read. Runs that are followed are never read from this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import cached_property
from typing import Any

import numpy as np
import param
import xxhash

from rlpanel import __version__
from rlpanel.findings import check
from rlpanel.findings.engine.finding import SEVERITIES, Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.metric import Level
from rlpanel.settings import FindingSettings
from rlpanel.store.cache.fingerprint import module_fingerprint
from rlpanel.store.cache.saved_text import read_saved_text, save_text
from rlpanel.store.columns.scalar_log import Scalars
from rlpanel.store.index import snapshot_builder
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: File in the cache folder of a run.
FILE = "checks"
#: Maximum number of bytes of that file, and of checks in it: splits and thresholds alternate.
MOST_BYTES, MOST_CHECKS = 4 << 20, 4


class SavedFindings:
    """Reads and writes the saved findings of one snapshot; does nothing while the run is followed.

    Parameters
    ----------
    index : RunIndex
    view : RunView
        The checked snapshot of that run.
    thresholds : FindingSettings
    now : float
        Seconds since the epoch.
    """

    def __init__(self, index: RunIndex, view: RunView, thresholds: FindingSettings, now: float) -> None:
        self._index, self._snapshot = index, view.snapshot
        self._steps = RuleContext(view, thresholds, now).steps
        self._thresholds = thresholds

    def read(self) -> check.CheckResult | None:
        """Return the saved result of the same check; None without one."""
        steady = self._checks.get(self._key) if self._key else None
        if steady is None:
            return None
        return check.CheckResult([], (self._snapshot.version, len(self._steps)), steady)

    def write(self, result: check.CheckResult) -> None:
        """Save the result of this check, unless it is saved already or a rule failed."""
        if not self._key or self._key in self._checks or result.failed:
            return
        older = list(self._checks.items())[-MOST_CHECKS + 1 :]
        checks = dict([*older, (self._key, result.steady)])
        plain = {key: [asdict(finding) for finding in steady] for key, steady in checks.items()}
        body = json.dumps(plain, default=np.generic.item)
        save_text(self._index.path, FILE, body, MOST_BYTES)

    @cached_property
    def _checks(self) -> dict[str, list[Finding]]:
        """Findings by key, the oldest check first."""
        return _parse(read_saved_text(self._index.path, FILE, MOST_BYTES))

    @cached_property
    def _key(self) -> str:
        """Hash of all that the rules can read; empty if the findings must not be saved."""
        snapshot, rows, code = self._snapshot, self._index.saved_rows_hash, _code()
        if not (rows and code and snapshot.progress.caught_up and len(self._steps)):
            return ""
        digest = xxhash.xxh3_128()
        about = (
            *(FILE, __version__, np.__version__, sys.version_info[:2], code, rows),
            *(snapshot.name, snapshot.split, snapshot.splits, snapshot.rows, snapshot.files, snapshot.ranks),
            *(snapshot.bad_lines, snapshot.bad_count, snapshot.blank_count, snapshot.problems),
            *(snapshot.unread, snapshot.restarts, snapshot.newest_line, snapshot.backlog_starts),
            *(snapshot.constants.by_name, snapshot.constants.logged),
            *map(_settings, (self._thresholds, self._index.reading)),
            *(snapshot.scalars.files, snapshot.scalars.names, snapshot.remarks),
        )
        digest.update(repr(about).encode("utf-8", "backslashreplace"))
        for values in (self._steps, snapshot.state, *_scalar_arrays(snapshot.scalars)):
            digest.update(f"{values.dtype} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()


def _settings(settings: param.Parameterized) -> list[tuple[str, object]]:
    """Return the values of settings by name, without the number that param gives each object."""
    return sorted((name, value) for name, value in settings.param.values().items() if name != "name")


def _scalar_arrays(scalars: Scalars) -> list[np.ndarray]:
    series = [scalars.series(name) for name in scalars.names]
    return [values for one in series for values in (one.steps, one.values)]


def _code() -> str:
    """Return the fingerprint of the rules, the metrics, and what builds snapshots."""
    levels: tuple[Level, ...] = ("token", "sample", "group", "step")
    metrics = [metric.function.__module__ for level in levels for metric in column_info.of_level(level)]
    rules = [rule.check.__module__ for rule in RULES.values()]
    return module_fingerprint([__name__, snapshot_builder.__name__, *metrics, *rules])


def _parse(text: str) -> dict[str, list[Finding]]:
    """Return the findings by key that a saved text holds; none if it holds something else."""
    try:
        plain = json.loads(text)
        return {str(key): [_finding(finding) for finding in found] for key, found in plain.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _finding(plain: dict[str, Any]) -> Finding:
    """Return a finding of its JSON object; ValueError, TypeError or KeyError if it is none."""
    if len(plain) != len(_PARSERS):
        raise ValueError("a finding has other fields")
    return Finding(**{name: parse(plain[name]) for name, parse in _PARSERS.items()})


def _of_type(kind: type) -> Callable[[Any], Any]:
    """Return a function that accepts values of exactly one type: True is no integer."""

    def accept(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r:.50} is no {kind.__name__}")
        return value

    return accept


def _severity(value: Any) -> Any:
    if value not in SEVERITIES:
        raise ValueError(f"{value!r:.50} is no severity")
    return value


def _integer_or_none(value: Any) -> int | None:
    return None if value is None else _step(value)


def _step(value: Any) -> int:
    number: int = _of_type(int)(value)
    if abs(number) >= 1 << 63:
        raise ValueError("the integer is too large")
    return number


def _tuple_of(parse: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda values: tuple(map(parse, _of_type(list)(values)))


#: Field of a finding → function that checks its JSON value. A field of another type raises an error here.
_PARSERS: dict[str, Callable[[Any], Any]] = {
    field.name: {
        "Severity": _severity,
        "str": _of_type(str),
        "bool": _of_type(bool),
        "int | None": _integer_or_none,
        "tuple[str, ...]": _tuple_of(_of_type(str)),
        "tuple[int, ...]": _tuple_of(_step),
        "tuple[Finding, ...]": _tuple_of(_finding),
    }[str(field.type)]
    for field in fields(Finding)
}
