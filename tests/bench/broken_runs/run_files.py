"""Writes a synthetic run as log files, one per rank, in the native format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.broken_runs.sample_table import SampleTable
from tests.bench.broken_runs.vocabulary import VOCABULARY, text

#: Decimals of logged numbers.
_DECIMALS = 5


class RunFiles:
    """Writes a run step by step.

    Parameters
    ----------
    table : SampleTable
    folder : Path
        Created if it does not exist; log files that are there are removed.
    """

    def __init__(self, table: SampleTable, folder: Path) -> None:
        self.folder = folder
        self.count = len(table.setup.steps)
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("rollout_data_rank_*.jsonl"):
            path.unlink()
        if "run_json" in table.setup.logs:
            (folder / "run.json").write_text(json.dumps(table.constants), encoding="utf-8")
        self._lines = _lines(table)
        self._place = table.at, table.rank, table.written

    def write(self, first: int = 0, end: int | None = None) -> None:
        """Append the steps at the positions ``first`` to ``end`` (exclusive; all by default)."""
        at, rank, written = self._place
        chosen = written & (at >= first) & (at < (self.count if end is None else end))
        for number in np.unique(rank):
            rows = np.flatnonzero(chosen & (rank == number))
            with (self.folder / f"rollout_data_rank_{number}.jsonl").open("ab") as file:
                file.write("".join([self._lines[row] for row in rows]).encode("utf-8", "replace"))


def _lines(table: SampleTable) -> list[str]:
    """Return the line of each sample, with its newline."""
    setup, bounds = table.setup, table.bounds.tolist()
    prompts = [text(ids).strip() for ids in table.prompt_ids]
    tokens = VOCABULARY[table.ids].tolist()
    arrays = {name: np.round(values, _DECIMALS).tolist() for name, values in table.arrays.items()}
    numbers = {name: np.round(values, 6).tolist() for name, values in table.numbers.items()}
    steps = [setup.steps[at] for at in table.at.tolist()]
    labels = {name: table.labels[name].tolist() for name in setup.labels}
    truncated, rank, group = table.truncated.tolist(), table.rank.tolist(), table.group.tolist()
    prompt, copy_of = table.prompt.tolist(), table.copy_of.tolist()
    grouped = setup.group_size > 1
    lines = []
    for row, source in enumerate(copy_of):
        begin, end = bounds[source], bounds[source + 1]
        made: dict[str, Any] = {
            "step": steps[row],
            "rank": rank[row],
            "prompt": prompts[prompt[source]],
            "response": "".join(tokens[begin:end]) + setup.ending * (not truncated[source]),
        }
        if "tokens" in setup.logs:
            made["response_tokens"] = tokens[begin:end]
        made |= {name: values[begin:end] for name, values in arrays.items()}
        made |= {name: values[source] for name, values in numbers.items()}
        made |= {name: values[source] for name, values in labels.items()}
        if grouped:
            made["group"] = f"{steps[row]}-{group[source]}"
        if "finish" in setup.logs:
            made["finish_reason"] = "length" if truncated[source] else "stop"
        else:
            made["truncated"] = truncated[source]
        lines.append(made)
    _spoil(table, lines)
    return [json.dumps(made, ensure_ascii=False) + "\n" for made in lines]


def _spoil(table: SampleTable, lines: list[dict[str, Any]]) -> None:
    """Apply `absent`, `null` and `short` of the table."""
    for name, rows in table.absent.items():
        for row in np.flatnonzero(rows):
            lines[row].pop(name, None)
    for name, rows in table.null.items():
        for row in np.flatnonzero(rows):
            old = lines[row].get(name)
            lines[row][name] = [None] * len(old) if isinstance(old, list) else None
    for name, rows in table.short.items():
        for row in np.flatnonzero(rows):
            lines[row][name] = lines[row][name][:-1]
