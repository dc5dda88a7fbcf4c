"""The prompts that two runs share, compared with pandas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from xxhash import xxh3_64_intdigest

import rlpanel
from rlpanel.board_url import BEST, FIRST, NEWEST
from rlpanel.store.snapshot.alignment import ComparedReward
from rlpanel.store.snapshot.prompt_pairs import (
    Keys,
    RunSide,
    choosing_half,
    exact_keys,
    pair_prompts,
    run_side,
    text_keys,
    without_template,
)
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append

#: Prompt, step, reward.
HERE = [
    ("a", 1, 0.0),
    ("b", 1, 1.0),
    ("a", 2, 1.0),
    ("a", 2, 0.5),
    ("c", 2, -1.0),
    ("a", 2, 0.75),
    ("x", 3, -2),
]
THERE = [("a", 0, 0.25), ("c", 0, -1.0), ("b", 0, 2.0), ("y", 0, 0.0)]


def write(folder: Path, rows: list[tuple[str, int, float | None]]) -> Snapshot:
    folder.mkdir()
    lines = [
        json.dumps({"step": step, "prompt": prompt, "response": str(at), "reward": reward}).encode() + b"\n"
        for at, (prompt, step, reward) in enumerate(rows)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    return rlpanel.open_run(folder, follow=False).snapshot


@pytest.fixture
def here(tmp_path: Path) -> Snapshot:
    return write(tmp_path / "here", HERE)


@pytest.fixture
def there(tmp_path: Path) -> Snapshot:
    return write(tmp_path / "there", THERE)


def side_of(snapshot: Snapshot, at: str, keys: Keys = exact_keys) -> RunSide:
    return run_side(snapshot, at, ComparedReward().values(snapshot), keys)


def shown(found: RunSide) -> list[tuple[int, int, float]]:
    return sorted(zip(found.step.tolist(), found.samples.tolist(), found.reward.tolist(), strict=True))


def test_each_prompt_stands_at_the_newest_step_that_asked_it(here: Snapshot) -> None:
    frame = pd.DataFrame(HERE, columns=["prompt", "step", "reward"])
    newest = frame[frame.step == frame.groupby("prompt").step.transform("max")]
    groups = newest.groupby("prompt")
    wanted = zip(groups.step.first(), groups.size(), groups.reward.mean(), strict=True)
    assert shown(side_of(here, NEWEST)) == sorted(wanted)


def test_a_given_step(here: Snapshot) -> None:
    found = side_of(here, "1")
    assert shown(found) == [(1, 1, 0.0), (1, 1, 1.0)]
    assert not found.chose.any()
    assert shown(side_of(here, "7")) == []


def test_the_first_step_of_each_prompt_and_all_samples_of_a_range_of_steps(here: Snapshot) -> None:
    frame = pd.DataFrame(HERE, columns=["prompt", "step", "reward"])
    first = frame[frame.step == frame.groupby("prompt").step.transform("min")]
    window = frame[frame.step.between(2, 3)]
    for at, chosen in ((FIRST, first), ("2..3", window), ("1..3", frame)):
        wanted = chosen.groupby("prompt").reward.agg(["mean", "size"])
        side = side_of(here, at)
        prompts = [HERE[row][0] for row in side.row.tolist()]
        assert dict(zip(prompts, side.reward.tolist(), strict=True)) == pytest.approx(
            wanted["mean"].to_dict()
        )
        assert dict(zip(prompts, side.samples.tolist(), strict=True)) == wanted["size"].to_dict()
        assert side.step.tolist() == [HERE[row][1] for row in side.row.tolist()]


def test_the_best_step_is_that_of_the_choosing_half(tmp_path: Path) -> None:
    """Of 16 prompts, those that choose are best at step 2, the others and all together at step 3."""
    prompts = [f"prompt {at}" for at in range(16)]
    chooses = {text: bool(xxh3_64_intdigest(text.encode()) & 1) for text in prompts}
    assert 3 < sum(chooses.values()) < 13
    best = {True: 2, False: 3}
    rows = [
        (text, step, 1.0 + 10 * (step == 3 and not chooses[text]) if step == best[chooses[text]] else 0.0)
        for step in (1, 2, 3)
        for text in prompts
    ]
    found = side_of(write(tmp_path / "run", rows), BEST)
    assert set(found.step.tolist()) == {2}
    assert len(found) == 16
    assert found.chose.tolist() == choosing_half(found.keys).tolist()
    assert (found.reward[found.chose] == 1.0).all()


def test_only_prompts_that_chose_no_step_are_held_out(tmp_path: Path) -> None:
    rows = [(f"prompt {at}", 1, float(at)) for at in range(16)]
    here, there = write(tmp_path / "here", rows), write(tmp_path / "there", rows[4:])
    pairs = pair_prompts(side_of(here, BEST), side_of(there, NEWEST))
    assert pairs.held_out.tolist() == (~choosing_half(pairs.here.keys)).tolist()
    assert (pairs.chose_here, pairs.chose_there) == (int(side_of(here, BEST).chose.sum()), 0)
    assert pair_prompts(side_of(here, NEWEST), side_of(there, "1")).held_out.all()
    both = pair_prompts(side_of(here, BEST), side_of(there, BEST))
    assert both.held_out.tolist() == pairs.held_out.tolist()


def test_pairs_are_means_of_the_same_prompt_and_the_others_are_counted(
    here: Snapshot, there: Snapshot
) -> None:
    """a: 0.75 − 0.25, b: 1 − 2, c: −1 − −1; x and y are alone."""
    found = pair_prompts(side_of(here, NEWEST), side_of(there, NEWEST))
    assert sorted(found.difference.tolist()) == [-1.0, 0.0, 0.5]
    assert (found.only_here, found.only_there) == (1, 1)
    assert [here.metadata("prompt_hash")[row] for row in found.here.row] == [
        there.metadata("prompt_hash")[row] for row in found.there.row
    ]


def test_the_sample_that_is_shown_is_the_nearest_to_the_mean(here: Snapshot) -> None:
    """Rewards 1, 0.5 and 0.75 of prompt a at step 2."""
    found = side_of(here, "2")
    assert sorted(here.number("reward")[found.row].tolist()) == [-1.0, 0.75]
    assert sorted(found.row_reward.tolist()) == [-1.0, 0.75]


def test_a_sample_without_a_reward_or_a_prompt_is_left_out(tmp_path: Path) -> None:
    found = side_of(write(tmp_path / "run", [("a", 1, None), ("a", 1, 2.0), ("", 1, 5.0)]), NEWEST)
    assert shown(found) == [(1, 1, 2.0)]


def test_a_run_without_rewards_has_no_side(tmp_path: Path) -> None:
    snapshot = write(tmp_path / "run", [("a", 1, None)])
    assert len(side_of(snapshot, NEWEST)) == len(side_of(snapshot, BEST)) == 0


@pytest.mark.parametrize(
    "text",
    [
        "say  hi",
        "<|user|>say hi<|assistant|>",
        "<|pad|><|pad|>say hi\n",
        "<|im_start|>user\nsay hi<|im_end|>\n<|im_start|>assistant\n",
        "<|start_header_id|>user<|end_header_id|>\n\nsay hi<|eot_id|>",
        "<s>[INST] say hi [/INST]",
    ],
)
def test_what_stands_around_a_prompt_does_not_count(text: str) -> None:
    assert without_template(text) == "say hi"


def test_words_of_the_prompt_do_count() -> None:
    assert without_template("user: is <|x a <b> ok?") == "user: is <|x a <b> ok?"


def test_prompts_in_other_templates_are_matched(tmp_path: Path) -> None:
    here = write(
        tmp_path / "here", [("<|user|>a<|assistant|>", 1, 1.0), ("<|pad|><|user|>a<|assistant|>", 1, 0.0)]
    )
    there = write(tmp_path / "there", [("a", 1, 0.25), ("b", 1, 0.0)])
    assert len(pair_prompts(side_of(here, NEWEST), side_of(there, NEWEST))) == 0
    texts = {"<|user|>a<|assistant|>", "<|pad|><|user|>a<|assistant|>", "a"}
    hashes = np.concatenate([here.metadata("prompt_hash"), there.metadata("prompt_hash")]).tolist()
    names = ["<|user|>a<|assistant|>", "<|pad|><|user|>a<|assistant|>", "a", "b"]
    keys = text_keys({one: name for one, name in zip(hashes, names, strict=True) if name in texts})
    found = pair_prompts(side_of(here, NEWEST, keys), side_of(there, NEWEST, keys))
    assert found.difference.tolist() == [0.25]
    assert (found.here.samples.tolist(), found.only_here, found.only_there) == ([2], 0, 1)
