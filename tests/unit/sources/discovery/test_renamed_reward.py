"""Lines with rlpanel's names whose reward has another name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlpanel


@pytest.mark.parametrize("key", ["score", "is_correct", "format_reward"])
def test_a_reward_with_another_name_is_guessed_and_said(tmp_path: Path, key: str) -> None:
    rows = [{"step": i // 4, "prompt": "q", "response": f"a{i}", key: i % 2} for i in range(8)]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.steps["reward_mean"].tolist() == [0.5, 0.5]
        assert any(f"reward ← {key}" in str(each) for each in run.remarks)


@pytest.mark.parametrize("key", ["answer_length", "text"])
def test_another_key_is_no_reward(tmp_path: Path, key: str) -> None:
    rows = [{"step": 0, "prompt": "q", "response": f"a{i}", key: i % 2} for i in range(8)]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert "reward_mean" not in run.steps
