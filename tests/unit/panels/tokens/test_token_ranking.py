"""The tokens of a step, read and ranked without a browser."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bokeh.document import Document
from panel.io.state import set_curdoc
from panel.widgets import Button, Select

from rlpanel.api.open_run import open_run
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import Threads
from rlpanel.panels.tokens.token_ranking import READ_NOW, TokenRanking
from rlpanel.panels.ui.region import Html
from rlpanel.store.snapshot.token_scales import token_scales
from tests.factories import append, sample
from tests.page_parts import part_of


def opened(
    folder: Path, *lines: dict[str, Any], pad_token: str = "<|pad|>", threads: Threads | None = None
) -> TokenRanking:
    write(folder, *lines)
    index = open_run(folder, follow=False).index
    context = Context(threads)
    context.display.pad_token = pad_token
    context.param.update(index=index, view=index.view)
    context.choose_step(1)
    view = TokenRanking(context)
    view.active = True
    return view


def write(folder: Path, *lines: dict[str, Any]) -> None:
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))


def grow(view: TokenRanking, *lines: dict[str, Any]) -> None:
    """The run gets more lines, and the view hears of it."""
    index = view.context.index
    assert index is not None
    write(index.path, *lines)
    index.read()
    view.context.view = index.view


def logged(tokens: list[str], logprobs: list[float], **fields: Any) -> dict[str, Any]:
    return sample(1, tokens=False, response_tokens=tokens, logprobs=logprobs, **fields)


def field(view: TokenRanking, label: str) -> Select:
    return part_of(view, Select, label=label)


def table(view: TokenRanking) -> pd.DataFrame:
    return view.table.frame


def note(view: TokenRanking) -> Html:
    return part_of(view, Html)


def shown(view: TokenRanking, least: int = 1) -> dict[str, str]:
    view._least.value = least
    return dict(zip(view.table.frame["token"], view.table.frame["mean"], strict=True))


def test_numbers_have_the_colour_of_the_token_view(tmp_path: Path) -> None:
    """Surprisal is one-sided: 0 is the surface, and the end of the run's scale 86 % of its colour."""
    view = opened(tmp_path, logged(["a", " b"], [0.0, -3.0]), logged(["a"], [0.0], index=1))
    shown(view)
    [low, high] = token_scales(view.context.snapshot)["surprisal"]
    colors = dict(zip(view.table.frame["token"], view.table.frame["mean_color"], strict=True))
    assert low == 0
    assert colors["“a”"] == "color-mix(in oklab, var(--rl-entropy) 0.00%, var(--rl-surface))"
    strength = 86 * min(1.0, 3.0 / high)
    assert colors["“ b”"] == f"color-mix(in oklab, var(--rl-entropy) {strength:.2f}%, var(--rl-surface))"
    rows = json.loads(view.table.rows)
    assert rows["cells"][2][0].split("\t")[1] == "3"


def test_tokens_stand_by_their_mean_surprisal(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a", " b"], [-1.0, -3.0]), logged(["a"], [-2.0], index=1))
    assert shown(view) == {"“ b”": "3", "“a”": "1.5"}
    assert list(field(view, "Measure").options) == ["Highest mean surprisal (nats)"]


def test_pads_and_tokens_outside_the_loss_do_not_count(tmp_path: Path) -> None:
    line = logged(["a", "b", "<|pad|>"], [-1.0, -2.0, -9.0], loss_mask=[1, 0, 1])
    assert shown(opened(tmp_path, line)) == {"“a”": "1"}


@pytest.mark.parametrize("pad_token", ["", "<|pad|>"])
def test_an_empty_piece_is_no_pad(tmp_path: Path, pad_token: str) -> None:
    view = opened(tmp_path, logged(["", "b"], [-1.0, -2.0]), pad_token=pad_token)
    assert "∅ (empty token)" in shown(view)


def test_byte_level_pieces_read_as_text_and_halves_as_logged(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["åĽ", "½", "Ġthe", "Ċ", "åĽ½"], [-1.0] * 5))
    assert set(shown(view)) == {"“åĽ”", "“½”", "“ the”", "“↵”", "“国”"}


def test_tokens_that_are_all_seen_too_rarely_leave_an_empty_table(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a"], [-1.0]))
    assert shown(view, least=1000) == {}
    assert "no token is seen that often" in note(view).html


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
    uid = view.table.frame["uid_at"].iloc[0]
    view.table.receive({"pick": ["0", "token"]})
    selection = view.context.selection
    assert (selection.uid, selection.token, selection.follow, view.picks) == (uid, 0, False, 1)
    assert selection.metric == "surprisal"  # the sample opens in the colours that it was ranked by


def test_samples_that_come_later_are_added_and_none_counts_twice(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a"], [-1.0]))
    grow(view, logged(["a", "b"], [-3.0, -1.5], index=1), {**logged(["z"], [-9.0]), "step": 2})
    assert shown(view) == {"“a”": "2", "“b”": "1.5"}
    assert table(view)["count"].tolist() == ["2", "1"]


def test_only_samples_that_pass_the_grids_filter_count(tmp_path: Path) -> None:
    view = opened(tmp_path, logged(["a"], [-1.0]), logged(["a", "b"], [-3.0, -1.5], index=1))
    second = view.context.snapshot.uids(view.context.snapshot.rows_of(1))[1]
    view.context.filtered_uids = frozenset({second})
    assert shown(view) == {"“a”": "3", "“b”": "1.5"}
    assert "2 tokens in 1 of 2 samples that match the grid" in note(view).html
    view.context.filtered_uids = None
    assert shown(view) == {"“a”": "2", "“b”": "1.5"}


def test_a_reading_tells_how_far_it_is_and_can_be_stopped_there(tmp_path: Path) -> None:
    long = "word " * (READ_NOW // 5)
    lines = [logged(["a"], [-float(n)], index=n, prompt=long if n > 1 else "") for n in range(4)]

    async def look() -> TokenRanking:
        begin, threads = threading.Event(), Threads()
        with ThreadPoolExecutor(1) as threads.views:
            threads.views.submit(begin.wait, 30)  # the reading waits behind it
            view = opened(tmp_path, *lines[:2], threads=threads)
            grow(view, *lines[2:])
            assert "Reading 2 of 4 samples" in note(view).html
            stop = part_of(view, Button)
            assert stop.visible
            stop.clicks += 1
            assert not stop.visible
            begin.set()
        await asyncio.sleep(0)
        return view

    with set_curdoc(Document()):
        view = asyncio.run(look())
    assert shown(view) == {"“a”": "0.5"}
    assert note(view).html.endswith("2 tokens in 2 of 4 samples; stopped</span>")
    grow(view, logged(["a"], [-9.0], index=5))
    assert shown(view) == {"“a”": "0.5"}
