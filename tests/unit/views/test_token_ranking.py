"""The tokens of a step, read and ranked without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel.store.run import open_run
from rlpanel.views.context import Context
from rlpanel.views.token_ranking import TokenRanking
from tests.factories import append, sample


def opened(folder: Path, *lines: dict[str, Any], pad_token: str = "<|pad|>") -> TokenRanking:
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    index = open_run(folder, follow=False)._index
    context = Context()
    context.display.pad_token = pad_token
    context.param.update(index=index, snapshot=index.snapshot)
    context.choose_step(1)
    view = TokenRanking(context)
    view.active = True
    return view


def logged(tokens: list[str], logprobs: list[float], **fields: Any) -> dict[str, Any]:
    return sample(1, tokens=False, response_tokens=tokens, logprobs=logprobs, **fields)


def shown(view: TokenRanking, least: int = 1) -> dict[str, str]:
    view._least.value = least
    return dict(zip(view._table.value["token"], view._table.value["mean"], strict=True))


def test_tokens_stand_by_their_mean_surprisal(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a", " b"], [-1.0, -3.0]), logged(["a"], [-2.0], index=1))
    assert shown(view) == {"“ b”": "3", "“a”": "1.50"}
    assert list(view._measure.options) == ["highest mean surprisal (nats)"]


def test_pads_and_tokens_outside_the_loss_do_not_count(tmp_path: Path) -> None:
    line = logged(["a", "b", "<|pad|>"], [-1.0, -2.0, -9.0], loss_mask=[1, 0, 1])
    assert shown(opened(tmp_path, line)) == {"“a”": "1"}


@pytest.mark.parametrize("pad_token", ["", "<|pad|>"])
def test_an_empty_piece_is_no_pad(tmp_path: Path, pad_token: str) -> None:
    view = opened(tmp_path, logged(["", "b"], [-1.0, -2.0]), pad_token=pad_token)
    assert "∅ (empty piece)" in shown(view)


def test_byte_level_pieces_read_as_text_and_halves_as_logged(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["åĽ", "½", "Ġthe", "Ċ", "åĽ½"], [-1.0] * 5))
    assert set(shown(view)) == {"“åĽ”", "“½”", "“ the”", "“↵”", "“国”"}


def test_tokens_that_are_all_seen_too_rarely_leave_an_empty_table(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a"], [-1.0]))
    assert shown(view, least=1000) == {}
    assert "none is seen that often" in view._note.object


def test_another_step_is_read_when_it_is_chosen(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a"], [-1.0]), {**logged(["z"], [-2.0]), "step": 2})
    view.context.choose_step(2)
    assert shown(view) == {"“z”": "2"}


def test_nothing_is_read_before_the_tab_is_in_sight(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a"], [-1.0]), {**logged(["z"], [-2.0]), "step": 2})
    view.active = False
    view.context.choose_step(2)
    assert shown(view) == {"“a”": "1"}


def test_a_click_selects_sample_and_token_at_once(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a", "b"], [-1.0, -2.0]), logged(["b"], [-5.0], index=1))
    assert list(shown(view)) == ["“b”", "“a”"]
    uid = view._table.value["uid"].iloc[0]
    view._picked.value = f"{uid}\n#0\n1"
    selection = view.context.selection
    assert (selection.uid, selection.token, selection.follow, view.picks) == (uid, 0, False, 1)
