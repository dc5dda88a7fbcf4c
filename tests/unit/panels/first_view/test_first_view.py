"""The first view's HTML."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.panels.first_view.first_view import first_view_html
from rlpanel.panels.session.context import Context, Selection
from tests.factories import append, line, write_run

MARKUP = "<img src=x onerror=alert(1)>"


def html_of(folder: Path, step: int) -> str:
    with rlpanel.open_run(folder, follow=False) as run:
        selection = Selection(step=step, follow=False, run=run.name)
        return first_view_html(Context(index=run.index, view=run.view, selection=selection))


def test_curves_and_samples_of_the_selected_step_are_shown(tmp_path: Path) -> None:
    html = html_of(write_run(tmp_path / "run", steps=3, samples=4), 2)
    assert html.count("<polyline") >= 2
    assert "Step 2" in html
    assert html.count("<tr>") == 1 + 4


def test_texts_of_the_log_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", line(1, prompt=MARKUP, response=f"{MARKUP} again"))
    html = html_of(folder, 1)
    assert "<img" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") == 3


def test_a_prompt_is_its_last_user_turn(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    prompt = f"<pad><|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n{MARKUP}?<|im_end|>\n"
    append(folder / "rollout_data_rank_0.jsonl", line(1, prompt=prompt, response="yes<pad><pad>"))
    html = html_of(folder, 1)
    assert "<tr><td>&lt;img src=x onerror=alert(1)&gt;?</td><td>yes</td>" in html
    assert "kind" not in html


def test_a_reward_that_was_not_logged_is_no_zero(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", line(1, reward=1.5), line(1, reward=None))
    html = html_of(folder, 1)
    assert '<td class="num">1.5</td>' in html
    assert '<td class="num">–</td>' in html


def test_a_folder_without_runs_has_a_header_only() -> None:
    html = first_view_html(Context())
    assert "<header>" in html
    assert "<table" not in html
    assert "<svg" not in html
