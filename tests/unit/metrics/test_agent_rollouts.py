"""Step metrics of agents: failures and seconds of tools, tokens per turn, statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel.api.open_run import open_run
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView


def line(step: int, at: int, results: list[str], **fields: Any) -> str:
    calls = [{"name": "add", "arguments": "{}"} for _ in results]
    response = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "content": result} for result in results),
        {"role": "assistant", "content": "done"},
    ]
    row = {"step": step, "prompt": f"p{at}", "response": response, "logprobs": [-1.0] * 6, **fields}
    return json.dumps(row) + "\n"


def test_ratios_are_of_sums_over_the_step(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        line(1, 0, ["4", "Error: no"], timing={"tool": 3.0})
        + line(1, 1, ["4"], timing={"tool": 6.0}, status="environment_error")
        + line(1, 2, ["4", "5"], timing={"tool": 1.0})
    )
    with open_run(tmp_path, follow=False) as run:
        (row,) = run.steps.to_dict("records")
    assert row["failed_call_share"] == 1 / 5, "also calls of the failed sample"
    assert row["seconds_per_call"] == 4 / 4, "only of those that count"
    assert row["tokens_per_turn"] == 12 / 4
    assert (row["turns_mean"], row["tool_calls_mean"]) == (2.0, 2.0)


def test_a_share_follows_discarded_samples_that_come_later(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(line(1, 0, ["4"], status="ok"))
    index = RunIndex(tmp_path, "run")

    def share() -> float:
        index.rescan()
        while index.read():
            pass
        view = RunView(index.snapshot, memories)
        return float(view.step_values("environment_error_share")[0])

    memories: dict[str, Any] = {}
    assert share() == 0
    with file.open("a") as out:
        out.write(line(1, 1, ["4"], status="environment_error"))
    assert share() == pytest.approx(0.5)
