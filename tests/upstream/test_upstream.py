"""Files of other frameworks' own writers, executed at pinned releases, are read with the batch's values."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.metrics.engine.trainer_names import TABLE
from rlpanel.panels.curves.log_comparison import comparisons
from rlpanel.schema import Sample
from tests.upstream.sources import ROOT

PYTHON = ROOT / os.environ.get("TRAIN_VENV", ".venv-train") / "bin" / "python"


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs a writer once and returns its folder."""
    folders: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name) / "run"
            command = [str(PYTHON), "-m", "tests.upstream.writers", name, str(folders[name])]
            done = subprocess.run(
                command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
                timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
        return folders[name]

    return write


def read(folder: Path, split: str = "train") -> tuple[pd.DataFrame, list[Sample]]:
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.errors.empty, run.errors
        shown = run.split(split)
        frame = shown.samples()
        return frame, [shown.sample(uid) for uid in frame["uid"]]


def table(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(frame[list(columns)].itertuples(index=False, name=None))


def test_verls_padding_rows_are_no_samples(written: Any) -> None:
    frame, samples = read(written("verl_v1"))
    assert table(frame, "step", "group", "reward")[:4] == [
        (1, "a1", 0.0), (1, "a1", 1.0), (1, "b2", 0.5), (1, "b2", 0.5),
    ]  # fmt: skip
    assert len(frame) == 8
    assert {(each.prompt, each.response, each.ground_truth) for each in samples} >= {("2 + 2?", "4 🙂", "4")}


#: The rows of `verl_trainer.SESSIONS` as recorded: group, session, turn, reward, newest weights' version,
#: response, all its tokens, loss mask, and the first token's place in the sequence.
VERL_ROWS = [
    ("a_1", 0, 0, 1.0, 2, "add 2 2", "add 2 2", None, 6),
    ("a_1", 0, 1, 1.0, 2, "4 🙂", "4 🙂", [1, 1, 0], 15),
    ("a_1", 1, 0, 0.0, 3, "f()", "f()ok", [1, 1, 1, 0, 0], 6),
    ("b_2", 0, 0, 0.5, 2, "f()!", "f()ok!", [1, 1, 1, 0, 0, 1], 2),
    ("b_2", 1, 0, 0.5, 3, "sun", "sun", [0, 0, 0], 2),
]
VERL_COLUMNS = ("group", "rollout_session", "turn", "reward", "max_global_steps")


def test_the_hook_records_verls_samples_with_session_turn_and_versions(written: Any) -> None:
    frame, _ = read(written("verl_hook") / "recorded")
    assert table(frame, *VERL_COLUMNS) == [row[:5] for row in VERL_ROWS], "no rows that pad the batch"
    assert set(frame["step"]) == {3}
    assert set(frame["min_global_steps"]) == {1.0}
    assert set(frame["lag"]) == {1.0}, "verl's own staleness: global_steps - 1 - min_global_steps"
    dumped, _ = read(written("verl_hook") / "dump")
    assert table(dumped, *VERL_COLUMNS[:4]) == table(frame, *VERL_COLUMNS[:4]), "verl's own dump"


def test_the_hook_records_verls_tokens_masks_and_advantages(written: Any) -> None:
    """Masked are a tool's tokens, and those that verl's rejection sampling takes from the loss."""
    frame, samples = read(written("verl_hook") / "recorded")
    order = frame.sort_values(["group", "rollout_session", "turn"]).index
    advantages = [0.5**0.5, 0.5**0.5, -(0.5**0.5), 0.0, 0.0]  # of each session's last output
    for at, row, advantage in zip(order, VERL_ROWS, advantages, strict=True):
        sample, response, tokens, mask, first = samples[at], *row[5:]
        assert (sample.response, sample.response_tokens) == (response, list(tokens))
        arrays = sample.arrays()
        assert arrays["response_token_ids"].tolist() == [ord(token) for token in tokens]
        assert mask == (arrays["loss_mask"].tolist() if "loss_mask" in arrays else None)
        places = np.arange(first, first + len(tokens))
        np.testing.assert_allclose(arrays["logprobs"], -0.01 * places, atol=1e-6)
        np.testing.assert_allclose(arrays["ref_logprobs"], -0.02 * places, atol=1e-6)
        np.testing.assert_allclose(arrays["advantages"], advantage * np.array(mask or 1), atol=1e-5)
        np.testing.assert_allclose(arrays["returns"], arrays["advantages"])
        assert set(arrays["entropy"]) == {0.5}
    rejected = samples[order[1]].rollout_logprobs
    assert rejected is not None
    assert rejected.tolist() == [-0.25, -0.25, -5.0]
    assert {sample.prompt for sample in samples} == {"2 + 2?", "2 + 2?add 2 2=4", "月?"}


def test_the_board_compares_its_numbers_with_verls(written: Any) -> None:
    """Each row of the table about verl, on masked tokens of several lengths."""
    rows = [row for row in TABLE if row.trainer == "verl"]
    with rlpanel.open_run(written("verl_metrics"), follow=False) as run:
        found = [comparison for row in rows for comparison in comparisons(run.view, row.number)]
    assert {c.scalar for c in found if c.verdict == "equal" and c.points == 3} == {row.name for row in rows}
    assert {c.scalar for c in found if c.verdict == "differs"} == set()


def test_areals_groups_are_whole_and_their_step_is_the_folders_version(written: Any) -> None:
    frame, samples = read(written("areal"))
    assert table(frame, "step", "group", "reward", "head_version") == [
        (2, "17", 0.0, 1.0), (2, "17", 1.0, 1.0), (2, "18", 0.0, 2.0), (2, "18", 1.0, 2.0),
    ]  # fmt: skip
    assert {(each.prompt, each.response) for each in samples} == {("2 + 2?", "4"), ("2 + 2?", "five")}


def test_skyrls_evaluations_are_samples_of_their_step(written: Any) -> None:
    frame, samples = read(written("skyrl"), "eval")
    assert table(frame, "step", "reward", "finish_reason") == [
        (5, 0.75, "length"), (5, 1.0, "stop"), (10, 0.75, "length"), (10, 1.0, "stop"),
    ]  # fmt: skip
    assert {(each.prompt, each.response) for each in samples} == {("2 + 2?", "4"), ("月?", "moon")}


#: A step's four samples of `writers.swift`: reward and advantage.
STEP = [(0.0, -0.5)] * 3 + [(1.0, 1.5)]


@pytest.mark.parametrize(("name", "steps"), [("swift", (1, 2)), ("swift_megatron", (0, 1))])
def test_swift_counts_each_step_once(written: Any, name: str, steps: tuple[int, int]) -> None:
    """The HF trainer writes the last table again at the end of training."""
    frame, samples = read(written(name))
    expected = [(step, *values) for step in steps for values in STEP]
    assert table(frame, "step", "reward", "advantage") == expected
    assert frame["rewards/Format"].sum() == 2.0
    assert {each.response for each in samples} == {"4 in step 1", "4 in step 2", "five", "six"}


def test_swifts_ray_trainer_writes_a_line_for_each_sample(written: Any) -> None:
    frame, samples = read(written("swift_ray"))
    assert table(frame, "step", "reward") == [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)]
    assert {each.response for each in samples} == {"4", "5"}


def test_tinkers_summaries_are_samples_without_texts(written: Any) -> None:
    frame, samples = read(written("tinker"))
    assert table(frame, "step", "group", "reward") == [
        (step, group, total) for step in (0, 1) for group, total in
        (("0", 0.25), ("0", 1.25), ("1", 0.5), ("1", 1.5))
    ]  # fmt: skip
    assert {each.step for each in samples} == {0, 1}


def test_openrlhfs_advantages_and_masks_are_those_of_the_trainer(written: Any) -> None:
    frame, samples = read(written("openrlhf"))
    assert table(frame, "step", "group", "reward", "truncated") == [
        (step, "0", reward, truncated) for step in (1, 2) for reward, truncated in ((0.0, 1.0), (1.0, 0.0))
    ]  # fmt: skip
    tool = next(each for each in samples if each.reward == 1.0)
    assert (tool.response, tool.response_tokens) == ("4!", list("4ok!"))
    assert tool.loss_mask is not None
    assert tool.loss_mask.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert list(tool.images) == [{"url": "a/b.png"}]
    # Advantage: 1/√2 at the last token, minus 0.1 × KL (0.5) at each token of the policy from here on.
    np.testing.assert_allclose(tool.advantages[[0, 3]], np.array([-0.1, -0.05]) + 0.5**0.5, atol=1e-6)
    np.testing.assert_allclose(tool.ref_logprobs, np.array([-0.6, -0.5, -0.5, -0.7]), atol=1e-6)
    np.testing.assert_allclose(tool.rollout_logprobs, np.array([-0.11, -0.01, -0.01, -0.21]), atol=1e-6)
