"""Reads a run's files with pandas: the expected values of the board, computed without rlpanel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def raw_frame(folder: Path) -> pd.DataFrame:
    """Return one row per line with ``uid``, ``tokens`` (count), ``kl_k3`` and ``surprisal`` (token means)."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.jsonl")):
        if path.name == "scalars.jsonl":
            continue
        offset = 0
        for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            rows.append(_row(json.loads(text)) | {"uid": f"{path.name}:{offset}", "line_number": number})
            offset += len(text) + 1
    return pd.DataFrame(rows)


def _row(line: dict[str, Any]) -> dict[str, Any]:
    if "logprobs" not in line:
        return line
    logprobs, ref_logprobs = np.array(line["logprobs"]), np.array(line["ref_logprobs"])
    log_ratio = logprobs - ref_logprobs
    return line | {
        "tokens": len(line["response_tokens"]),
        "log_ratio": log_ratio.mean(),
        "kl_k3": (np.exp(-log_ratio) - 1 + log_ratio).mean(),
        "kl_k3_sum": (np.exp(-log_ratio) - 1 + log_ratio).sum(),
        "surprisal": -logprobs.mean(),
    }


def band(frame: pd.DataFrame, column: str) -> dict[str, np.ndarray]:
    """Return the expected contents of a curve's source for a column: mean, automatic band and count.

    The band of few values is ± 2 standard errors within the values of the step; other columns get quartiles,
    and a reward of many values with many samples a step is a density instead.
    """
    steps = frame.groupby("step")[column]
    mean, count = steps.mean(), steps.count()
    low, high = steps.quantile(0.25), steps.quantile(0.75)
    distinct = frame[column].nunique()
    if distinct <= 12 and 4 * distinct <= frame[column].count():
        error = steps.std() / np.sqrt(count)
        low, high = np.maximum(mean - 2 * error, steps.min()), np.minimum(mean + 2 * error, steps.max())
    elif column == "reward" and count.median() >= 64:
        low = high = mean * np.nan
    return {
        "x": mean.index.to_numpy(float),
        "y": mean.to_numpy(),
        "lo": low.to_numpy(),
        "hi": high.to_numpy(),
        "n": count.to_numpy(float),
    }
