"""A copy of the predecessor's way of loading a log, with the JSON parser as an argument.

Every line of every file is decoded, parsed into Python objects and appended to lists by step. Log-ratio, KL
and probabilities are computed for each token and kept as lists, too. The predecessor drew from all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Loaded = dict[int, dict[str, list[Any]]]


def load(folder: Path, loads: Callable[[str], Any]) -> Loaded:
    """Load everything in the folder's logs, by step and key."""
    found: Loaded = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for line in file.readlines():
                row = loads(line)
                step = found[int(row["step"])]
                for key, value in row.items():
                    step[key].append(value)
                if "logprobs" in row and "ref_logprobs" in row:
                    _add_tokens(step, np.array(row["logprobs"]), np.array(row["ref_logprobs"]))
    return found


def _add_tokens(step: dict[str, list[Any]], logprobs: np.ndarray, ref_logprobs: np.ndarray) -> None:
    log_ratio = logprobs - ref_logprobs
    kl = np.exp(log_ratio) - 1 - log_ratio
    for name, values in (("log_ratio", log_ratio), ("kl", kl)):
        step[f"avg_{name}"].append(np.nanmean(values))
        step[f"sum_{name}"].append(np.nansum(values))
        step[name].append(values.tolist())
    step["probs"].append(np.exp(logprobs).tolist())
    step["ref_probs"].append(np.exp(ref_logprobs).tolist())
