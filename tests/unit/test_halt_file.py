"""The file that asks a training to stop: who reads it, what it may hold, and what it costs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.halt_file import HALT, Halt, HaltOn, parse_halt_on, read_halt, remove_halt, write_halt


def test_without_the_file_a_training_goes_on(tmp_path: Path) -> None:
    assert rlpanel.should_halt(tmp_path) == ""
    assert rlpanel.should_halt(tmp_path / "missing") == ""
    assert rlpanel.should_halt("\0") == ""


def test_the_reason_is_one_line_of_printable_characters(tmp_path: Path) -> None:
    halt = Halt("From step 3 on, \x1b[31mred\n<script>", "alarm", "loops", onset=3, step=5, time=1.0)
    write_halt(tmp_path, halt)
    assert read_halt(tmp_path) == halt
    assert rlpanel.should_halt(tmp_path) == "alarm loops: From step 3 on,  [31mred <script>"
    assert len(Halt("x" * 5000).reason) < 1100


def test_a_file_of_an_earlier_training_does_not_count(tmp_path: Path) -> None:
    write_halt(tmp_path, Halt("It fell."))
    now = time.time()
    os.utime(tmp_path / HALT, (now - 60, now - 60))
    assert rlpanel.should_halt(tmp_path, since=now) == ""
    assert rlpanel.should_halt(tmp_path, since=now - 120) == "alarm: It fell."
    assert remove_halt(tmp_path)
    assert not remove_halt(tmp_path)


@pytest.mark.parametrize("content", ["", "stop", "[]", "{}", '{"sentence": 3}', "[" * 100_000])
def test_a_file_that_somebody_else_wrote_counts_too(content: str, tmp_path: Path) -> None:
    (tmp_path / HALT).write_text(content)
    assert rlpanel.should_halt(tmp_path) == "the file HALT asks for it"


def test_values_of_a_wrong_type_are_not_taken_over(tmp_path: Path) -> None:
    values = {"sentence": "a", "severity": "alarm", "rule": "b", "onset": None, "step": 1, "time": 0.0}
    (tmp_path / HALT).write_text(json.dumps(values))
    assert read_halt(tmp_path) is not None
    for name, wrong in (("sentence", 3), ("severity", "info"), ("onset", "x"), ("step", None)):
        (tmp_path / HALT).write_text(json.dumps(values | {name: wrong}))
        assert read_halt(tmp_path) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("", None),
        (False, None),
        ("alarm", HaltOn("alarm")),
        ("warning", HaltOn("warning")),
        (["b", "a"], HaltOn("alarm", ("a", "b"))),
        ({"rules": ["a"], "severity": "warning"}, HaltOn("warning", ("a",))),
        ({"rules": "a"}, HaltOn("alarm", ("a",))),
    ],
)
def test_what_stops_a_training_has_a_short_form(given: Any, expected: HaltOn | None) -> None:
    assert parse_halt_on(given) == expected


@pytest.mark.parametrize("given", ["info", 3, True, {"rule": "a"}, {"severity": "info"}, [3], [""]])
def test_a_wrong_value_is_refused(given: Any) -> None:
    with pytest.raises(SettingError, match="halt_on="):
        parse_halt_on(given)


def test_a_run_with_the_file_is_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "rollout_data_rank_0.jsonl").write_text('{"prompt": "a", "response": "b", "step": 1}\n')
    write_halt(tmp_path, Halt("It fell."))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.snapshot.samples == 1
        assert not run.snapshot.problems
        assert not run.snapshot.unread
