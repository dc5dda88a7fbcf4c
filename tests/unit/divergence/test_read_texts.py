"""Two runs part by their texts, by the prompts of a group, and by prompts that the evaluation has, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from rlpanel.divergence.held_out_parting import held_out_prompts, sign_chance
from rlpanel.divergence.run_divergence import Divergence
from tests.bench.finding_scores import open_folder
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


def test_two_seeds_of_a_real_training_do_not_part(healthy: Path, tmp_path: Path) -> None:
    """The second one ran on a busy machine, whose times are no difference of the training."""
    found = compared(healthy, unpacked("other_seed", tmp_path))
    assert found.partings == ()


@pytest.mark.parametrize("fault", ["rate", "null_part", "template"])
def test_a_fault_of_a_real_training_is_found_at_its_step(fault: str, healthy: Path, tmp_path: Path) -> None:
    name, step = first_of(compared(healthy, unpacked(fault, tmp_path)))
    assert abs(step - 25) <= 1, name


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


def test_a_leaked_evaluation_of_a_real_training_is_found(healthy: Path, tmp_path: Path) -> None:
    """The evaluation is a run of its own below the second one; two of eight groups are of it, in 20 steps."""
    found = compared(healthy, unpacked("leak", tmp_path))
    assert first_of(found) == ("samples with a prompt of the evaluation", 25)


def leaking(folder: Path, leaked: Callable[[int, int], bool], *, held: int = 16) -> Path:
    """Write a run that trains on prompts of its evaluation where ``leaked(step, prompt)``."""
    write(folder, rewards(1))
    log = folder / "rollout_data_rank_0.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        _, step, at = row["prompt"].split()
        if leaked(int(step), int(at)):
            row["prompt"] = f"held out {(int(step) + int(at)) % held}"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "eval").mkdir()
    asked = ({"step": 5, "prompt": f"held out {at}", "response": "r", "reward": 1.0} for at in range(held))
    (folder / "eval" / log.name).write_text("".join(json.dumps(row) + "\n" for row in asked))
    return folder


def test_the_last_line_of_an_evaluation_counts_without_its_newline(tmp_path: Path) -> None:
    leaking(tmp_path / "run", lambda step, at: False, held=3)
    (log,) = (tmp_path / "run" / "eval").iterdir()
    log.write_bytes(log.read_bytes().rstrip(b"\n"))
    index = open_folder(tmp_path / "run")
    prompts, large = held_out_prompts(index, index.view.snapshot)
    assert len(prompts) == 3
    assert large == ()


def test_an_evaluation_that_both_runs_train_on_is_no_difference(tmp_path: Path) -> None:
    one = leaking(tmp_path / "one", lambda step, at: step >= ONSET and at == 0)
    two = leaking(tmp_path / "two", lambda step, at: step >= ONSET and at == 0)
    assert compared(one, two).partings == ()


def test_few_prompts_of_an_evaluation_may_be_chance(tmp_path: Path) -> None:
    clean = leaking(tmp_path / "clean", lambda step, at: False)
    five = leaking(tmp_path / "five", lambda step, at: ONSET <= step < ONSET + 5 and at == 0)
    assert compared(clean, five).partings == ()


def test_the_chance_of_the_sign_test_is_that_of_all_ways_to_share_out() -> None:
    for of in range(1, 11):
        sides = [sum(each) for each in product((0, 1), repeat=of)]
        for count in range(of // 2 + 1, of + 1):
            as_rare = sum(max(side, of - side) >= count for side in sides)
            assert sign_chance(count, of) == pytest.approx(as_rare / 2**of)
    assert sign_chance(5, 10) == 1.0
    assert 0 < sign_chance(40_000, 40_000) < 1e-100


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
