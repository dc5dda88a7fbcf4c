"""The plot of groups: the table of `Run.groups`, in the order and the colours of the board."""

from __future__ import annotations

from pathlib import Path

import holoviews as hv
import numpy as np
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.panels.ui import theme
from tests.drawn import options_of
from tests.factories import append, line, write_run


def test_groups_are_those_of_the_table_sorted_by_mean(grpo: rlpanel.Run) -> None:
    segments, marks = grpo.plot.groups(17)
    table = grpo.groups(17).sort_values("reward_mean", kind="stable")
    np.testing.assert_array_equal(marks["reward_mean"], table.reward_mean)
    np.testing.assert_array_equal(segments["reward_min"], table.reward_min)
    np.testing.assert_array_equal(segments["reward_max"], table.reward_max)
    assert marks["name"].tolist() == table.group.tolist()
    assert options_of(marks)["title"].startswith("couplets-grpo, step 17: 8 groups")


def test_the_newest_step_is_shown_by_default(grpo: rlpanel.Run) -> None:
    assert "step 60" in options_of(grpo.plot.groups().get(1))["title"]


def test_groups_without_signal_have_the_colours_of_the_board(tmp_path: Path) -> None:
    rewards = {"low": 0.0, "high": 1.0}
    lines = [
        line(1, index=at, group=name, reward=reward) for name, reward in rewards.items() for at in range(2)
    ]
    lines += [line(1, index=at, group="mixed", reward=at) for at in range(2)]
    append(tmp_path / "r.jsonl", *lines)
    marks = rlpanel.open_run(tmp_path, follow=False).plot.groups(1, dark=True).get(1)
    colors = dict(zip(marks["name"], marks["color"], strict=True))
    assert colors == {
        "low": theme.DARK["reference"],
        "high": theme.DARK["good"],
        "mixed": theme.DARK["policy"],
    }
    assert "3 groups, 1 all low, 1 all high" in options_of(marks)["title"]


def test_a_name_of_the_log_does_not_end_the_script_of_a_notebook(tmp_path: Path) -> None:
    name = "</script><img src=x onerror=alert(1)>"
    append(tmp_path / "r.jsonl", *(line(1, index=at, group=name) for at in range(4)))
    drawn = rlpanel.open_run(tmp_path, follow=False).plot.groups(1)
    data, _ = hv.renderer("bokeh").components(drawn)
    assert "<img" in data["text/html"]
    assert "</script><img" not in data["text/html"]


def test_a_step_without_groups_is_an_error(tmp_path: Path) -> None:
    run = rlpanel.open_run(write_run(tmp_path, steps=1, samples=1), follow=False)
    with pytest.raises(SettingError, match="no groups with rewards at step 1"):
        run.plot.groups()
