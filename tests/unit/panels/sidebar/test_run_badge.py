"""The badge of the open run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rlpanel
from rlpanel.panels.sidebar.run_badge import badge_html
from tests.factories import append, write_run
from tests.unit.store.snapshot.test_remarks import EVALUATED, TRAINED, write_trl


def test_problems_of_other_files_are_listed_with_those_of_the_run(tmp_path: Path) -> None:
    (write_run(tmp_path / "a", steps=1) / "rlpanel.toml").symlink_to("elsewhere")
    snapshot = rlpanel.open_run(tmp_path / "a", follow=False).snapshot
    html = badge_html(snapshot, snapshot.newest_line, "a", others=("2 lines <hold> no valid note",))
    assert "2 problems" in html
    assert re.findall(r"<li>(.*?)</li>", html) == [
        "rlpanel.toml: is a link; it will be read once this is resolved",
        "2 lines &lt;hold&gt; no valid note",
    ]


@pytest.mark.parametrize(
    ("name", "front", "back"),
    [
        ("grpo", "grpo", ""),
        ("a" * 24, "a" * 24, ""),
        ("experiments/grpo-lr1e-6-seed42", "experiments/grpo-l", "r1e-6-seed42"),
        ("<b>" * 10, "&lt;b&gt;" * 6, "&lt;b&gt;" * 4),
    ],
)
def test_a_long_name_keeps_its_end(tmp_path: Path, name: str, front: str, back: str) -> None:
    snapshot = rlpanel.open_run(write_run(tmp_path / "a", steps=1), follow=False).snapshot
    html = badge_html(snapshot, snapshot.newest_line, name)
    assert re.findall(r'class="(?:front|back)">(.*?)</span>', html) == [
        text for text in (front, back) if text
    ]


def test_steps_that_may_hold_an_evaluation_are_counted_and_named(tmp_path: Path) -> None:
    write_trl(tmp_path, EVALUATED)
    snapshot = rlpanel.open_run(tmp_path, follow=False).snapshot
    html = badge_html(snapshot, snapshot.newest_line, "a")
    assert '<details class="rl-remarks"><summary class="pill kl">2 steps may hold evaluation samples' in html
    assert re.findall(r"<li>(.*?):", html) == ["Steps 2, 4 may hold evaluation samples"]


def test_a_run_without_an_evaluation_has_no_remark(tmp_path: Path) -> None:
    write_trl(tmp_path, TRAINED)
    snapshot = rlpanel.open_run(tmp_path, follow=False).snapshot
    assert "rl-remarks" not in badge_html(snapshot, snapshot.newest_line, "a")


def test_guessed_fields_are_shown_with_reasons_and_the_command_that_changes_them(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", b'{"task_id": "<b>", "completion": "a", "passed": true}\n')
    snapshot = rlpanel.open_run(tmp_path, follow=False).snapshot
    html = badge_html(snapshot, snapshot.newest_line, "a", folder="my runs/a")
    assert '<details class="rl-guesses"><summary class="pill kl">fields were guessed</summary>' in html
    assert "Fields were guessed: response ← completion, reward ← passed, group ← task_id" in html
    assert "<li>reward ← passed, 100 % of the records are numbers (named so by human-eval)</li>" in html
    assert "<li>To change it: <code>rlpanel map &#39;my runs/a&#39;</code></li>" in html
    assert "rl-remarks" not in html
