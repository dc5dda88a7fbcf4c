"""Inspect's logs: `tests/data/upstream` has some that Inspect wrote, without most of their events."""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.queries.samples import samples as sample_rows
from rlpanel.schema import Sample
from rlpanel.settings import Reading
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from tests.waiting import wait_until

LOGS = Path(__file__).parents[3] / "data" / "upstream" / "inspect-0.3.285"
START: dict[str, Any] = {"version": 2, "eval": {"task": "sums", "task_id": "abcdefghij", "model": "m"}}


def samples(folder: Path) -> list[Sample]:
    """All samples of a folder without bad lines and unread files, by id and epoch."""
    with rlpanel.open_run(folder, follow=False) as run:
        assert not len(run.errors)
        assert not len(run.unread)
        parts = [run.split(name) for name in run.splits]
        read = [part.sample(uid) for part in parts for uid in part.samples()["uid"]]
    return sorted(read, key=lambda sample: (str(sample.extra["sample_id"]), sample.columns["epoch"]))


def sample(number: int, epoch: int = 1, **fields: Any) -> dict[str, Any]:
    """A sample of Inspect's log."""
    messages = [
        {"role": "user", "content": "2 + 2?", "source": "input"},
        {"role": "assistant", "content": "4", "source": "generate"},
    ]
    scores = {"match": {"value": "C"}}
    return {"id": number, "epoch": epoch, "messages": messages, "target": "4", "scores": scores} | fields


def write_log(path: Path, *logged: dict[str, Any], start: dict[str, Any] = START) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps(start))
        for each in logged:
            archive.writestr(f"samples/{each['id']}_epoch_{each['epoch']}.json", json.dumps(each))
    return path


def one(folder: Path, **fields: Any) -> Sample:
    write_log(folder / "log.eval", sample(1, **fields))
    (read,) = samples(folder)
    return read


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_both_formats_of_a_log_give_the_same_samples(kind: str) -> None:
    read = samples(LOGS / kind)
    assert [(each.extra["sample_id"], each.columns["epoch"]) for each in read] == [
        ("2", 1), ("2", 2), ("broken", 1), ("broken", 2), ("tool", 1), ("tool", 2),
    ]  # fmt: skip
    assert [each.step for each in read] == [0] * 6
    assert [each.split for each in read] == ["eval"] * 6
    rewards = [None if math.isnan(each.reward) else each.reward for each in read]
    assert rewards == [0.0, 0.0, None, None, 1.0, 1.0]
    assert [each.status for each in read] == ["ok", "ok", *["environment_error"] * 2, "ok", "ok"]
    assert [each.ground_truth for each in read] == ["4, four"] * 2 + ["4"] * 4
    tool = read[-1]
    assert (tool.columns["rewards/includes"], tool.columns["rewards/graded/style"]) == (1.0, 0.5)
    assert tool.columns["rewards/graded/truth"] == 1.0
    assert (tool.columns["turns"], tool.columns["tool_calls"], tool.columns["response_tokens"]) == (2, 1, 8)
    assert tool.messages[1]["tool_calls"] == [
        {"name": "add", "arguments": '{"a": 2, "b": 2}', "id": "call_1"}
    ]
    assert (tool.messages[2]["content"], tool.messages[3]["content"]) == ("4", "Die Antwort: 4 “四”")
    assert read[2].status_reason == "RuntimeError('sandbox died')"


def test_the_epochs_of_a_sample_are_a_group() -> None:
    read = samples(LOGS / "eval")
    groups = [each.group for each in read]
    assert groups == ["sums-ZYYj9uGK:2"] * 2 + ["sums-ZYYj9uGK:broken"] * 2 + ["sums-ZYYj9uGK:tool"] * 2


def test_a_task_by_another_model_has_other_groups(tmp_path: Path) -> None:
    write_log(tmp_path / "a.eval", sample(1))
    other = START["eval"] | {"task_id": "klmnopqrst", "model": "n"}
    write_log(tmp_path / "b.eval", sample(1), start=START | {"eval": other})
    assert len({each.group for each in samples(tmp_path)}) == 2


