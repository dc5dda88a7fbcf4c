"""Curriculum files: a line of JSON for each prompt of the chosen classes, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.store.query.curriculum import checked_classes, curriculum_effect, curriculum_lines
from rlpanel.store.snapshot.prompt_classes import costs_of_prompts
from rlpanel.store.snapshot.prompt_grid import prompt_grid
from tests.unit.store.snapshot.test_prompt_grid import logged, write


def test_lines_have_key_id_text_class_and_weight(tmp_path: Path) -> None:
    rows = [
        logged(
            name,
            step,
            float(name == "easy, 题\n二"),
            prompt_id=f"id of {name[:4]}",
            response_tokens=["t"] * 2,
        )
        for step in range(1, 5)
        for name in ("easy, 题\n二", "hard")
        for _ in range(4)
    ]
    with rlpanel.open_run(write(tmp_path / "run", rows), follow=False) as run:
        costs = costs_of_prompts(run.snapshot, prompt_grid(run.snapshot), 3)
        [(lines, missing)] = curriculum_lines(run.index, run.snapshot, costs, costs.of(["always"]), 0)
        key = f"{int(run.snapshot.prompts()[0]):016x}"
        effect = curriculum_effect(costs, costs.of(["always"]))
    assert [json.loads(each) for each in lines.decode().splitlines()] == [
        {
            "prompt_key": key,
            "prompt_id": "id of easy",
            "prompt": "easy, 题\n二",
            "class": "always",
            "weight": 0,
        }
    ]
    assert missing == 0
    assert (effect.prompts, effect.tokens, effect.gpu_hours, effect.share) == (1, 32.0, None, 0.5)
    assert effect.sentence(0) == "Dropping them would have saved 32 tokens (50.0% of all tokens)."
    assert effect.sentence(3) == (
        "Visiting each 3 times as often would have cost 64 tokens (100.0% of all tokens) more."
    )


def test_a_prompt_that_is_not_logged_is_null_and_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [logged("a", 1, 1.0)])
    with rlpanel.open_run(folder, follow=False) as run:
        costs = costs_of_prompts(run.snapshot, prompt_grid(run.snapshot), 3)
        (folder / "rollout_data_rank_0.jsonl").write_text("{}\n" * 40)
        [(lines, missing)] = curriculum_lines(run.index, run.snapshot, costs, costs.order, 1)
    assert (json.loads(lines)["prompt"], json.loads(lines)["prompt_id"], missing) == (None, None, 1)


def test_classes_are_checked() -> None:
    assert checked_classes(["never", "always", "never"]) == ("never", "always")
    with pytest.raises(SettingError, match="there is no class 'dead'; there are learnt"):
        checked_classes(["dead"])
    with pytest.raises(SettingError, match="at least one class"):
        checked_classes([])
