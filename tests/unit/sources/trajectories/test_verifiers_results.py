"""Results of verifiers' evaluations before its traces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rlpanel.sources.discovery.directory import discover
from tests.unit.sources.trajectories.reading import DATA, rewards, samples, spoken

RESULTS = DATA / "verifiers-0.1.14"


def test_rollouts_of_an_example_are_a_group() -> None:
    read = samples(RESULTS)
    raw = [json.loads(line) for line in (RESULTS / "results.jsonl").read_text("utf-8").splitlines()]
    assert rewards(read) == [line["reward"] for line in raw] == [1, 0, 1, 0.5, 0]
    assert [each.group for each in read] == ["0", "0", "2", "2", "2"]
    assert [each.ground_truth for each in read] == ["2", "2", "4", "4", "4"]
    assert [each.status for each in read] == ["ok", "ok", "ok", "truncated", "ok"]
    assert [each.response for each in read][:2] == ["2 „exact“", "3"]
    assert spoken(read[2]) == [("user", "2 + 2?"), ("assistant", "add"), ("tool", "4"), ("assistant", "4")]
    columns = read[2].columns
    assert (columns["turns"], columns["tool_calls.add"], columns["metrics/correct"]) == (2, 1, 1)
    assert (columns["generation_seconds"], columns["score_seconds"], columns["seconds"]) == (1.25, 0.25, 1.5)
    assert "correct" not in columns
    assert not read[0].notes


def test_rollouts_of_training_have_the_step_of_their_folder(tmp_path: Path) -> None:
    for step in (3, 4):
        (tmp_path / "run" / f"step_{step}").mkdir(parents=True)
        shutil.copy(RESULTS / "results.jsonl", tmp_path / "run" / f"step_{step}" / "train_rollouts.jsonl")
    assert [info.name for info in discover(tmp_path)] == ["run"]
    assert [each.step for each in samples(tmp_path / "run", "train")] == [3] * 5 + [4] * 5


def test_a_step_in_the_line_counts(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (RESULTS / "results.jsonl").read_text("utf-8").splitlines()]
    steps: list[dict[str, object]] = [{}, {"step": {}}, {"step_index": 0}, {"step_index": 7}, {"step": "8"}]
    stepped = [line | step for line, step in zip(lines, steps, strict=True)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in stepped), "utf-8")
    assert [each.step for each in samples(tmp_path)] == [0, 0, 0, 7, 8]


def test_values_in_other_shapes_are_read_as_in_other_formats(tmp_path: Path) -> None:
    [line, *_] = (RESULTS / "results.jsonl").read_text("utf-8").splitlines()
    rollout = json.loads(line)
    texts = {key: json.dumps(rollout[key]) for key in ("prompt", "completion")}
    shapes: list[dict[str, object]] = [{"reward": {"score": 0.5}}, {"reward": [0.5]}, {"reward": "0.5"}]
    changed = [rollout | texts | shape for shape in shapes]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in changed), "utf-8")
    [plain, *_] = samples(RESULTS)
    read = samples(tmp_path)
    assert rewards(read) == [0.5] * 3
    assert [(each.messages, each.response) for each in read] == [(plain.messages, plain.response)] * 3


def test_one_document_holds_all_rollouts(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (RESULTS / "results.jsonl").read_text("utf-8").splitlines()]
    metadata = json.loads((RESULTS / "metadata.json").read_text("utf-8"))
    (tmp_path / "generated.json").write_text(json.dumps({"metadata": metadata, "outputs": lines}, indent=1))
    assert rewards(samples(tmp_path)) == [1, 0, 1, 0.5, 0]
