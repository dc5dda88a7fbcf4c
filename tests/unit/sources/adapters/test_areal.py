"""AReaL's trajectories: the step is the folder's version, also if a response has an older one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from tests.factories import append


def trajectory(sample: int, head: int, tail: int, reward: float, **fields: Any) -> dict[str, Any]:
    return {
        "task_id": 7,
        "sample_idx": sample,
        "seqlen": 9,
        "prompt_len": 4,
        "head_version": head,
        "tail_version": tail,
        "version_rle": [[head, 2], [tail, 3]],
        "reward": reward,
        "prompt": "2 + 2?",
        "completion": f"answer {sample}",
    } | fields


def put(path: Path, *documents: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, *(json.dumps(document).encode() + b"\n" for document in documents))


def test_a_group_that_several_versions_sampled_stays_in_one_step(tmp_path: Path) -> None:
    put(tmp_path / "5" / "7.jsonl", trajectory(0, 3, 5, 1.0), trajectory(1, 3, 4, 0.0))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples()
    columns = ["step", "group", "tail_version", "head_version"]
    assert frame[columns].values.tolist() == [[5, "7", 5.0, 3.0], [5, "7", 4.0, 3.0]]
    np.testing.assert_allclose(frame["grpo_advantage"], [1.0, -1.0], atol=0.5)


def test_segments_and_versions_of_the_tokens_are_kept_with_the_sample(tmp_path: Path) -> None:
    segments = [
        {"role": "prompt", "len": 4, "text": "2 + 2?"},
        {"role": "gen", "len": 2, "text": "add(2, 2)"},
        {"role": "context", "len": 1, "text": "4"},
        {"role": "gen", "len": 2, "text": "It is 4."},
    ]
    put(tmp_path / "5" / "7.jsonl", trajectory(0, 3, 5, 1.0, segments=segments))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert sample.extra["segments"] == segments
    assert sample.policy_versions == ((3, 2), (5, 3))
    roles = [message["role"] for message in sample.messages]
    assert roles == ["user", "assistant", "environment", "assistant"]
    assert (sample.prompt_messages, sample.columns["turns"], sample.columns["context_tokens"]) == (
        1,
        2.0,
        1.0,
    )
    assert (sample.columns["policy_version_min"], sample.columns["policy_version_max"]) == (3.0, 5.0)
    assert sample.loss_mask is not None
    assert sample.loss_mask.tolist() == [1.0, 1.0, 0.0, 1.0, 1.0]
    # The fixture counts one token more than the segments have: without equal sums there are no versions.
    assert "token_version" not in sample.token_arrays


def test_versions_of_tokens_skip_the_environment(tmp_path: Path) -> None:
    """AReaL counts the versions of the tokens in the loss only."""
    segments = [
        {"role": "prompt", "len": 4, "text": "2 + 2?"},
        {"role": "gen", "len": 2, "text": "add(2, 2)"},
        {"role": "context", "len": 1, "text": "4"},
        {"role": "gen", "len": 2, "text": "It is 4."},
    ]
    versions = {"version_rle": [[3, 2], [5, 2]]}
    put(
        tmp_path / "5" / "7.jsonl",
        trajectory(0, 3, 5, 1.0, segments=segments, **versions),
        trajectory(1, 3, 5, 1.0, segments=[*segments, {"role": "gen", "len": 1, "text": "!"}], **versions),
        trajectory(2, 3, 5, 1.0, segments=[{"role": "gen", "len": "2", "text": ""}], **versions),
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples()
        first, *others = (run.sample(uid) for uid in frame["uid"])
    assert first.token_arrays["token_version"].tolist() == [3, 3, 5, 5, 5]
    assert (first.columns["response_tokens"], first.columns["trajectory_tokens"]) == (4.0, 5.0)
    assert frame["token_mean.token_version"].tolist()[0] == 4.0
    assert [other.loss_mask for other in others] == [None, None]


def test_without_a_folder_of_a_version_the_step_is_the_samples_own_version(tmp_path: Path) -> None:
    put(tmp_path / "7.jsonl", trajectory(0, 3, 5, 1.0), trajectory(1, 3, 4, 0.0))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["step"].tolist() == [5, 4]


@pytest.mark.parametrize(
    ("folder", "bad", "reason"),
    [
        (".", {"task_id": 7, "prompt": "p"}, "no 'tail_version', and no folder that is named after"),
        ("5", {"task_id": 7, "tail_version": 5}, "neither 'prompt' nor 'completion'"),
    ],
)
def test_a_bad_line_of_areal_hides_no_good_one(
    tmp_path: Path, folder: str, bad: dict[str, Any], reason: str
) -> None:
    put(tmp_path / folder / "7.jsonl", trajectory(0, 3, 5, 1.0), bad, trajectory(1, 3, 5, 1.0))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["line"].tolist() == [2]
        assert run.errors["reason"][0].startswith(reason)
        assert run.stats().rows == 2
