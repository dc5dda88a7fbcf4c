"""The badge of the open run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rlpanel
from rlpanel.panels.sidebar.run_badge import badge_html
from tests.factories import write_run


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
