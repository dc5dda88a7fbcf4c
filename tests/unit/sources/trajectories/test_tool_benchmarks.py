"""Results of tau-bench, tau2-bench and BFCL: the trials of a task are a group."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlpanel.sources.discovery.directory import Directory, discover
from tests.unit.sources.trajectories.reading import DATA, rewards, samples, spoken

TAU, TAU2, BFCL = (DATA / name for name in ("tau-bench-59a200c", "tau2-bench-a2c0247", "bfcl-eval-2026.3.23"))


def test_trials_of_tau_bench_are_samples_of_their_task() -> None:
    read = samples(TAU)
    (path,) = TAU.glob("*.json")
    raw = json.loads(path.read_text("utf-8"))
    assert rewards(read) == [trial["reward"] for trial in raw] == [1, 0, 0, 1]
    assert [(each.group, each.columns["trial"]) for each in read] == [("0", 0), ("1", 0), ("0", 1), ("1", 1)]
    assert [each.status for each in read] == ["ok"] * 4  # a trial that failed counts
    assert read[2].response is None
    assert (read[0].columns["turns"], read[0].columns["tool_calls.cancel"]) == (2, 1)
    assert read[1].columns["tool_errors"] == 1
    assert "cancel" in read[0].ground_truth
    assert read[0].prompt == "[system] Be „kind“.\n[user] Cancel 3."


@pytest.mark.parametrize("kind", ["one", "each"])
def test_both_ways_of_tau2_bench_to_store_results_give_the_same(kind: str) -> None:
    assert [info.name for info in discover(TAU2 / kind)] == ["."]
    read = samples(TAU2 / kind)
    assert rewards(read) == [1, 0, 0, None]
    assert [(each.group, each.columns["trial"]) for each in read] == [
        ("12", 0),
        ("12", 1),
        ("13", 0),
        ("13", 1),
    ]
    assert [each.status for each in read] == ["ok", "ok", "truncated", "environment_error"]
    answered, failed, user, _ = read
    # The agent greets with a fixed sentence, which belongs to the prompt.
    assert answered.prompt == "[assistant] Hi! How can I help you?\n[user] Where is order 3?"
    assert (answered.columns["turns"], answered.columns["tool_calls.get_order"]) == (2, 1)
    assert (answered.columns["tool_errors"], failed.columns["tool_errors"]) == (0, 1)
    assert answered.columns["rewards/COMMUNICATE"] == 1
    assert spoken(user)[2:] == [("environment", "restarted"), ("user", "It works „now“.")]
    assert (answered.columns["seconds"], answered.columns["metrics/cost_usd"]) == (60, 0.25)


def test_bfcl_gets_its_rewards_from_the_scores_where_all_were_scored() -> None:
    assert [info.name for info in discover(BFCL)] == ["result/test_one-FC"]
    read = {each.group: each for each in samples(BFCL / "result" / "test_one-FC")}
    (score,) = BFCL.glob("score/*/*/*.json")
    header = json.loads(score.read_text("utf-8").splitlines()[0])
    simple = [read[f"simple_python_{number}"] for number in range(4)]
    assert rewards(simple) == [1, 0, 1, 0]
    assert sum(each.reward for each in simple) / 4 == header["accuracy"]
    assert rewards([read["multi_turn_base_0"]]) == [None]
    assert simple[0].messages[-1]["tool_calls"] == [
        {"name": "area", "arguments": '{"base": 10, "height": 5}'}
    ]
    assert (simple[2].response, simple[1].prompt) == ("I cannot do „that“.", "[user] What is 5!?")


def test_turns_of_bfcl_are_read_without_its_notes() -> None:
    (turns,) = (
        each for each in samples(BFCL / "result" / "test_one-FC") if each.group == "multi_turn_base_0"
    )
    assert spoken(turns) == [
        ("user", "List the files."),
        ("assistant", "ls"),
        ("tool", '{"files": ["x"]}'),
        ("assistant", "There is x."),
        ("user", "Thanks."),
        ("assistant", "Bye."),
    ]
    assert (turns.columns["metrics/prompt_tokens"], turns.columns["generation_seconds"]) == (60, 1)


def test_failures_alone_are_not_a_run() -> None:
    folder = BFCL / "score" / "test_one-FC" / "non_live"
    directory = Directory(folder)
    assert directory.runs() == []
    (unread,) = directory.find_files(folder)[1]
    assert unread.reason == (
        "is not read: it lists only failures; open BFCL's result/{model}, which gets its scores from here"
    )


def test_scores_of_a_part_of_the_results_give_no_rewards(tmp_path: Path) -> None:
    shutil.copytree(BFCL, tmp_path / "bfcl")
    (score,) = (tmp_path / "bfcl").glob("score/*/*/*.json")
    lines = score.read_text("utf-8").splitlines()
    header = json.loads(lines[0]) | {"total_count": 3}
    score.write_text("\n".join([json.dumps(header), *lines[1:]]) + "\n", "utf-8")
    assert set(rewards(samples(tmp_path / "bfcl" / "result" / "test_one-FC"))) == {None}
