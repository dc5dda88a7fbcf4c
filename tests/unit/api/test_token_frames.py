"""Tables of tokens: those of one sample, and the ranking of the board's tab."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.number_text import number
from rlpanel.panels.session.context import Context
from rlpanel.panels.tokens.token_ranking import TokenRanking
from tests.factories import append, sample


def opened(folder: Path) -> rlpanel.Run:
    return rlpanel.open_run(folder, follow=False)


def logged(folder: Path, **fields: object) -> rlpanel.Run:
    line = sample(1, tokens=False, **fields)
    append(folder / "rollout_data_rank_0.jsonl", json.dumps(line).encode() + b"\n")
    return opened(folder)


def test_tokens_of_a_sample_have_their_metrics(grpo: rlpanel.Run) -> None:
    uid = grpo.samples(3).uid[5]
    read, found = grpo.sample(uid), grpo.tokens(uid)
    assert found.token.tolist() == read.response_tokens
    assert found.position.tolist() == [*range(len(found))]
    assert read.logprobs is not None
    assert read.ref_logprobs is not None
    log_ratio = read.logprobs - read.ref_logprobs
    np.testing.assert_array_equal(found.log_ratio, log_ratio)
    np.testing.assert_allclose(found.kl_k3, np.exp(-log_ratio) - 1 + log_ratio, atol=1e-12)
    assert (found.attrs["uid"], found.attrs["step"]) == (uid, 3)
    assert found.attrs["scales"]["kl_k3"][0] == 0


def test_arrays_that_are_shorter_end_with_missing_values(tmp_path: Path) -> None:
    run = logged(tmp_path, response_tokens=["a", "b", "c"], logprobs=[-1.0, -2.0])
    found = run.tokens(run.samples().uid[0])
    assert found.token.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.surprisal, [1.0, 2.0, np.nan])


def test_a_sample_without_tokens_has_an_empty_table(tmp_path: Path) -> None:
    run = logged(tmp_path)
    assert run.tokens(run.samples().uid[0]).empty


def test_the_ranking_is_that_of_the_board(grpo: rlpanel.Run) -> None:
    context = Context()
    context.param.update(index=grpo.index, view=grpo.view)
    context.choose_step(17)
    board = TokenRanking(context)
    board.active = True
    ranked = board.table.frame
    found = grpo.tokens(steps=17)
    texts = [f"“{token}”".replace("\n", "↵") if token else "∅ (empty token)" for token in found.token]
    assert texts == ranked.token.tolist()
    assert [f"{count:,}" for count in found["count"]] == ranked["count"].tolist()
    assert [number(mean) for mean in found["mean"]] == ranked["mean"].tolist()
    assert [number(largest) for largest in found["max"]] == ranked["largest"].tolist()
    assert found.attrs["metric"] == "kl_k3"
    first = grpo.tokens(found.uid[0])
    assert first.kl_k3[found.position[0]] == found["max"][0]


def test_steps_are_counted_together(grpo: rlpanel.Run) -> None:
    one, two, both = (grpo.tokens(steps=steps, least=1, most=10**6) for steps in (1, 2, (1, 2)))
    assert both.attrs["tokens"] == one.attrs["tokens"] + two.attrs["tokens"]
    assert both["count"].sum() == one["count"].sum() + two["count"].sum()
    assert (both.attrs["samples"], both.attrs["samples_total"]) == (128, 128)


def test_another_estimator_ranks_by_its_own_mean(grpo: rlpanel.Run) -> None:
    found = grpo.tokens(steps=3, metric="kl_k2", most=1)
    assert found.attrs["metric"] == "kl_k2"
    assert found["mean"][0] > 0


def test_a_metric_that_is_not_logged_is_an_error_that_lists_the_others(grpo: rlpanel.Run) -> None:
    with pytest.raises(SettingError, match="no metric 'value_error'; it has kl_k3, surprisal"):
        grpo.tokens(steps=3, metric="value_error")


@pytest.mark.parametrize("arguments", [{}, {"uid": "a:0", "steps": 3}], ids=["neither", "both"])
def test_a_uid_or_steps_are_needed(grpo: rlpanel.Run, arguments: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="give a uid"):
        grpo.tokens(**arguments)  # type: ignore[arg-type]


def test_a_step_without_tokens_has_an_empty_ranking(tmp_path: Path) -> None:
    assert logged(tmp_path).tokens(steps=1).empty
