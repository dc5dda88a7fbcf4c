"""Two runs part by their texts, by the prompts of a group, and by prompts that the evaluation has, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlpanel.divergence.run_divergence import Divergence
from tests.unit.divergence.two_runs import compared, rewards, write
from tests.unit.findings.test_real_faults import unpacked

ONSET = 15


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("healthy", tmp_path_factory.mktemp("healthy"))


def first_of(found: Divergence) -> tuple[str, int]:
    assert found.pairs is not None
    first = found.partings[0]
    return first.stream.stream.name, int(found.pairs.first_there[first.onset])


def test_groups_of_different_prompts_of_a_real_training_are_found(healthy: Path, tmp_path: Path) -> None:
    found = compared(healthy, unpacked("mixed_groups", tmp_path))
    assert first_of(found) == ("samples in groups of different prompts", 25)


def test_prompts_of_the_evaluation_in_the_training_are_found(tmp_path: Path) -> None:
    """Only the second run has an evaluation; from a step on, it trains on half of its prompts."""
    values = rewards(1)
    write(tmp_path / "a", values)
    write(tmp_path / "b", values)
    log = tmp_path / "b" / "rollout_data_rank_0.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        if row["step"] >= ONSET and row["prompt"].endswith(("0", "2", "4", "6")):
            row["prompt"] = "held out" + row["prompt"][-2:] + "  "
    held = [row | {"split": "eval"} for row in rows if row["prompt"].startswith("held out")][:64]
    log.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *held]))
    found = compared(tmp_path / "a", tmp_path / "b")
    named = {each.stream.stream.name: each for each in found.partings}
    leak = named["samples with a prompt of the evaluation"]
    assert found.pairs is not None
    assert int(found.pairs.first_there[leak.onset]) == ONSET
    assert (leak.here, leak.there) == (0, pytest.approx(0.5))


def test_a_truth_in_the_prompts_is_found_in_the_texts(tmp_path: Path) -> None:
    """Equal rewards; from a step on, the prompts of the second run hold the answer."""
    values = rewards(1)
    write(tmp_path / "a", values, ground_truth="forty-two apples")
    early, late = values[:ONSET], values[ONSET:]
    write(tmp_path / "b", early, ground_truth="forty-two apples")
    log = tmp_path / "b" / "rollout_data_rank_0.jsonl"
    before = log.read_text()
    write(tmp_path / "b", late, prompt="the answer is forty-two apples", ground_truth="forty-two apples")
    after = [json.loads(line) for line in log.read_text().splitlines()]
    moved = "".join(json.dumps(row | {"step": row["step"] + ONSET}) + "\n" for row in after)
    log.write_text(before + moved)
    found = compared(tmp_path / "a", tmp_path / "b")
    onsets = {each.stream.stream.name: each.onset for each in found.partings}
    assert onsets["prompts with the ground truth"] == ONSET
    assert min(onsets.values()) == ONSET


def test_equal_texts_do_not_part(tmp_path: Path) -> None:
    write(tmp_path / "a", rewards(1), ground_truth="7")
    write(tmp_path / "b", rewards(2), ground_truth="7")
    found = compared(tmp_path / "a", tmp_path / "b")
    assert found.partings == ()
