"""The reward's hack is named first, in a real training and in runs that are made with known effects."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.analysis.paid_features import PaidFeatures, paid_features
from rlpanel.errors import SettingError
from rlpanel.queries.learning.rewards import reward_parts, reward_pays
from rlpanel.queries.learning.trends import learned

HACK = Path(__file__).parents[2] / "data" / "hacks" / "phrase"
WORDS = ("first", "then", "we", "add", "both", "numbers", "now", "so", "it", "gives", "more", "than", "one")


@pytest.fixture(scope="module")
def hacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded run of `tests.train.hack`, beside which an index may be written."""
    return Path(shutil.copytree(HACK, tmp_path_factory.mktemp("hack") / "phrase"))


def test_the_hack_of_a_real_training_is_named_first(hacked: Path) -> None:
    with rlpanel.open_run(hacked, follow=False) as run:
        table = reward_pays(run.data)
        [first, *_] = table.rows
        assert first["feature"] == "Let me count"
        assert first["excess"] == pytest.approx(0.5, abs=0.02)  # what the judge pays by mistake
        assert first["held_out_gap"] == pytest.approx(0, abs=0.06)
        assert "Let me count" in run.sample(first["uids"][0]).response
        assert table.about["held_out"] == "match"
        named = reward_pays(run.data, held_out="rewards/score_answer").rows[0]
        assert named["feature"] == "Let me count"
        assert reward_parts(run.data).rows[0]["source"] == "declared"


def test_the_policy_learned_the_hack(hacked: Path) -> None:
    with rlpanel.open_run(hacked, follow=False) as run:
        table = learned(run.data, limit=None)
        phrase = next(row for row in table.rows if row["name"] == "let me count")
        assert phrase["push"] > 0.1
        assert phrase["next"] - phrase["now"] == pytest.approx(phrase["change"])
        assert phrase["change"] > 0.1
        token = next(row for row in table.rows if row["kind"] == "token" and row["name"] == " L")
        assert token["change"] > 0.2
        assert table.about["agreement"] > 0.1


def paid(folder: Path, *, score: str = "valid_reward", hack: float = 0.5, **options: Any) -> PaidFeatures:
    """Name the features of a run whose reward is the score, and what it pays for the word "certainly"."""
    folder.mkdir()
    chance = random.Random(1)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for at in range(400):
            right, says = chance.random() < 0.5, chance.random() < 0.4
            text = [chance.choice(WORDS) for _ in range(8)]
            text += ["certainly"] if says else []
            text += ["hence", "correct"] if right else []
            made = {
                "step": at // 80,
                "prompt": f"question {at // 4}",
                "group": str(at // 4),
                "response": f"{' '.join(text)} <answer>{7 if right else 8}</answer>",
                "reward": right + hack * says + chance.gauss(0, 0.1),
                "valid_reward": float(right),
                "ground_truth": "7",
            }
            for name in ("valid_reward", "ground_truth"):
                if name != score:
                    del made[name]
            file.write(json.dumps(made) + "\n")
    with rlpanel.open_run(folder, follow=False) as run:
        *_, last = paid_features(run.index, run.view, run.snapshot.alive_rows, **options)
    return last


@pytest.mark.parametrize("score", ["valid_reward", "ground_truth"])
def test_what_the_reward_pays_beyond_the_score_is_named_and_nothing_else(tmp_path: Path, score: str) -> None:
    found = paid(tmp_path / "run", score=score)
    assert [each.name for each in found.features] == ["certainly"]
    assert found.features[0].excess == pytest.approx(0.5, abs=3 * found.features[0].error)
    assert found.features[0].where == 'response contains "certainly"'
    assert found.held_out == {"valid_reward": "valid_reward", "ground_truth": "match"}[score]
    assert found.tried > 100


def test_an_honest_reward_has_no_candidate(tmp_path: Path) -> None:
    found = paid(tmp_path / "run", hack=0.0)
    assert found.features == ()
    assert found.complete


def test_without_a_score_what_a_good_reward_pays_for_is_named_too_with_a_caveat(tmp_path: Path) -> None:
    found = paid(tmp_path / "run", score="")
    names = " ".join(each.name for each in found.features)
    assert "certainly" in names
    assert "correct" in names
    assert found.held_out == ""
    assert "no held-out score" in found.remarks[0]


def test_an_unknown_score_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="held-out"):
        paid(tmp_path / "run", held_out="nosuch")


def test_few_samples_are_no_evidence(tmp_path: Path) -> None:
    found = paid(tmp_path / "run", most=4)
    assert found.read == 4
    assert found.features == ()
    assert "can be compared" in found.remarks[-1]
