"""Recorded runs as lists of lines, which tests change, write and lint."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.app.demo import ROLLOUTS, Recording, read_recording
from rlpanel.lint.lint_rule import RuleResult
from rlpanel.lint.linter import Linter, LintProgress

Lines = list[dict[str, Any]]
#: Long after any file of a test was written, so that its last step is complete.
LATER = 1e11


@cache
def _lines(name: Recording) -> Lines:
    return [json.loads(line) for line in read_recording(name)[ROLLOUTS].splitlines()]


def recorded(name: Recording, steps: Iterable[int]) -> Lines:
    """Return lines of a recorded run that tests may change."""
    wanted = set(steps)
    return [copy.deepcopy(line) for line in _lines(name) if line["step"] in wanted]


def with_engine(lines: Lines, scale: float = 1.0) -> Lines:
    """Add an engine's logprobs: those of the trainer, times a scale, with noise of 1 % of their spread."""
    rng = np.random.default_rng(0)
    for line in lines:
        logprobs = np.array(line["logprobs"])
        noise = rng.normal(0, 0.01, len(logprobs))
        line["rollout_logprobs"] = np.minimum(logprobs * scale + noise, 0.0).round(6).tolist()
    return lines


def write(folder: Path, lines: Lines, run: dict[str, Any] | None = None) -> Path:
    """Write lines and, if given, a ``run.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "rollout_data_rank_0.jsonl").write_text(text)
    if run is not None:
        (folder / "run.json").write_text(json.dumps(run))
    return folder


def linted(folder: Path, rules: Sequence[str] | None = None, split: str = "") -> LintProgress:
    """Read and lint a run."""
    with open_run(folder, follow=False) as run:
        view = run.data.view.in_split(split) if split else run.data.view
        *_, last = Linter(run.index, rules).update(view, LATER)
    return last


def by_name(progress: LintProgress) -> dict[str, RuleResult]:
    """Return the results by rule."""
    return {result.rule.name: result for result in progress.results}


def faulty_run() -> Lines:
    """Return a run with late masks from step 22 on, and a copied engine from step 25 on."""
    lines = with_engine(recorded("grpo_calculator", range(15, 31)))
    for line in [line for line in lines if line["step"] >= 22][::6]:
        line["loss_mask"] = [0, *line["loss_mask"][:-1]]
    for line in [line for line in lines if line["step"] >= 25][::4]:
        line["rollout_logprobs"] = line["logprobs"]
    return lines


def tokenizer_of(lines: Lines, folder: Path) -> Path:
    """Write a tokenizer.json with the tokens of the lines."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {
        text: number
        for line in lines
        for number, text in zip(line["response_token_ids"], line["response_tokens"], strict=True)
    }
    model = tokenizers.models.WordLevel(vocabulary, unk_token="?")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.decoder = tokenizers.decoders.Fuse()
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path
