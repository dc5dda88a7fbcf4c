"""SkyRL's dump of evaluations, of which a resumed run writes one again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.upstream.sources import load
from tests.upstream.writers.letters import TOKENS


def evaluations(folder: Path) -> None:
    """Dump the evaluation of two data sets at two steps, the first step twice; one reward is per token."""
    for step, right in ((5, "lost"), (10, "4"), (5, "4")):
        rows = [
            ("2 + 2?", right, 1.0, "stop", "math/x"), ("2 + 2?", "five", 0.0, "stop", "math/x"),
            ("月?", "moon", [0.0, 0.25, 0.0, 0.5], "length", None),
        ]  # fmt: skip
        _dump(folder, step, rows)


def stepwise(folder: Path) -> None:
    """Dump trajectories of several steps: each step is a row, and the last one has the reward."""
    first = "<user>Find the key."
    rows = [
        (first, "<a>look", [0.0] * 7, "stop", "rooms"),
        (first + "<a>look<obs>ok", "<a>take", [0.0] * 6 + [1.0], "stop", "rooms"),
        (first, "<a>wait", [0.0] * 7, "stop", "rooms"),
        (first + "<a>wait<obs>ok", "<a>", [0.0] * 3, "stop", "rooms"),
        (first, "<a>no", [0.0] * 5, "stop", "rooms"),
    ]  # fmt: skip
    _dump(folder, 5, rows)


def _dump(folder: Path, step: int, rows: list[tuple[str, str, Any, str, str | None]]) -> None:
    names = load(
        "skyrl/train/utils/trainer_utils.py", "dump_per_dataset_eval_results", "sanitize_data_source",
        json=json, logger=SimpleNamespace(info=print),
    )  # fmt: skip
    target = folder / f"global_step_{step}_evals"
    target.mkdir(parents=True, exist_ok=True)
    prompts, responses, rewards, reasons, sources = (list(column) for column in zip(*rows, strict=True))
    output = {
        "prompt_token_ids": [TOKENS.encode(text) for text in prompts],
        "response_ids": [TOKENS.encode(text) for text in responses],
        "rewards": rewards,
        "stop_reasons": reasons,
    }
    names.dump_per_dataset_eval_results(
        target, TOKENS, output, sources, ["calc"] * len(rows), [{"a": 1}] * len(rows), {"eval/all/avg": 0.8}
    )
