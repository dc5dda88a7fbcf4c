"""Runs that can be compared, and those that cannot: each has its sentence."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.queries.gate import gate
from rlpanel.queries.table import Table
from tests.factories import append, line
from tests.unit.gate.gate_runs import write_baselines, write_seed

FAULTS = Path(__file__).parents[2] / "data" / "faults"


def gated(new: Path, against: Sequence[Path], **options: Any) -> Table:
    with ExitStack() as stack:
        run, *others = (
            stack.enter_context(rlpanel.open_run(path, follow=False)).data for path in (new, *against)
        )
        return gate(run, others, **options)


def row_of(table: Table, name: str) -> dict[str, Any]:
    return next(dict(row) for row in table.rows if row["number"] == name)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_baselines(tmp_path_factory.mktemp("baselines"))


def test_another_seed_passes_and_its_means_are_those_of_the_file(
    baselines: list[Path], tmp_path: Path
) -> None:
    table = gated(write_seed(tmp_path / "new", 9), baselines, on=["reward"])
    assert table.about["state"] == "passed"
    assert table.about["notes"] == []
    [row] = table.rows
    with rlpanel.open_run(baselines[0], follow=False) as run:
        by_step = run.steps["reward_mean"].to_numpy()
    np.testing.assert_allclose(
        [window["baselines"][0] for window in row["windows"]], by_step.reshape(10, 3).mean(axis=1)
    )
    assert "found with a chance of 80 %" in row["sentence"]


def test_a_run_is_compared_from_python(baselines: list[Path], tmp_path: Path) -> None:
    new = write_seed(tmp_path / "new", 9, fall=0.6)
    expected = gated(new, baselines, on=["reward"])
    run, *others = (rlpanel.open_run(path, follow=False) for path in (new, *baselines))
    table = run.gate(*others, on=["reward"])
    assert (table.about, table.rows) == (expected.about, expected.rows)
    assert table.about["state"] == "worse"


def test_a_fall_is_found_with_its_step_and_samples(baselines: list[Path], tmp_path: Path) -> None:
    table = gated(write_seed(tmp_path / "new", 9, fall=0.6), baselines, on=["reward", "length"])
    assert table.about["state"] == "worse"
    row = row_of(table, "reward")
    assert row["state"] == "worse"
    assert abs(row["first_step"] - 16) <= 1
    assert row["first_window"] == 6
    assert row["p"] < 0.05
    assert [sample["value"] for sample in row["samples"]] == [0, 0, 0]
    assert all(sample["baseline"] > 0.5 for sample in row["samples"])
    assert row_of(table, "length")["state"] == "passed"


def test_one_baseline_never_proves_a_worsening(baselines: list[Path], tmp_path: Path) -> None:
    worse = gated(write_seed(tmp_path / "worse", 9, fall=0.6), baselines[:1], on=["reward"])
    assert worse.about["state"] == "cannot tell"
    assert "two baselines or more" in worse.rows[0]["sentence"]
    assert "only the noise within the runs" in worse.about["notes"][0]
    equal = gated(write_seed(tmp_path / "equal", 9), baselines[:1], on=["reward"])
    assert equal.about["state"] == "passed"
    assert "no spread between seeds" in equal.rows[0]["sentence"]


def test_two_baselines_of_few_steps_say_how_many_would_tell(tmp_path: Path) -> None:
    against = write_baselines(tmp_path, 2, steps=range(1, 8))
    new = write_seed(tmp_path / "new", 9, steps=range(1, 8))
    table = gated(new, against, on=["reward", "length", "response_chars"])
    assert row_of(table, "reward")["state"] == "cannot tell"
    sentence = row_of(table, "reward")["sentence"]
    assert "About 3 baselines that differ as these do would tell" in sentence
    assert "fewer numbers with --on" in sentence


@pytest.mark.parametrize(
    ("fault", "state"), [("rate", "worse"), ("null_part", "worse"), ("mixed_groups", "passed")]
)
def test_two_seeds_of_a_real_training_show_a_fault(fault: str, state: str, tmp_path: Path) -> None:
    for name in ("healthy", "other_seed", fault):
        (tmp_path / name).mkdir()
        packed = FAULTS / name / "rollout_data_rank_0.jsonl.xz"
        (tmp_path / name / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    [row] = gated(tmp_path / fault, [tmp_path / "healthy", tmp_path / "other_seed"], on=["reward"]).rows
    assert row["state"] == state
    assert row["degrees"] == 1


def test_too_few_steps_cannot_be_told(baselines: list[Path], tmp_path: Path) -> None:
    short = gated(write_seed(tmp_path / "short", 9, steps=range(1, 5)), baselines, on=["reward"])
    assert short.about["state"] == "cannot tell"
    assert "4 common steps, fewer than 5" in short.rows[0]["sentence"]
    apart = gated(write_seed(tmp_path / "apart", 9, steps=range(100, 120)), baselines, on=["reward"])
    assert "no step in common" in apart.rows[0]["sentence"]


def test_five_steps_with_one_group_each_have_a_verdict(tmp_path: Path) -> None:
    small = {"steps": range(1, 6), "groups": 1}
    against = write_baselines(tmp_path, **small)
    table = gated(write_seed(tmp_path / "new", 9, **small), against, on=["reward"])
    assert table.about["windows"] == 5
    assert table.about["state"] in ("passed", "cannot tell")
    assert "chance of 80 %" in table.rows[0]["sentence"].replace("\n", " ")


def test_unequal_lengths_leave_steps_out_and_say_so(baselines: list[Path], tmp_path: Path) -> None:
    table = gated(write_seed(tmp_path / "new", 9, steps=range(1, 21)), baselines, on=["reward"])
    assert (table.about["low"], table.about["high"], table.about["steps"]) == (1, 20, 20)
    assert any("10 of the 30 steps of base1" in note for note in table.about["notes"])


def test_a_number_that_some_runs_lack_cannot_be_told(baselines: list[Path], tmp_path: Path) -> None:
    new = write_seed(tmp_path / "new", 9, valid_reward=0.5)
    table = gated(new, baselines)
    row = row_of(table, "valid_reward")
    assert row["state"] == "cannot tell"
    assert "not logged in base1, base2, base3, base4" in row["sentence"]
    assert {each["number"] for each in table.rows} == {"reward", "valid_reward", "length"}
    with pytest.raises(SettingError, match="similar ones are reward"):
        gated(new, baselines, on=["rewardd"])


def test_other_reward_functions_are_compared_by_those_that_all_share(
    baselines: list[Path], tmp_path: Path
) -> None:
    both = {"rewards": {"right": 1.0, "form": 0.5}}
    against = [write_seed(tmp_path / f"old{seed}", seed, steps=range(1, 11), **both) for seed in (1, 2, 3)]
    new = write_seed(tmp_path / "new", 9, steps=range(1, 11), rewards={"right": 1.0, "new": 3.0})
    table = gated(new, against, on=["reward"])
    assert "compared is the sum of right" in " ".join(table.about["notes"])
    assert (table.rows[0]["new"], table.rows[0]["baselines"]) == (1, 1)
    none = write_seed(tmp_path / "none", 9, steps=range(1, 11), rewards={"else": 1.0})
    assert "share none" in gated(none, against, on=["reward"]).rows[0]["sentence"]


def test_other_prompts_cannot_be_told(baselines: list[Path], tmp_path: Path) -> None:
    table = gated(write_seed(tmp_path / "new", 9, prompts="riddle"), baselines, on=["reward"])
    assert table.about["state"] == "cannot tell"
    assert "the new run has other prompts" in table.rows[0]["sentence"]


@pytest.mark.parametrize(("since", "factor"), [(1, 100), (1, 0.1), (16, 10)])
def test_another_scale_of_the_reward_cannot_be_told(
    baselines: list[Path], tmp_path: Path, since: int, factor: float
) -> None:
    new = write_seed(tmp_path / "new", 9)
    path = new / "rollout_data_rank_0.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    for row in rows:
        row["reward"] *= factor if row["step"] >= since else 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = gated(new, baselines, on=["reward"])
    assert table.about["state"] == "cannot tell"
    assert "another scale" in table.rows[0]["sentence"]


def test_prompts_that_all_runs_share_are_compared_alone(baselines: list[Path], tmp_path: Path) -> None:
    new = write_seed(tmp_path / "new", 9)
    for step in range(1, 31):  # easy prompts of its own
        own = (line(step, index=at, prompt=f"own {at}", reward=1.0, group=f"o{at}") for at in range(16))
        append(new / "rollout_data_rank_1.jsonl", *own)
    table = gated(new, baselines, on=["reward"])
    assert "only the 40 prompts of all runs are compared" in " ".join(table.about["notes"])
    assert table.rows[0]["new"] < 0.75  # 0.8 with the easy ones


def test_a_resumed_run_is_named(baselines: list[Path], tmp_path: Path) -> None:
    new = write_seed(tmp_path / "new", 9, steps=[*range(1, 21), *range(11, 31)])
    notes = " ".join(gated(new, baselines, on=["reward"]).about["notes"])
    assert "new was resumed at step 11" in notes


def test_runs_are_aligned_by_samples_and_tokens(baselines: list[Path], tmp_path: Path) -> None:
    new = write_seed(tmp_path / "new", 9, groups=8, steps=range(1, 16))
    table = gated(new, baselines, on=["reward"], align="samples")
    assert (table.about["low"], table.about["high"]) == (32, 480)
    assert table.about["state"] == "passed"
    lacking = gated(new, baselines, on=["reward"], align="tokens")
    assert "logs no response_tokens to align by" in lacking.rows[0]["sentence"]


def test_a_baseline_that_is_given_twice_or_is_the_run_has_a_note(baselines: list[Path]) -> None:
    notes = " ".join(gated(baselines[0], [*baselines, baselines[1]], on=["reward"]).about["notes"])
    assert "also one of its baselines" in notes
    assert "given twice" in notes


def test_a_real_training_with_a_fault_differs_from_a_healthy_one(tmp_path: Path) -> None:
    for name in ("healthy", "rate"):
        (tmp_path / name).mkdir()
        packed = FAULTS / name / "rollout_data_rank_0.jsonl.xz"
        (tmp_path / name / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    table = gated(tmp_path / "rate", [tmp_path / "healthy"], on=["kl", "reward"])
    assert table.about["state"] == "cannot tell"  # one baseline
    assert row_of(table, "kl")["effect"] > np.log(30)
    same = gated(tmp_path / "healthy", [tmp_path / "healthy"], on=["reward"])
    assert same.about["state"] == "passed"
