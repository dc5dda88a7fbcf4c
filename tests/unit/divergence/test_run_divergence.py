"""Where one run leaves another: onset, errors, samples, settings, and what cannot be claimed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.divergence.run_divergence import Divergence, sentence
from rlpanel.errors import SettingError
from tests.unit.divergence.two_runs import PROMPTS, SAMPLES, STEPS, compared, rewards, write

ONSET = 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pairs")
    write(root / "a", rewards(1))
    write(root / "same", rewards(2))
    write(root / "b", rewards(2, onset=ONSET))
    for name, seed in (("a", 1), ("b", 2)):
        (root / name / "config.yaml").write_text(f"seed: {seed}\nlr: 1.0e-6\n")
    return root


@pytest.fixture(scope="module")
def parted(folder: Path) -> Divergence:
    return compared(folder / "a", folder / "b")


def test_equal_runs_do_not_part_and_the_power_is_stated(folder: Path) -> None:
    found = compared(folder / "a", folder / "same")
    assert found.partings == ()
    (power,) = (each for each in found.powers if each.column == "reward")
    error = np.sqrt(2 * 0.5**2 / (PROMPTS * SAMPLES) / (STEPS / 2) * 2)
    assert 3 * error < power.size < 16 * error
    assert "No difference" in sentence(found)


def test_the_first_step_is_found_with_a_paired_difference_and_its_error(parted: Divergence) -> None:
    first = parted.partings[0]
    assert first.stream.stream.column == "reward"
    assert abs(first.onset - ONSET) <= 1
    assert first.ongoing
    assert not first.from_start
    a, b = rewards(1).mean(axis=2), rewards(2, onset=ONSET).mean(axis=2)
    difference = (b - a).mean(axis=1)
    np.testing.assert_allclose(first.stream.difference, difference, atol=1e-6)
    np.testing.assert_allclose(first.stream.variance, (b - a).var(axis=1, ddof=1) / PROMPTS, rtol=1e-4)
    assert first.difference == pytest.approx(difference[first.onset :].mean(), abs=1e-6)
    assert 0.5 < first.error / (0.5 * np.sqrt(2 / (PROMPTS * SAMPLES * (STEPS - ONSET)))) < 2.5
    assert parted.by_prompt == STEPS


def test_samples_of_one_prompt_show_it(parted: Divergence) -> None:
    assert len(parted.samples) == 5
    for pair in parted.samples:
        assert pair.same_prompt
        assert pair.uid
        assert pair.against_uid
        assert pair.step == pair.against_step
        assert pair.step in range(ONSET - 1, ONSET + 6)
    gaps = [pair.against_value - pair.value for pair in parted.samples]
    assert gaps[0] < -0.6


def test_settings_that_differ_are_named(parted: Divergence) -> None:
    assert [(each.name, each.here, each.there) for each in parted.settings] == [("seed", 1, 2)]
    assert parted.has_settings == (True, True)


def test_a_run_says_where_another_one_leaves_it(folder: Path) -> None:
    a, b = (rlpanel.open_run(folder / name, follow=False) for name in "ab")
    table = a.diverge(b)
    assert abs(table.about["first_step"] - ONSET) <= 1
    assert table.rows[0]["column"] == "reward"


def test_a_difference_from_the_start_is_no_later_change(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "b", rewards(2, onset=0))
    found = compared(folder / "a", tmp_path / "b")
    assert found.partings[0].from_start
    assert found.partings[0].onset == 0


def test_other_prompts_compare_changes_only(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "level", rewards(2, onset=0, shift=9.0), prompt="other")
    found = compared(folder / "a", tmp_path / "level")
    assert [each.name for each in found.caveats if each.name == "other_prompts"]
    assert not [each for each in found.partings if each.stream.stream.column == "reward"]
    assert found.by_prompt == 0
    write(tmp_path / "change", rewards(2, onset=ONSET, shift=6.0), prompt="other")
    changed = compared(folder / "a", tmp_path / "change")
    assert abs(changed.partings[0].onset - ONSET) <= 1


def test_few_steps_and_none_are_said(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "five", rewards(2, steps=STEPS, onset=2, shift=5.0)[:5])
    five = compared(folder / "a", tmp_path / "five")
    assert "few_steps" in {each.name for each in five.caveats}
    assert "unpaired" in {each.name for each in five.caveats}
    assert five.partings[0].onset == 2
    write(tmp_path / "three", rewards(2)[:3])
    three = compared(folder / "a", tmp_path / "three")
    assert {each.name for each in three.caveats} == {"no_steps"}
    assert "3 common steps" in sentence(three)


def test_changed_reward_functions_are_not_compared(tmp_path: Path) -> None:
    write(tmp_path / "a", rewards(1), name="exact")
    write(tmp_path / "b", rewards(2, onset=ONSET), name="format")
    write(tmp_path / "c", 10 * rewards(2), name="exact")
    functions = compared(tmp_path / "a", tmp_path / "b")
    assert "functions" in {each.name for each in functions.caveats}
    assert not [each for each in functions.partings if "reward" in each.stream.stream.name]
    scale = compared(tmp_path / "a", tmp_path / "c")
    assert "scale" in {each.name for each in scale.caveats}
    assert not [each for each in scale.partings if each.stream.stream.column.startswith("reward")]


def test_a_flag_that_becomes_a_number_in_the_other_run_is_compared(tmp_path: Path) -> None:
    """A reward of 0 and 1 is a share; where another function scores up to 10, it is a level in both runs."""
    for name, seed, factor in (("a", 1, 1.0), ("b", 2, 10.0)):
        values = (np.random.default_rng(seed).random((STEPS, 8, 4)) < 0.5).astype(float)
        values[ONSET:] *= factor
        write(tmp_path / name, values)
    for names in ("ab", "ba"):
        found = compared(*(tmp_path / name for name in names))
        first = found.partings[0]
        assert first.stream.stream.column == "reward"
        assert abs(first.onset - ONSET) <= 1
        assert max(first.here, first.there) > 3


def test_one_group_a_step_is_said(tmp_path: Path) -> None:
    for name, seed, onset in (("a", 1, None), ("b", 2, ONSET)):
        write(tmp_path / name, rewards(seed, onset=onset, shift=3.0)[:, :1])
    found = compared(tmp_path / "a", tmp_path / "b")
    assert "one_group" in {each.name for each in found.caveats}
    assert abs(found.partings[0].onset - ONSET) <= 1


@pytest.mark.parametrize(
    ("here", "changed", "from_start"), [(1e-6, 2e-5, False), (0.0, 0.1, False), (1e-6, 5e-6, True)]
)
def test_a_setting_that_one_run_never_changes_is_compared(
    here: float, changed: float, from_start: bool, tmp_path: Path
) -> None:
    onset = 0 if from_start else ONSET
    for name, seed, since in (("a", 1, STEPS), ("b", 2, onset)):
        write(tmp_path / name, rewards(seed))
        rates = [changed if step >= since else here for step in range(STEPS)]
        rows = (json.dumps({"step": step, "lr": rate, "clip": 0.2}) + "\n" for step, rate in enumerate(rates))
        (tmp_path / name / "scalars.jsonl").write_text("".join(rows))
    found = compared(tmp_path / "a", tmp_path / "b")
    [first] = found.partings
    assert first.stream.stream.name == "lr of the trainer"
    assert (first.onset, first.from_start) == (onset, from_start)
    assert first.difference == pytest.approx(changed - here)
    assert first.error == 0


def test_a_resumed_run_leaves_older_attempts_out_and_says_so(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "b", rewards(2))
    again = (tmp_path / "b" / "rollout_data_rank_0.jsonl").read_text().splitlines(keepends=True)
    size = PROMPTS * SAMPLES
    with (tmp_path / "b" / "rollout_data_rank_0.jsonl").open("a") as file:
        file.writelines(again[20 * size : 30 * size])
    found = compared(folder / "a", tmp_path / "b")
    [resumed] = [each for each in found.caveats if each.name == "resumed"]
    assert dict(resumed.values)["count"] == 10 * size
    assert found.partings == ()


def test_two_runs_never_separate_a_setting_from_the_seed(parted: Divergence) -> None:
    assert "seed" in {each.name for each in parted.caveats}


def test_steps_are_paired_by_samples(folder: Path, tmp_path: Path) -> None:
    halves = rewards(2, onset=ONSET).reshape(2 * STEPS, PROMPTS // 2, SAMPLES)
    write(tmp_path / "halves", halves)
    found = compared(folder / "a", tmp_path / "halves", "samples")
    assert found.pairs is not None
    assert len(found.pairs) == STEPS
    np.testing.assert_array_equal(found.pairs.first_there, 2 * np.arange(STEPS))
    with pytest.raises(SettingError, match="no times"):
        compared(folder / "a", folder / "b", "time")
