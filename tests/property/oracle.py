"""The same numbers, read the slow and obvious way: json, pandas, one sample at a time.

It shares nothing with the package: no parser, no metric, no store.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass
class Reading:
    """What a log holds."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    bad: int = 0
    blank: int = 0

    @property
    def frame(self) -> pd.DataFrame:
        """A row a sample, by uid."""
        return pd.DataFrame(self.rows).set_index("uid").sort_index() if self.rows else pd.DataFrame()


def read(logs: Mapping[str, bytes]) -> Reading:
    """All whole lines of all files."""
    found = Reading()
    for name, data in logs.items():
        offset = 0
        for line in data.split(b"\n")[:-1]:
            _line(found, name, offset, line)
            offset += len(line) + 1
    return found


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
    found.rows.append({"uid": f"{name}:{offset}", "step": int(step), "rank": rank} | _columns(row))


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for key in ("reward", "ref_reward", "valid_reward"):
        if key in row:
            columns[key] = _number(row[key])
    if row.get("mine") is not None:
        columns["mine"] = row["mine"]
    for part, value in (row.get("rewards") or {}).items() if isinstance(row.get("rewards"), dict) else ():
        columns[f"rewards/{part}"] = _number(value)
    for key in ("prompt", "response"):
        if key in row:
            columns[f"{key}_chars"] = len(row[key])
    if "group" in row:
        columns["group"] = str(row["group"])
    if "reward" in columns and "ref_reward" in columns:
        columns["reward_gap"] = columns["reward"] - columns["ref_reward"]
    tokens = row.get("response_tokens", row.get("logprobs"))
    if tokens is not None:
        columns["response_tokens"] = len(tokens)
    return columns | _reductions(row)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _reductions(row: dict[str, Any]) -> dict[str, float]:
    arrays = {
        key: [_number(value) for value in row[key]]
        for key in ("logprobs", "ref_logprobs", "values", "token_rewards", "entropy", "loss_mask")
        if key in row
    }
    if arrays.get("values") and not any(arrays["values"]):  # filled by a trainer that has no critic
        del arrays["values"]
        if not any(arrays.get("token_rewards", [1.0])):
            del arrays["token_rewards"]
    found = {}
    for name, (needs, formula, reductions) in _FORMULAS.items():
        inputs = [arrays.get(need) for need in needs]
        if (
            any(array is None for array in inputs)
            or len({len(array) for array in inputs if array is not None}) != 1
        ):
            continue
        tokens = [formula(*values) for values in zip(*inputs, strict=True)]  # type: ignore[arg-type]
        mask = arrays.get("loss_mask")
        if mask is not None and len(mask) == len(tokens):
            tokens = [token for token, kept in zip(tokens, mask, strict=True) if kept]
        if tokens:
            both = {"sum": math.fsum(tokens), "mean": math.fsum(tokens) / len(tokens)}
            found |= {f"{name}_{reduction}": both[reduction] for reduction in reductions}
    return found


def _clamped(d: float) -> float:
    return d if math.isnan(d) else max(-20.0, min(20.0, d))


_PAIR = ("logprobs", "ref_logprobs")
_BOTH = ("mean", "sum")

#: Metric: the arrays it takes, its formula for one token, its reductions.
_FORMULAS: dict[str, tuple[tuple[str, ...], Callable[..., float], tuple[str, ...]]] = {
    "log_ratio": (_PAIR, lambda lp, rl: lp - rl, _BOTH),
    "kl_k2": (_PAIR, lambda lp, rl: (lp - rl) ** 2 / 2, _BOTH),
    "kl_k3": (_PAIR, lambda lp, rl: math.expm1(-_clamped(lp - rl)) + _clamped(lp - rl), _BOTH),
    "kl_rllb": (_PAIR, lambda lp, rl: math.expm1(_clamped(lp - rl)) - _clamped(lp - rl), _BOTH),
    "surprisal": (("logprobs",), lambda lp: -lp, _BOTH),
    "value": (("values",), lambda value: value, ("mean",)),
    "token_reward": (("token_rewards",), lambda reward: reward, ("sum",)),
    "token_entropy": (("entropy",), lambda entropy: entropy, ("mean",)),
}


def statistics(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean, std, min and max of a column's finite values, a row a step."""
    values = frame[column].astype(float).where(lambda x: ~x.isin([math.inf, -math.inf]))
    return values.groupby(frame["step"]).agg(["count", "mean", "std", "min", "max"])
