"""Computes the expected numbers in a slow and simple way: json, pandas, one sample at a time.

It shares no code with the package: no parser, no metric, no store.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pandas as pd

#: Responses with at least this surprisal do not repeat by chance; tests may set it lower.
DUPLICATE_SURPRISAL = 64.0


@dataclass
class Reading:
    """The contents of a log; ``rows`` are the samples that are used, excluded ones are counted by split."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    older: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    blank: int = 0

    @property
    def splits(self) -> set[str]:
        """The splits of all samples, including excluded ones."""
        return {row["_split"] for row in self.rows} | set(self.older) | set(self.duplicates)

    @property
    def shown(self) -> str:
        """The split that a run shows while none is chosen."""
        sizes = Counter(row["_split"] for row in self.rows)
        most = sorted(self.splits, key=lambda split: (-sizes[split], split))
        return "train" if "train" in self.splits or not most else most[0]

    def frame(self, split: str) -> pd.DataFrame:
        """Return one row per sample of a split, by uid."""
        mine = [row for row in self.rows if row["_split"] == split]
        rows = [{key: row[key] for key in row if key not in ("_line", "_split", "_session")} for row in mine]
        frame = pd.DataFrame(rows).set_index("uid").sort_index() if rows else pd.DataFrame()
        return frame.drop(columns=[name for name in _CRITIC if name in frame and _filled(frame[name])])


#: Fields that trainers without a critic fill with zeros.
_CRITIC = ("value_mean", "token_reward_sum")


def _filled(column: pd.Series) -> bool:
    finite = column.astype(float).replace([math.inf, -math.inf], math.nan).dropna()
    return not finite.any()


def read(logs: Mapping[str, bytes]) -> Reading:
    """Read all complete lines of all files."""
    found = Reading()
    newest: list[dict[str, Any]] = []
    for name, data in sorted(logs.items()):
        offset, before = 0, len(found.rows)
        for line in data.split(b"\n")[:-1]:
            _line(found, name, offset, line)
            offset += len(line) + 1
        newest += _newest_attempts(found.rows[before:])
    newest = [row for row in newest if not any(_replaced(row, other, found.rows) for other in found.rows)]
    found.older = _by_split(found.rows) - _by_split(newest)
    found.rows = newest
    once = _once(found.rows)
    found.duplicates = _by_split(found.rows) - _by_split(once)
    found.rows = once
    return found


def _by_split(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["_split"] for row in rows)


def _newest_attempts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of a file, without those that a jump back replaced, by rank, split and session."""
    kept: set[str] = set()
    for key in {_kind(row) for row in rows}:
        kept |= {row["uid"] for row in _newest_attempt([row for row in rows if _kind(row) == key])}
    return [row for row in rows if row["uid"] in kept]


def _kind(row: dict[str, Any]) -> tuple[int, str, str]:
    return row["rank"], row["_split"], row["_session"]


def _replaced(row: dict[str, Any], first: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Return whether ``first`` begins a session that was created after the last line of the row's session."""
    if "" in (row["_session"], first["_session"]) or row["step"] < first["step"]:
        return False
    if (row["rank"], row["_split"]) != (first["rank"], first["_split"]):
        return False
    if any(_kind(other) == _kind(first) and _order(other) < _order(first) for other in rows):
        return False
    mine = [other for other in rows if (other["rank"], other["_session"]) == (row["rank"], row["_session"])]
    return max(_latest(other["time"]) for other in mine) < _created(first["_session"])


def _order(row: dict[str, Any]) -> tuple[float, str, int]:
    name, _, offset = row["uid"].rpartition(":")
    return row["time"], name, int(offset)


def _latest(time: float) -> float:
    """Return the latest time of a line: whole tens of seconds may have been rounded."""
    return time + 5 if time in (0.0, 10.0) else time


def _created(session: str) -> float:
    return int(session.partition("-")[0], 16) / 1000