def test_an_image_is_found_among_the_attachments() -> None:
    read = samples(LOGS / "eval")[0]
    (image,) = read.messages[0]["images"]
    assert (image["media_type"], image["size"]) == ("image/png", 72)
    assert read.messages[0]["content"] == "See:\n[image]"


def test_a_limit_ends_a_sample_that_is_scored() -> None:
    cut = samples(LOGS / "limit")[-1]
    assert (cut.status, cut.finish_reason, cut.reward) == ("truncated", "message", 0.0)


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        ("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (0.25, 0.25), (True, 1.0), ("yes", 1.0), ("0.5", 0.5),
        ("B", None), (float("nan"), None), ({"a": 1.0}, None), ([1, 0], None), (None, None),
    ],
)  # fmt: skip
def test_a_score_becomes_the_reward_if_it_is_a_number_for_inspect(
    tmp_path: Path, value: Any, reward: float | None
) -> None:
    read = one(tmp_path, scores={"match": {"value": value}})
    assert (None if math.isnan(read.reward) else read.reward) == reward


def test_the_headline_metric_chooses_the_reward_among_several_scores(tmp_path: Path) -> None:
    scores = {"first": {"value": "I"}, "second": {"value": 0.75}}
    start = START | {"eval": START["eval"] | {"headline_metric": {"scorer": "second"}}}
    write_log(tmp_path / "log.eval", sample(1, scores=scores), start=start)
    (read,) = samples(tmp_path)
    assert (read.reward, read.columns["rewards/first"]) == (0.75, 0.0)


@pytest.mark.parametrize(
    ("fields", "status", "truncated"),
    [
        ({"limit": {"type": "time", "limit": 5}}, "timeout", 0.0),
        ({"limit": {"type": "token", "limit": 5}}, "truncated", 1.0),
        ({"limit": {"type": "operator", "limit": 1}}, "ok", 0.0),
        ({"error": {"message": "x"}, "scores": {}}, "environment_error", 0.0),
        ({"error": {"message": "x"}}, "ok", 0.0),  # scored in spite of the error
        ({"invalidation": {"author": "me"}}, "discarded", 0.0),
        ({"output": {"choices": [{"stop_reason": "max_tokens"}]}}, "ok", 1.0),
    ],
)
def test_a_sample_says_how_it_ended(
    tmp_path: Path, fields: dict[str, Any], status: str, truncated: float
) -> None:
    read = one(tmp_path, **fields)
    assert (read.status, read.truncated) == (status, truncated)


def test_examples_in_the_input_belong_to_the_prompt(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "1?", "source": "input"},
        {"role": "assistant", "content": "1", "source": "input"},
        {"role": "user", "content": "2?", "source": "input"},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "2"}],
            "source": "generate",
        },
    ]
    read = one(tmp_path, messages=messages)
    assert (read.prompt, read.response) == ("[user] 1?\n[assistant] 1\n[user] 2?", "hm\n2")
    assert read.messages[3]["reasoning_content"] == "hm"


def test_a_single_answer_has_its_tokens_and_logprobs(tmp_path: Path) -> None:
    content = [{"token": "4", "logprob": -0.5}, {"token": ".", "logprob": -0.25}]
    read = one(tmp_path, output={"choices": [{"logprobs": {"content": content}, "stop_reason": "stop"}]})
    assert read.response_tokens == ["4", "."]
    assert read.rollout_logprobs is not None
    assert read.rollout_logprobs.tolist() == [-0.5, -0.25]


def test_a_graders_tokens_are_not_taken_for_the_answers(tmp_path: Path) -> None:
    usage = {"m": {"output_tokens": 50}}
    read = one(tmp_path, model_usage=usage, role_usage={"grader": {"output_tokens": 40}})
    assert math.isnan(read.columns.get("response_tokens", math.nan))
    assert read.columns["metrics/output_tokens"] == 50


