"""The page on agents: its line is read as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import rlpanel
from docs.generate import FOLDER
from rlpanel.metrics.engine import column_info

PAGE = (FOLDER / "agents.md").read_text("utf-8")


def test_the_line_is_read_back_whole(tmp_path: Path) -> None:
    text = PAGE.split("<!-- begin: line -->")[1].split("```json")[1].split("```")[0]
    (tmp_path / "rank_0.jsonl").write_text(json.dumps(json.loads(text)) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors.empty
        (row,) = run.samples().to_dict("records")
        sample = run.sample(row["uid"])
    assert sample.notes == ()
    assert sample.extra == {}
    counted = {
        "turns": 3,
        "tool_calls": 2,
        "tool_errors": 1,
        "images": 1,
        "policy_version_min": 9,
        "policy_version_max": 11,
        "trainer_version": 11,
        "lag": 2,
        "seconds": 10.0,
        "queue_seconds": 1.5,
        "tool_calls.calculate": 2,
        "tool_errors.calculate": 1,
        "start_time": 1795324430.0,
    }
    assert {name: row[name] for name in counted} == counted
    assert (round(row["generation_seconds"], 9), round(row["tool_seconds"], 9)) == (3.3, 5.2)
    assert (row["status"], row["episode"], row["agent"]) == ("ok", "q7-3", "solver")
    assert sample.turn_rewards is not None
    assert sample.turn_rewards.tolist() == [0.0, 0.0, 1.0]
    assert sample.policy_versions == ((9, 120), (11, 14))
    assert sample.spans[0] == ("queue", 0.0, 1.5)
    assert sample.judge == {"style": "Correct, after one retry."}
    assert sample.images == ({"url": "images/plot.png"},)
    assert (sample.messages[3]["is_error"], sample.messages[3]["seconds"]) == (True, 5.0)
    assert "is_error" not in sample.messages[5]


def test_the_line_with_judges_is_read_back_whole(tmp_path: Path) -> None:
    text = PAGE.split("<!-- begin: judges -->")[1].split("```json")[1].split("```")[0]
    (tmp_path / "rank_0.jsonl").write_text(json.dumps(json.loads(text)) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (row,) = run.samples().to_dict("records")
        sample = run.sample(row["uid"])
    assert (sample.notes, sample.extra) == ((), {})
    style, facts = sample.judge_calls
    assert (style.verdict, style.score, style.cost, style.seconds) == ("yes", 1.0, 0.0002, 1.4)
    assert (facts.model, facts.error, facts.is_missing) == ("judge-70b", "HTTP 503", True)
    assert sample.verifier == {"test log": "2 passed in 0.03s"}
    assert (row["judge_calls"], row["judge_missing"], row["verifier_outputs"]) == (2, 1, 1)


def test_the_page_names_every_column_of_agents() -> None:
    from rlpanel.metrics.engine.definition import AGENT_COLUMNS

    names = {column.name for column in AGENT_COLUMNS}
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_curves_that_the_page_names_exist() -> None:
    section = PAGE.split("Curves per step:")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+_share|\w+_per_\w+)`", section))
    assert named
    assert named <= {m.name for m in column_info.of_level("step")}