def _session(row: dict[str, Any]) -> str:
    """Return the recorder's session with its first process only, or nothing if no recorder wrote the line."""
    parts = str(row.get("session")).split("-")
    if len(parts) not in (2, 4) or row["time"] is None or not _latest(row["time"]) >= _created(parts[0]):
        return ""
    return f"{parts[0]}-{parts[1]}"


def _newest_attempt(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of a rank and split in their order, without those that a restart replaced."""
    kept: list[dict[str, Any]] = []
    for step, run in groupby(rows, key=lambda row: row["step"]):
        lines = list(run)
        had = Counter(row["step"] for row in kept)
        usual = had[step] or statistics.median(had.values() or [0])
        if sum(other > step for other in had) >= 2 and 2 * len(lines) >= usual:
            kept = [row for row in kept if row["step"] < step]
        kept += lines
    return kept


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the repetitions of earlier lines that are too improbable to repeat.

    A recorder's equal lines in one file are several samples.
    """
    seen, kept, numbers = set(), [], Counter[tuple[str, ...]]()
    for row in rows:
        unlikely = row.get("surprisal_sum", 0.0) >= DUPLICATE_SURPRISAL
        file = row["uid"].rpartition(":")[0]
        line = (row["step"], row["_split"], row["_line"])
        key = (*line, numbers[file, *line] if row["_session"] else 0)
        numbers[file, *line] += 1
        if key not in seen or not unlikely:
            kept.append(row)
        seen.add(key)
    return kept


def _line(found: Reading, name: str, offset: int, line: bytes) -> None:
    if not line.strip():
        found.blank += 1
        return
    try:
        row = json.loads(line)
        step = float(row["step"])
        if not step.is_integer() or not {"prompt", "response"} & row.keys():
            raise ValueError
    except (ValueError, TypeError, KeyError):
        found.bad += 1
        return
    rank = row.get("rank", int(name.rpartition("_")[2].removesuffix(".jsonl")))
    place = {"uid": f"{name}:{offset}", "step": int(step), "rank": rank, "_line": line}
    place["_split"] = row.get("split") or "train"
    place["_session"] = _session(row)
    found.rows.append(place | _columns(row))


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for key in ("reward", "ref_reward", "valid_reward"):
        if key in row:
            columns[key] = _number(row[key])
    if row.get("time") is not None:
        columns["time"] = _number(row["time"])
    if row.get("session") is not None:
        columns["session"] = row["session"]
    if row.get("mine") is not None:
        columns["mine"] = row["mine"]
    for part, value in (row.get("rewards") or {}).items() if isinstance(row.get("rewards"), dict) else ():
        columns[f"rewards/{part}"] = _number(value)
    for key in ("prompt", "response"):
        if key in row:
            columns[f"{key}_chars"] = len(row[key])
    if "group" in row:
        columns["group"] = str(row["group"])
    if row.get("split"):
        columns["split"] = row["split"]
    if "reward" in columns and "ref_reward" in columns:
        columns["reward_gap"] = columns["reward"] - columns["ref_reward"]
    tokens = row.get("response_tokens", row.get("logprobs") or None)
    if tokens is not None:
        mask = row.get("loss_mask")
        written = sum(map(bool, mask or [])) if mask is not None and len(mask) == len(tokens) else 0
        columns["response_tokens"] = written or len(tokens)
        if mask is not None:
            columns["trajectory_tokens"] = len(tokens)
            columns["context_tokens"] = len(tokens) - written if written else math.nan
    return columns | _reductions(row)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _reductions(row: dict[str, Any]) -> dict[str, float]:
    arrays = {
        key: [_number(value) for value in row[key]]
        for key in ("logprobs", "ref_logprobs", "values", "token_rewards", "entropy", "loss_mask")
        if key in row
    }
    found = {}
    for name, (needs, formula, reductions) in _FORMULAS.items():
        inputs = [arrays.get(need) for need in needs]
        if (
            any(array is None for array in inputs)
            or len({len(array) for array in inputs if array is not None}) != 1
        ):
            continue
        values = list(zip(*inputs, strict=True))  # type: ignore[arg-type]
        mask = arrays.get("loss_mask")
        if mask is not None and len(mask) == len(values) and name not in _UNMASKED:
            values = [each for each, kept in zip(values, mask, strict=True) if kept]
        scored = [each for each in values if needs[0] not in _LOGPROBS or all(map(math.isfinite, each))]
        if scored:
            tokens = [formula(*each) for each in scored]
            total = math.fsum(tokens)
            both = {"sum": total if len(scored) == len(values) else math.nan, "mean": total / len(tokens)}
            found |= {f"{name}_{reduction}": both[reduction] for reduction in reductions}
    return found | _unscored(arrays)


def _unscored(arrays: dict[str, list[float]]) -> dict[str, float]:
    """Count the tokens in the loss without a finite logprob, if there are any."""
    found = {}
    for name in _LOGPROBS & arrays.keys():
        mask = arrays.get("loss_mask", [])
        masked = len(mask) == len(arrays[name])
        kept = [value for at, value in enumerate(arrays[name]) if not masked or mask[at]]
        if missing := sum(not math.isfinite(value) for value in kept):
            found[f"unscored_{name}"] = float(missing)
    return found


def _clamped(d: float) -> float:
    return max(-20.0, min(20.0, d)) if math.isfinite(d) else math.nan


_PAIR = ("logprobs", "ref_logprobs")
#: Arrays of which a token without a finite number is left out, and not its sample.
_LOGPROBS = frozenset(_PAIR)
_BOTH = ("mean", "sum")

#: Metric: its arrays, its formula for a single token, its reductions.
_FORMULAS: dict[str, tuple[tuple[str, ...], Callable[..., float], tuple[str, ...]]] = {
    "log_ratio": (_PAIR, lambda lp, rl: lp - rl, _BOTH),
    "kl_k2": (_PAIR, lambda lp, rl: (lp - rl) ** 2 / 2, _BOTH),
    "kl_k3": (_PAIR, lambda lp, rl: math.expm1(-_clamped(lp - rl)) + _clamped(lp - rl), _BOTH),
    "kl_rllb": (_PAIR, lambda lp, rl: math.expm1(_clamped(lp - rl)) - _clamped(lp - rl), _BOTH),
    "surprisal": (("logprobs",), lambda lp: -lp, _BOTH),
    "logprob": (("logprobs",), lambda lp: lp, ("mean",)),
    "ref_logprob": (("ref_logprobs",), lambda rl: rl, ("mean",)),
    "value": (("values",), lambda value: value, ("mean",)),
    "token_reward": (("token_rewards",), lambda reward: reward, ("sum",)),
    "token_entropy": (("entropy",), lambda entropy: entropy, ("mean",)),
}

#: Metrics that count the tokens outside the loss mask, too: the score may be on one of them.
_UNMASKED = frozenset({"token_reward"})


def by_step(frame: pd.DataFrame, columns: list[str]) -> dict[str, pd.DataFrame]:
    """Return statistics of the columns' finite values, one row per step."""
    groups = _finite(frame, columns).groupby(frame["step"])
    return {
        "count": groups.count(),
        "mean": groups.mean(),
        "std": groups.std(),
        "min": groups.min(),
        "max": groups.max(),
    }


def quantiles(frame: pd.DataFrame, columns: list[str], q: tuple[float, ...]) -> dict[float, pd.DataFrame]:
    """Return quantiles of the columns' finite values, one row per step."""
    found = _finite(frame, columns).groupby(frame["step"]).quantile(list(q))
    return {p: found.xs(p, level=-1) for p in q}


def _finite(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    return frame[columns].astype(float).replace([math.inf, -math.inf], math.nan)
