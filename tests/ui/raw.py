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
    """Return the expected contents of a curve's source for a column: mean, quartiles and count."""
    steps = frame.groupby("step")[column]
    mean = steps.mean()
    return {
        "x": mean.index.to_numpy(float),
        "y": mean.to_numpy(),
        "lo": steps.quantile(0.25).to_numpy(),
        "hi": steps.quantile(0.75).to_numpy(),
        "n": steps.count().to_numpy(float),
    }
