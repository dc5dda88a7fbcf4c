"""Trajectories of SWE-agent and mini-swe-agent: one file per instance, the reward in a report beside."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import rlpanel
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.discovery.directory import discover
from rlpanel.sources.discovery.step_folders import select_files
from rlpanel.sources.records.record_types import Adapter
from rlpanel.sources.trajectories.coding_agents import SweAgent
from tests.unit.sources.trajectories.reading import DATA, rewards, samples, spoken
from tests.waiting import wait_until

SWE, MINI = DATA / "swe-agent", DATA / "mini-swe-agent-2.4.6"


def test_all_instances_of_swe_agent_are_one_run_and_the_report_gives_the_rewards() -> None:
    assert [info.name for info in discover(SWE)] == ["."]
    read = samples(SWE)
    raw = [json.loads(path.read_text("utf-8")) for path in sorted(SWE.glob("*/*.traj"))]
    own = [sum(each["role"] == "assistant" for each in run["history"]) for run in raw]
    assert [each.columns["turns"] for each in read] == own == [2, 1, 1]
    # The evaluation of the second one failed: nothing says whether it is resolved.
    assert rewards(read) == [1.0, None, 0.0]
    assert [each.group for each in read] == ["sums__sums-1", "sums__sums-2", "sums__sums-3"]
    assert [each.status for each in read] == ["ok", "truncated", "ok"]
    assert [each.columns["response_tokens"] for each in read] == [40, 40, 40]
    assert [each.step for each in read] == [0, 0, 0]


def test_compressed_trajectories_in_folders_of_instances_are_read(tmp_path: Path) -> None:
    for path in SWE.glob("*/*.traj"):
        packed = tmp_path / path.parent.name / f"{path.name}.gz"
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [each.messages for each in samples(tmp_path)] == [each.messages for each in samples(SWE)]


def test_a_conversation_of_swe_agent_keeps_calls_and_demonstrations() -> None:
    first, second, _ = samples(SWE)
    assert spoken(first) == [
        ("system", "You fix files."),
        ("user", "A demonstration."),
        ("user", "Fix „x“."),
        ("assistant", "I look."),
        ("tool", "1"),
        ("assistant", "I submit."),
        ("tool", "done"),
    ]
    assert (first.columns["tool_calls.bash"], first.columns["tool_calls.submit"]) == (1, 1)
    assert first.prompt.endswith("[user] Fix „x“.")
    assert spoken(second)[-2:] == [("assistant", "I look."), ("environment", "1")]
    assert first.extra["submission"] == "diff --git a/x b/x\n"


def test_a_report_that_comes_later_gives_the_rewards(tmp_path: Path) -> None:
    shutil.copytree(SWE, tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    with rlpanel.open_run(tmp_path / "run") as run:
        wait_until(lambda: run.splits == {"eval": 3})
        assert "reward" not in run.split("eval").samples()
        report = {"sums__sums-2": {"resolved": True, "patch_is_None": False}}
        (tmp_path / "run" / "sums__sums-2" / "report.json").write_text(json.dumps(report))
        wait_until(lambda: "reward" in run.split("eval").samples())
        table = run.split("eval").samples()
        assert table["reward"].dropna().tolist() == [1.0]


def test_predictions_are_read_where_no_trajectories_are_beside_them() -> None:
    found: dict[str, Adapter] = {"all_preds.jsonl": Native(), "log.jsonl": Native()}
    assert select_files(SWE, found).keys() == {"all_preds.jsonl", "log.jsonl"}
    found["sums__sums-1/sums__sums-1.traj"] = SweAgent()
    assert select_files(SWE, found).keys() == {"log.jsonl", "sums__sums-1/sums__sums-1.traj"}


def test_the_calls_of_all_models_of_mini_swe_agent_are_read() -> None:
    assert [info.name for info in discover(MINI)] == ["."]
    text, calls, items = samples(MINI)
    assert [role for role, _ in spoken(text)] == [
        "system",
        "user",
        "assistant",
        "environment",
        "assistant",
        "environment",
    ]
    assert spoken(text)[2] == ("assistant", "I look at „x“ first.")
    assert (text.columns["metrics/cost_usd"], text.columns["metrics/api_calls"]) == (0.75, 2)
    assert [each.columns["turns"] for each in (text, calls, items)] == [2, 2, 2]
    assert [each.columns["tool_calls"] for each in (text, calls, items)] == [0, 2, 2]
    assert items.messages[2]["tool_calls"] == [
        {"name": "bash", "arguments": '{"command": "echo 4"}', "id": "call_1"}
    ]
    assert [each.status for each in (text, calls, items)] == ["ok", "ok", "truncated"]
    assert [each.extra["model"] for each in (text, calls, items)] == ["test/one", "test/two", "test/three"]
    assert rewards([text, calls, items]) == [None] * 3


def test_a_list_of_messages_is_one_sample(tmp_path: Path) -> None:
    logged = json.loads((MINI / "sums__sums-1" / "sums__sums-1.traj.json").read_text("utf-8"))["messages"]
    messages: list[dict[str, Any]] = [{key: each[key] for key in ("role", "content")} for each in logged]
    path = tmp_path / "sums__sums-1.traj.json"
    path.write_text(json.dumps(messages, indent=4))
    (sample,) = samples(tmp_path)
    assert (sample.group, sample.columns["turns"], len(sample.messages)) == ("sums__sums-1", 2, 6)
    # The file is written anew after each step.
    with rlpanel.open_run(tmp_path) as run:
        wait_until(lambda: run.splits == {"eval": 1})
        more = [*messages, {"role": "assistant", "content": "Once more."}]
        (tmp_path / "new").write_text(json.dumps(more))
        os.replace(tmp_path / "new", path)
        wait_until(lambda: run.split("eval").samples()["turns"].tolist() == [3])


def test_chats_of_other_programs_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": "Hello."}]))
    (tmp_path / "browser.json").write_text(json.dumps({"history": [{"url": "x"}], "info": {}}))
    assert discover(tmp_path) == []
