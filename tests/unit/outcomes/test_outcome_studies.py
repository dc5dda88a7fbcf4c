"""Failures and judges of whole runs, and runs that lack what they need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import SettingError
from rlpanel.outcomes.failure_classes import CLASSES, NOT_READ
from rlpanel.outcomes.failure_study import FailureStudy, failures_of
from rlpanel.outcomes.judge_study import study_judges
from tests.ended_runs import SAMPLES, call, write_ended_run

STEPS = 3


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with rlpanel.open_run(write_ended_run(tmp_path_factory.mktemp("ended"), STEPS), follow=False) as run:
        yield run


def study(run: Run, per_step: int | None = None) -> FailureStudy:
    *_, last = failures_of(run.index).study(run.view, per_step)
    return last


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    texts = (json.dumps({"step": 1, "response": "r", **line}) for line in lines)
    (folder / "rollout_data_rank_0.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return folder


def test_each_class_is_found_at_each_step_also_those_that_were_discarded(ended: Run) -> None:
    found = {each.name: each for each in study(ended).classes}
    assert [*found] == [name for name in CLASSES if name != NOT_READ]
    for name in found.keys() - {"grader_crash", "wrong_answer"}:
        assert found[name].by_step.tolist() == [1] * STEPS, name
        assert found[name].first_step == 1
    assert found["environment_crash"].by_environment == {"code": STEPS}
    assert found["grader_crash"].kind == "infrastructure"
    assert all(each.evidence for name in found if name != "unclassified" for each in found[name].examples)
    assert not any(each.evidence for each in found["unclassified"].examples)


def test_counts_add_up_and_the_limit_is_counted(ended: Run) -> None:
    whole, some = study(ended), study(ended, per_step=2)
    assert sum(each.count for each in whole.classes) == whole.failed == some.failed
    assert whole.samples == STEPS * (11 + SAMPLES)
    unread = next(each.count for each in some.classes if each.name == NOT_READ)
    logged = sum(each.count - each.inferred for each in some.classes if each.name in ("timeout", "cut_off"))
    assert (some.read, logged) == (2 * STEPS, 2 * STEPS)
    assert unread == whole.read - some.read


def test_the_filter_of_a_class_shows_its_samples(ended: Run) -> None:
    found = next(each for each in study(ended).classes if each.name == "refusal")
    shown = ended.samples(filter=found.where)
    assert found.shown == found.count == len(shown) == STEPS
    assert set(shown["uid"]) == {each.uid for each in found.examples}


def test_graded_rewards_are_no_failures_and_a_run_without_any_says_what_to_log(tmp_path: Path) -> None:
    (tmp_path / "graded").mkdir()
    (tmp_path / "plain").mkdir()
    graded = write(tmp_path / "graded", *({"reward": value} for value in (0.3, 4.7, 2.0)))
    with rlpanel.open_run(graded, follow=False) as run:
        table = run.ask("failures")
    assert (len(table.rows), table.about["failed"], table.about["pass_reward"]) == (0, 0, None)
    assert "pass_reward" in table.about["note"]
    with rlpanel.open_run(write(tmp_path / "plain", {}, {}), follow=False) as run:
        table = run.ask("failures")
    assert table.about["unjudged"] == 2
    assert "log reward and status" in table.about["note"]


def test_judges_of_a_run(ended: Run) -> None:
    *_, last = study_judges(ended.index, ended.view)
    judges = {each.name: each for each in last.judges}
    assert judges["lenient"].mean == 1.0
    assert judges["lenient"].kappa_reward == 0.0
    assert judges["strict"].kappa_reward == 1.0
    assert judges["strict"].calls == STEPS * (SAMPLES + 1)
    assert judges["strict"].missing == 2 * STEPS
    assert judges["strict"].failed == STEPS
    assert judges["third"].seconds == 0.5 * judges["third"].calls
    assert judges["third"].prompt_tokens == 120 * judges["third"].calls
    assert last.alpha < judges["lenient"].alpha_without
    assert {each.spread for each in last.disagreements} == {1.0}
    scores = ended.sample(last.disagreements[0].uid).judge_calls
    assert {each.score for each in scores} == {0.0, 1.0}


def test_a_limit_of_samples_says_how_many_were_left_out(ended: Run) -> None:
    *_, last = study_judges(ended.index, ended.view, most=10)
    assert (last.read, last.left_out) == (10, last.total - 10)


def test_no_judge_null_verdicts_other_shapes_and_a_thousand_calls(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("none", "null", "many")}
    for folder in folders.values():
        folder.mkdir()
    with rlpanel.open_run(write(folders["none"], {"reward": 1.0}), follow=False) as run:
        table = run.ask("judges")
    assert (table.rows, table.about["samples"]) == ([], 0)
    assert "judge_calls" in table.about["note"]
    lines = ({"judge_calls": [{"name": "a", "verdict": verdict}]} for verdict in (None, "B", "maybe"))
    with rlpanel.open_run(write(folders["null"], *lines), follow=False) as run:
        (row,) = run.ask("judges").rows
    assert (row["calls"], row["missing"], row["other_verdicts"], row["samples"]) == (3, 1, 2, 0)
    assert row["mean"] is None
    assert row["seconds"] is None
    calls = [call(f"judge {number % 130}", float(number % 2)) for number in range(1000)]
    with rlpanel.open_run(write(folders["many"], {"judge_calls": calls}), follow=False) as run:
        table = run.ask("judges")
        assert run.snapshot.number("judge_calls").tolist() == [1000.0]
    assert (len(table.rows), table.about["other_judges"]) == (100, 30)


def test_a_column_that_the_run_lacks_is_an_error_with_similar_names(ended: Run) -> None:
    with pytest.raises(SettingError, match="valid_reward"):
        ended.ask("judges", against="valid_rewards")


def test_rows_of_one_trace_count_its_judges_once(tmp_path: Path) -> None:
    shared = {"episode": "e", "judge_calls": [call("a", 1.0)], "reward": 1.0}
    with rlpanel.open_run(write(tmp_path, shared, shared | {"response": "s"}), follow=False) as run:
        (row,) = run.ask("judges").rows
    assert row["calls"] == 1


def test_numbers_of_the_study_are_not_those_of_a_mean_over_nothing(ended: Run) -> None:
    *_, last = study_judges(ended.index, ended.view, against="nosuch")
    assert all(np.isnan(each.kappa_reward) for each in last.judges)
