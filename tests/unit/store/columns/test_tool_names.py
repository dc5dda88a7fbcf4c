"""At most 20 tools have columns of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rlpanel.api.open_run import open_run
from rlpanel.store.columns.logged_columns import MAX_TOOLS, ToolNames


def line(tools: list[str]) -> str:
    calls = [{"name": tool, "arguments": "{}"} for tool in tools]
    results = [{"role": "tool", "content": "Error: no"} for _ in tools]
    response = [{"role": "assistant", "content": "", "tool_calls": calls}, *results]
    return json.dumps({"step": 1, "prompt": "p", "response": response}) + "\n"


def test_further_tools_share_a_column(tmp_path: Path) -> None:
    tools = [f"t{at}" for at in range(MAX_TOOLS + 3)]
    (tmp_path / "a.jsonl").write_text(line(tools) + line(tools[:1]) + line([tools[-1], tools[-1]]))
    with open_run(tmp_path, follow=False) as run:
        frame = run.samples()
    names = [name for name in frame if name.startswith("tool_calls.")]
    assert names == [*(f"tool_calls.{tool}" for tool in tools[:MAX_TOOLS]), "tool_calls.other"]
    np.testing.assert_array_equal(frame["tool_calls.other"], [3, np.nan, 2])
    np.testing.assert_array_equal(frame["tool_errors.other"], [3, np.nan, 2])
    assert frame["tool_calls"].tolist() == [MAX_TOOLS + 3, 1, 2]


def test_columns_are_folded_as_rows_are() -> None:
    names = ToolNames()
    names.declare(f"tool_calls.t{at}" for at in range(MAX_TOOLS))
    columns = {
        "tool_calls.t0": np.array([1.0, np.nan]),
        "tool_calls.x": np.array([1.0, np.nan]),
        "tool_calls.y": np.array([2.0, np.nan]),
        "tool_errors.y": np.array([1.0, np.nan]),
    }
    names.fold_columns(columns)
    assert list(columns) == ["tool_calls.t0", "tool_calls.other", "tool_errors.other"]
    np.testing.assert_array_equal(columns["tool_calls.other"], [3.0, np.nan])
