"""A run's lines become a batch, its own loss is found, and what is missing is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.errors import SettingError
from rlpanel.queries.learning.update import update, what_if
from rlpanel.update.read_batch import read_update_batch
from rlpanel.update.run_algorithm import own_loss
from rlpanel.update.update_batch import UpdateBatch

Line = dict[str, Any]


@contextmanager
def opened(folder: Path, lines: list[Line], facts: Line | None = None) -> Iterator[Run]:
    """Open a run of lines."""
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "rollout_data_rank_0.jsonl").write_text(text, "utf-8")
    if facts is not None:
        (folder / "run.json").write_text(json.dumps(facts), "utf-8")
    with rlpanel.open_run(folder, follow=False) as run:
        yield run


def lines(**changes: Any) -> list[Line]:
    """Return two groups of four samples with rewards of 0 and 1, and 3 + i tokens."""
    found = []
    for at in range(8):
        count = 3 + at
        line = {
            "step": 1, "prompt": f"p{at // 4}", "response": "a " * count, "group": f"g{at // 4}",
            "response_tokens": ["a"] * count, "reward": float(at % 3 == 0), "logprobs": [-1.0] * count,
        }  # fmt: skip
        for key, value in changes.items():
            line[key] = value(at, count) if callable(value) else value
        found.append({key: value for key, value in line.items() if value is not ...})
    return found


def grpo(at: int, _: int) -> float:
    members = [float(other % 3 == 0) for other in range(8) if other // 4 == at // 4]
    return float((float(at % 3 == 0) - np.mean(members)) / np.std(members, ddof=1))


def batch_of(run: Run, **options: Any) -> UpdateBatch:
    *_, batch = read_update_batch(run.data.index, run.view, run.snapshot.alive_rows, **options)
    assert isinstance(batch, UpdateBatch)
    return batch


def test_arrays_of_all_samples_are_read_group_by_group(tmp_path: Path) -> None:
    mixed = lines(
        old_logprobs=lambda at, n: [-1.0 - at] * n,
        loss_mask=lambda at, n: [0, *[1] * (n - 1)],
        advantage=grpo,
        truncated=lambda at, n: at == 3,
    )[::-1]
    with opened(tmp_path / "run", mixed) as run:
        batch = batch_of(run)
    assert batch.counts.sum() == sum(3 + at for at in range(8))
    assert np.all(np.diff(batch.group) >= 0)
    assert np.bincount(batch.group).tolist() == [4, 4]
    assert batch.has_ratio
    assert batch.trained.tolist() == (batch.counts - 1).tolist()
    assert batch.old is not None
    firsts = batch.old[batch.starts[:-1]]
    assert firsts.tolist() == (2.0 - batch.counts).tolist()
    assert batch.truncated.sum() == 1
    assert batch.reading.read == batch.reading.total == 8


def test_samples_beyond_the_limit_are_left_out_in_whole_groups(tmp_path: Path) -> None:
    with opened(tmp_path / "run", lines()) as run:
        batch = batch_of(run, most_tokens=30)
    assert batch.reading.read == 4
    assert batch.reading.total == 8
    assert batch.groups == 1


def test_a_run_of_texts_alone_estimates_lengths_and_says_so(tmp_path: Path) -> None:
    plain = lines(response_tokens=..., logprobs=..., response=lambda at, n: "abcd" * n)
    with opened(tmp_path / "run", plain, {"algo": "grpo"}) as run:
        batch = batch_of(run)
        table = run.ask("update")
    assert batch.counts.tolist() == [3 + at for at in range(8)]
    assert batch.reading.lengths_from_text == 8
    assert "4 characters a token" in table.about["remark"]
    assert "loss_mask" in table.about["missing"]
    assert table.rows


def test_arrays_of_another_length_are_left_out_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path / "run", lines(ref_logprobs=lambda at, n: [-1.0] * (n + (at == 0)))) as run:
        batch = batch_of(run)
    assert batch.reading.unequal == 1
    assert batch.reference is not None
    assert np.isnan(batch.reference).sum() == 3


@pytest.mark.parametrize(
    ("facts", "name", "averaging"),
    [
        ({"algo": "grpo"}, "grpo", "seq-mean-token-mean"),
        ({"algo": "grpo", "loss_type": "dapo"}, "grpo", "token-mean"),
        ({"algo": "grpo", "loss_type": "dr_grpo", "max_completion_length": 64}, "dr_grpo", "constant"),
        ({"adv_estimator": "rloo", "loss_agg_mode": "token-mean"}, "rloo", "token-mean"),
        ({"loss_mode": "gspo", "adv_estimator": "grpo"}, "gspo", "seq-mean-token-mean"),
    ],
)
def test_the_own_loss_is_the_one_in_run_json(tmp_path: Path, facts: Line, name: str, averaging: str) -> None:
    with opened(tmp_path / "run", lines(), facts) as run:
        own = own_loss(run.view, batch_of(run))
    assert own.algorithm is not None
    assert (own.algorithm.name, own.algorithm.averaging) == (name, averaging)
    assert "run.json names" in own.found
    assert any("none are logged" in text for text in own.assumed)


def test_without_a_name_the_loss_follows_from_the_advantages(tmp_path: Path) -> None:
    with opened(tmp_path / "run", lines(advantage=grpo)) as run:
        own = own_loss(run.view, batch_of(run))
    assert own.algorithm is not None
    assert (own.algorithm.name, own.algorithm.advantage) == ("grpo", "logged")
    assert "100% of 8 samples fit the formula std of the group, n − 1" in own.found
    assert own.by_formula is not None
    assert own.by_formula.advantage == "group std"
    assert any("averaging" in text for text in own.assumed)


@pytest.mark.parametrize("advantage", [..., lambda at, n: float(at) ** 2 + 3])
def test_a_loss_that_nothing_shows_is_asked_for(tmp_path: Path, advantage: Callable[..., Any] | Any) -> None:
    with opened(tmp_path / "run", lines(advantage=advantage)) as run:
        table = run.ask("update")
        assert table.rows == []
        assert table.about["algorithm"] is None
        assert "Name it as algo in run.json" in table.about["algorithm_found"]
        assert run.ask("update", algorithm="grpo").rows
        with pytest.raises(SettingError, match="The algorithm is not known"):
            run.what_if("own")


def test_other_losses_are_asked_from_python(tmp_path: Path) -> None:
    parts = {"rewards": lambda at, n: {"score": float(at % 3 == 0), "format": float(at % 2)}}
    with opened(tmp_path / "run", lines(advantage=grpo, **parts), {"algo": "grpo"}) as run:
        table = run.what_if("dr_grpo", epsilon=0.1, step=1)
        assert [row["algorithm"] for row in table.rows] == ["grpo", "dr_grpo"]
        assert "ε = 0.1, ε_high = 0.1" in table.rows[1]["formula"]
        changed = run.what_if("dr_grpo", reward_weights={"score": 0.0, "format": 1.0}).rows[1]
        assert changed["correlation"] < 0.9
        assert table.rows[1]["correlation"] == pytest.approx(1, abs=0.1)
        with pytest.raises(SettingError, match=r"write 0\.1\.\.0\.9"):
            run.what_if(groups="x")
        with pytest.raises(SettingError, match=r"write format=0\.5"):
            run.what_if(reward_weights="format")


@pytest.mark.parametrize("reward", [{"quality": {"a": 1}}, "good", None])
def test_a_reward_that_is_no_number_is_a_clear_error(tmp_path: Path, reward: Any) -> None:
    odd = lines(reward=lambda at, n: reward)
    with opened(tmp_path / "run", odd) as run, pytest.raises(SettingError, match="a reward that is a number"):
        run.what_if("grpo", "dr_grpo")


def test_rewards_that_arrive_late_have_no_weight_and_are_counted(tmp_path: Path) -> None:
    late = lines(reward=lambda at, n: None if at in (1, 2) else float(at % 3 == 0))
    with opened(tmp_path / "run", late, {"algo": "grpo"}) as run:
        table = run.ask("update")
        (row,) = [each for each in run.what_if("grpo").rows if not each["own"]]
    assert table.about["without_advantage"] == 2
    assert "2 samples without a finite reward have no weight." in row["approximated"]


def test_turns_of_one_episode_in_several_rows_share_its_reward(tmp_path: Path) -> None:
    turns = [
        {**line, "episode": f"e{at // 2}", "turn": at % 2, "reward": float(at // 2 % 2) if at % 2 else None}
        for at, line in enumerate(lines())
    ]
    with opened(tmp_path / "run", turns, {"algo": "dr_grpo"}) as run:
        batch = batch_of(run)
    assert batch.outcome.sum() == 4
    assert np.isfinite(batch.reward).all()
    assert [batch.reward[batch.episode == each].std() for each in range(4)] == [0.0] * 4


def test_without_the_reference_the_own_gradient_is_without_its_kl_term_and_that_is_said(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "run", lines(advantage=grpo), {"algo": "grpo", "beta": 0.04}) as run:
        found = update(run.data)
        other = what_if(run.data, ["own"], beta=0.1)
    assert found.rows
    assert any("β = 0.04: ref_logprobs" in text for text in found.about["assumed"])
    assert other.rows[-1]["needs"] == "ref_logprobs"
    reference = lines(advantage=grpo, ref_logprobs=lambda _, count: [-1.5] * count)
    with opened(tmp_path / "with", reference, {"algo": "grpo", "beta": 0.04}) as run:
        whole = update(run.data)
    assert not [text for text in whole.about["assumed"] if "KL" in text]
    assert "0.04" in whole.about["formula"]
