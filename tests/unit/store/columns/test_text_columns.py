"""Columns that are counted when lines are read: equal for both ways to read lines, shown, and filtered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.metrics.engine.column_info import describe
from rlpanel.panels.samples.sample_table import grid_columns
from rlpanel.settings import Reading
from rlpanel.store.columns.logged_columns import text_columns
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.query import Query, QuerySpec
from tests.factories import append

PROMPT = "Write down as many numbers of the list as you like, then their sum: list"
COLUMNS = ["special_tokens", "prompt_echo", "foreign_script", "engine_shift", "ref_shift"]


def lines() -> list[dict[str, Any]]:
    """Samples with unusual texts and arrays."""
    draw = np.random.default_rng(3)
    responses = [
        "7<pad>",
        f"{PROMPT} 7",
        "答案是 7 eq",
        "",
        "7",
        "7 🙂\ufffd",
        "七<|im_end|>",
        "\u00d7 ½ a" * 900,
    ]
    rows = []
    for number in range(120):
        logprobs = draw.exponential(size=5 + number % 20).round(4)
        rows.append(
            {
                "step": number // 10,
                "prompt": [PROMPT, "", "短い", "Сколько будет три плюс четыре, если", "why?"][number % 5],
                "response": responses[number % 8],
                "logprobs": (-logprobs).tolist(),
                "rollout_logprobs": np.roll(-logprobs, number % 2).tolist(),
                "ref_logprobs": np.roll(-logprobs, -(number % 3)).tolist(),
            }
        )
    return rows


def columns(folder: Path, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The samples' columns."""
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    with rlpanel.open_run(folder) as run:
        return run.samples().sort_values("line").reset_index(drop=True)


def test_columns_are_the_same_for_lines_of_one_plan_and_for_others(tmp_path: Path) -> None:
    rows = lines()
    alike = columns(tmp_path / "alike", rows)
    # No two consecutive lines have the same keys, so that each is read on its own.
    other = columns(tmp_path / "other", [row | {f"key_{at % 7}": at} for at, row in enumerate(rows)])
    pd.testing.assert_frame_equal(alike[COLUMNS], other[COLUMNS], check_exact=True)
    found = {name: int((alike[name] > 0).sum()) for name in COLUMNS}
    assert [name for name, count in found.items() if not 0 < count < 120] == []
    assert 0 < alike["foreign_script"].isna().sum() < 120


def test_a_conversation_has_the_columns_of_its_text(tmp_path: Path) -> None:
    row = {
        "step": 1,
        "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}],
        "response": [
            {
                "role": "assistant",
                "content": "<think>hm</think>",
                "tool_calls": [{"name": "add", "arguments": "1"}],
            },
            {"role": "tool", "content": "7"},
            {"role": "assistant", "content": "7"},
        ],
    }
    leaks = row | {"response": [{"role": "assistant", "content": f"7<|im_start|>user\n{PROMPT}"}]}
    found = columns(tmp_path / "run", [row, leaks])
    assert found[COLUMNS[:3]].to_numpy().tolist() == [[0, 0, 0], [1, 1, 0]]


def test_samples_without_text_and_arrays_have_no_columns(tmp_path: Path) -> None:
    found = columns(tmp_path / "run", [{"step": 1, "reward": 1.0}, {"step": 1, "reward": 0.5}])
    assert not set(COLUMNS) & set(found.columns)
    assert text_columns([], [])[0] == {}
    assert text_columns(["3 + 4 ="], ["7"])[0].keys() == {"invalid_chars", "special_tokens"}
    assert text_columns([None, PROMPT], [None, None])[0] == {}


def test_a_sample_without_text_has_no_value(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": PROMPT, "response": PROMPT}, {"step": 1, "response": PROMPT}]
    found = columns(tmp_path / "run", rows)
    np.testing.assert_array_equal(found[COLUMNS[:3]], [[0, 1, 0], [0, np.nan, np.nan]])


def test_samples_are_filtered_by_the_columns(tmp_path: Path) -> None:
    rows = lines()
    columns(tmp_path / "run", rows)
    index = RunIndex(tmp_path / "run", "run", Reading())
    index.rescan()
    while index.read():
        pass
    query = Query(index, index.snapshot, QuerySpec(filter="special_tokens > 0"), Notes(index.path))
    found = list(query.results())[-1].rows
    assert len(found) == sum("<pad>" in row["response"] for row in rows)
    assert set(COLUMNS) <= set(grid_columns(index.snapshot, "kl_k3"))


def test_a_logged_number_of_that_name_is_renamed(tmp_path: Path) -> None:
    found = columns(
        tmp_path / "run", [{"step": 1, "prompt": PROMPT, "response": "7<pad>", "special_tokens": 9}] * 3
    )
    assert found[["special_tokens", "logged_special_tokens"]].to_numpy().tolist() == [[1, 9]] * 3


@pytest.mark.parametrize("column", COLUMNS)
def test_each_column_is_described(column: str) -> None:
    info = describe(column)
    assert (info.label != column, bool(info.help), bool(info.advice), bool(info.definition.undefined)) == (
        True,
    ) * 4


@pytest.mark.parametrize("name", ["ppo_couplets", "grpo_couplets"])
def test_healthy_recorded_runs_have_next_to_none(tmp_path: Path, name: str) -> None:
    log = Path(rlpanel.__file__).parent / "data" / f"{name}.jsonl.zst"
    shutil.copy(log, tmp_path / "rollout_data_rank_0.jsonl.zst")
    with rlpanel.open_run(tmp_path) as run:
        found = run.samples()
    assert found[["special_tokens", "prompt_echo"]].max().tolist() == [0, 0]
    # In a few of them the policy does mix Chinese and English.
    assert 0 < (found["foreign_script"] > 0.3).mean() < 0.005
    assert (found["ref_shift"] > 0.4).mean() < 0.02