def test_a_retried_sample_counts_once(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.eval", sample(1, scores={}), sample(2))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample(1)))
    assert [each.reward for each in samples(tmp_path)] == [1.0, 1.0]


def test_a_folder_names_the_step_and_a_task_does_not(tmp_path: Path) -> None:
    write_log(tmp_path / "step_40" / "2026-11-27T02-52-18-00-00_step_3_x.eval", sample(1))
    write_log(tmp_path / "step_50" / "x.eval", sample(1))
    assert [each.step for each in samples(tmp_path)] == [40, 50]


def test_a_growing_log_is_followed_and_earlier_samples_are_not_read_again(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.eval", sample(1))
    reader = Reader(Reading())
    index = reader.open(tmp_path)
    wait_until(lambda: index.snapshot.all_samples == 1)
    before = index.bytes_read
    with zipfile.ZipFile(shutil.copy(path, tmp_path / "log.new"), "a") as archive:
        archive.writestr("samples/1_epoch_2.json", json.dumps(sample(1, 2)))
        archive.writestr("header.json", json.dumps(START | {"status": "success"}))
    (tmp_path / "log.new").rename(path)
    wait_until(lambda: index.snapshot.all_samples == 2)
    second = zipfile.ZipFile(path).getinfo("samples/1_epoch_2.json").compress_size
    assert index.bytes_read - before == second
    assert index.reader("log.eval").generation == 0
    write_log(tmp_path / "log.new", sample(7), sample(8), sample(9))
    (tmp_path / "log.new").rename(path)
    wait_until(lambda: index.snapshot.all_samples == 3)
    reader.close(index)
    reader.stop()


def test_a_log_is_read_in_turns_of_the_readers_budget(tmp_path: Path) -> None:
    texts = ["x" * 1000 + str(number) for number in range(5)]
    write_log(tmp_path / "log.eval", *(sample(number, input=text) for number, text in enumerate(texts)))
    index = RunIndex(tmp_path, "run", Reading(turn_bytes=1024))
    index.rescan()
    counts = []
    while index.read() and len(counts) < 20:
        counts.append(index.snapshot.all_samples)
    assert counts == [1, 2, 3, 4]
    assert index.snapshot.all_samples == 5


def test_the_texts_of_a_log_are_searched_and_stay_in_it(tmp_path: Path) -> None:
    shutil.copytree(LOGS / "eval", tmp_path / "logs")
    with rlpanel.open_run(tmp_path / "logs", follow=False) as run:
        found = sample_rows(run.split("eval"), filter='response contains "Antwort"', columns=["epoch"])
        assert [row["epoch"] for row in found.rows] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log.pop("version"), "Inspect: the log's 'version' is None"),
        (lambda log: log.update(version=3), "Inspect: the log's 'version' is 3"),
        (lambda log: log.update(eval=[]), "Inspect: 'eval' is not an object"),
        (lambda log: log["samples"][1].pop("id"), "Inspect: a sample has no 'id'"),
        (lambda log: log["samples"][1].pop("epoch"), "Inspect: a sample has no 'epoch'"),
        (lambda log: log.update(samples={}), "Inspect: 'samples' is not a list"),
    ],
)
def test_a_log_of_another_shape_is_refused(tmp_path: Path, change: Any, said: str) -> None:
    """Its first state decides that the file is a log of Inspect's; what is written later may be anything."""
    path = tmp_path / "2026-11-27T02-52-25-00-00_sums_x.json"
    log = START | {"status": "success", "samples": [sample(1), sample(2)]}
    path.write_text(json.dumps(log))
    index = RunIndex(tmp_path, "run", Reading())
    index.rescan()
    index.read()
    change(log)
    path.write_text(json.dumps(log))
    index.read()
    assert [said in each.reason for each in index.snapshot.bad_lines] == [True]
    assert index.snapshot.all_samples == 0


def test_a_json_log_is_read_by_any_name(tmp_path: Path) -> None:
    (path,) = (LOGS / "json").glob("*.json")
    shutil.copy(path, tmp_path / "sums of one model.json")
    assert [each.columns["epoch"] for each in samples(tmp_path)] == [1, 2] * 3
