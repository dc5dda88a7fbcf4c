"""Tokens that a correction takes away, and the trainer's own correction, against loops in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.drift.corrections import corrected, logged_correction
from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens
from rlpanel.drift.taken_away import taken_away
from rlpanel.errors import SettingError
from rlpanel.queries.drift import corrections
from rlpanel.queries.drift import taken_away as taken_away_question
from tests.unit.drift import bigrams

Line = dict[str, Any]


def masked_run(folder: Path, low: float = 0.5, high: float = 5.0) -> Path:
    """Write a run whose trainer masked by IcePop, with rewards of 0 and 1."""
    bigrams.write(folder, bigrams.sharpened(0.6))
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for number, line in enumerate(lines):
            ratio = np.exp(np.array(line["logprobs"]) - np.array(line["rollout_logprobs"]))
            line["is_filter_drop"] = [int(not low <= each <= high) for each in ratio.tolist()]
            line["reward"] = float(number % 2)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def tokens_of(folder: Path) -> GapTokens:
    with rlpanel.open_run(folder, follow=False) as run:
        *_, tokens = read_gap_tokens(run.index, run.snapshot, chosen_rows(run.snapshot))
    assert isinstance(tokens, GapTokens)
    return tokens


def test_the_logged_mask_is_that_of_the_correction_that_wrote_it(tmp_path: Path) -> None:
    tokens = tokens_of(masked_run(tmp_path / "run"))
    logged = logged_correction(tokens)
    assert logged is not None
    same, other = corrected(tokens, "icepop"), corrected(tokens, "icepop", high=2.0)
    assert logged.weight.tolist() == same.weight.tolist()
    assert same.agreement(logged) == 1
    masked, further = logged.weight == 0, other.weight == 0
    assert other.agreement(logged) == pytest.approx(masked.sum() / (masked | further).sum())
    assert logged.effective == pytest.approx(same.effective)


def test_without_a_logged_mask_there_is_no_logged_correction(tmp_path: Path) -> None:
    folder = bigrams.write(tmp_path / "run", bigrams.rounding())
    tokens = tokens_of(folder)
    assert logged_correction(tokens) is None
    assert np.isnan(corrected(tokens, "icepop").agreement(None))
    with rlpanel.open_run(folder, follow=False) as run, pytest.raises(SettingError, match="log is_masked"):
        taken_away_question(run.data, name="logged")


def test_logged_weights_are_taken_as_they_are(tmp_path: Path) -> None:
    folder = bigrams.write(tmp_path / "run", bigrams.sharpened(0.6))
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for line in lines:
            ratio = np.exp(np.array(line["logprobs"]) - np.array(line["rollout_logprobs"]))
            line["tis_weights"] = np.minimum(ratio, 1.5).tolist()
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    tokens = tokens_of(folder)
    logged, expected = logged_correction(tokens), corrected(tokens, "tis", high=1.5)
    assert logged is not None
    np.testing.assert_allclose(logged.weight, expected.weight)
    ratio = np.exp(tokens.gap)
    assert logged.changed.tolist() == (ratio - np.minimum(ratio, 1.5) > 0.02 * np.maximum(ratio, 1)).tolist()


def test_parts_of_what_is_taken_away_are_counted_by_loops(tmp_path: Path) -> None:
    tokens = tokens_of(masked_run(tmp_path / "run"))
    result = logged_correction(tokens)
    assert result is not None
    found = taken_away(tokens, result)
    by_token, by_reward, texts = Counter[str](), Counter[str](), Counter[str]()
    run: list[str] = []
    before = (-1, -1)
    for at in range(len(tokens.trainer)):
        here = int(tokens.sample[at]), int(tokens.position[at])
        if not result.changed[at] or here != (before[0], before[1] + 1):
            if len(run) > 1:
                texts["".join(run)] += len(run)
            run = []
        if result.changed[at]:
            name = tokens.tokens[tokens.token[at]]
            by_token[name] += 1
            by_reward[f"{tokens.rewards[here[0]]:g}"] += 1
            run.append(name)
            before = here
    if len(run) > 1:
        texts["".join(run)] += len(run)
    parts = {name: [each for each in found if each.dimension == name] for name in ("token", "reward", "text")}
    assert {each.value: each.changed for each in parts["reward"]} == dict(by_reward)
    assert [each.changed for each in parts["token"]] == [count for _, count in by_token.most_common(12)]
    assert sum(each.share for each in parts["reward"]) == pytest.approx(1)
    assert texts
    assert {each.changed for each in parts["text"]} <= set(texts.values())
    assert all(texts[each.value] == each.changed for each in parts["text"])
    assert all(each.part == pytest.approx(each.changed / each.tokens) for each in found)


def test_questions_put_what_was_logged_first(tmp_path: Path) -> None:
    with rlpanel.open_run(masked_run(tmp_path / "run"), follow=False) as run:
        frame = corrections(run.data).frame()
        taken = taken_away_question(run.data)
    assert frame["correction"][0] == "logged"
    assert frame.set_index("correction")["agrees"]["icepop"] == 1
    assert taken.about["correction"] == "logged"
    assert taken.about["changed"] == frame["changed"][0]
    assert taken.about["advice"] == ""


def test_questions_say_what_to_log(tmp_path: Path) -> None:
    folder = bigrams.write(tmp_path / "run", bigrams.rounding())
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for line in lines:
            del line["rollout_logprobs"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with rlpanel.open_run(folder, follow=False) as run:
        for table in (corrections(run.data), taken_away_question(run.data)):
            assert not table.rows
            assert table.about["advice"] == "Log logprobs and rollout_logprobs of the same tokens."


def test_samples_outside_the_loss_are_in_no_share(tmp_path: Path) -> None:
    """A correction that changes each trained token changes all samples, and leaves no others."""
    folder = masked_run(tmp_path / "run")
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for line in lines[::4]:
            line["loss_mask"] = [0] * len(line["logprobs"])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with rlpanel.open_run(folder, follow=False) as run:
        row = corrections(run.data, name="tis", low=1e3, high=1e4).rows[0]
    assert (row["changed"], row["samples_changed"], row["reward_others"]) == (1, 1, None)
