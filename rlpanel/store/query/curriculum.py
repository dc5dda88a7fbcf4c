"""Curriculum file: the prompts of some classes as lines of JSON, with a weight for the data loader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.number_text import number
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.query.filter_columns import prompt_key
from rlpanel.store.snapshot.prompt_classes import CLASSES, PromptCosts, known_sum
from rlpanel.store.snapshot.snapshot import Snapshot

#: Labels that may hold the id of a prompt; the first that the run has is written.
ID_LABELS = ("prompt_id", "problem_id", "question_id", "task_id", "example_id", "sample_id", "task", "id")
#: Prompts whose texts are read at a time.
PIECE = 500
#: Largest weight.
MAX_WEIGHT = 1000

DROPPED, KEPT = "Dropping them would have saved {part}.", "They cost {part}."
REPEATED = "Visiting each {weight} times as often would have cost {part} more."
OF_TOKENS, OF_ROWS = "{share:.1%} of all tokens", "{share:.1%} of all rows"
TOKENS, GPU_HOURS = "{tokens:,.0f} tokens", "{hours} GPU-hours"
#: Texts of `CurriculumEffect.sentence`.
EFFECTS = (DROPPED, KEPT, REPEATED, OF_TOKENS, OF_ROWS, TOKENS, GPU_HOURS)


@dataclass(frozen=True)
class CurriculumEffect:
    """Cost of the chosen prompts: saved by dropping them, or added by each further repetition.

    ``tokens`` and ``gpu_hours`` are None if they are not logged, and ``share`` is that of all tokens (of rows
    without tokens).
    """

    prompts: int
    tokens: float | None
    gpu_hours: float | None
    share: float

    def sentence(self, weight: int, say: Callable[..., str] = str.format) -> str:
        """Return what dropping (weight 0) or repeating the prompts would have changed.

        ``say`` fills the values into a text of `EFFECTS`, and may translate it.
        """
        times = max(weight - 1, 1)
        share = say(OF_ROWS if self.tokens is None else OF_TOKENS, share=times * self.share)
        parts = [] if self.tokens is None else [say(TOKENS, tokens=times * self.tokens)]
        parts += [] if self.gpu_hours is None else [say(GPU_HOURS, hours=number(times * self.gpu_hours))]
        part = f"{', '.join(parts)} ({share})" if parts else share
        return say({0: DROPPED, 1: KEPT}.get(weight, REPEATED), part=part, weight=weight)


def checked_classes(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of classes without repetitions.

    Raises
    ------
    SettingError
        If there is no such class, or no name.
    """
    for name in names:
        if name not in CLASSES:
            raise SettingError(f"there is no class {name[:40]!r}; there are {', '.join(CLASSES)}")
    if not names:
        raise SettingError(f"name at least one class: {', '.join(CLASSES)}")
    return tuple(dict.fromkeys(names))


def curriculum_effect(costs: PromptCosts, chosen: np.ndarray) -> CurriculumEffect:
    """Return what the visits of the chosen prompts cost so far."""
    cost = costs.grid.cost_of_prompts
    total = float(cost.sum())
    return CurriculumEffect(
        len(chosen),
        known_sum(costs.tokens[chosen]),
        known_sum(costs.gpu_hours[chosen]),
        float(cost[chosen].sum()) / total if total else 0.0,
    )


def curriculum_lines(
    index: RunIndex, snapshot: Snapshot, costs: PromptCosts, chosen: np.ndarray, weight: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of pieces of prompts, and how many of these have no readable text.

    Each line is an object with ``prompt_key``, ``prompt_id`` (null if the run logs none), ``prompt`` (as
    logged, null if it is missing or its line changed), ``class`` and ``weight``: 0 drops the prompt, N
    repeats it N times.
    """
    label = next((name for name in ID_LABELS if name in snapshot.labels), None)
    for start in range(0, len(chosen), PIECE):
        part = chosen[start : start + PIECE]
        rows = costs.grid.newest[part]
        texts = fetch_all_texts(index, snapshot, rows)
        ids = [None] * len(rows) if label is None else snapshot.label(label, rows)
        keys = [prompt_key(int(key)) for key in snapshot.prompts(rows)]
        prompts = [(each or {}).get("prompt") for each in texts]
        codes = costs.classes[part].tolist()
        lines = [
            {"prompt_key": key, "prompt_id": name, "prompt": prompt, "class": CLASSES[code], "weight": weight}
            for key, name, prompt, code in zip(keys, ids, prompts, codes, strict=True)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        yield text.encode("utf-8", "replace"), prompts.count(None)
