"""A line whose samples no columns can be computed of is a bad line; the lines around it are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rlpanel.metrics.engine import column_info
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, rewrite
from tests.limits import store_limits

#: The metrics below fail on it.
UNLUCKY = -7.0


@pytest.fixture(params=["token", "sample"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Registers a metric that fails on one value, of tokens or of samples."""

    def token_metric(logprobs: np.ndarray) -> np.ndarray:
        if (logprobs == UNLUCKY).any():
            raise IndexError("unlucky")
        return logprobs

    def sample_metric(reward: np.ndarray) -> np.ndarray:
        if (reward == UNLUCKY).any():
            raise IndexError("unlucky")
        return reward

    if request.param == "token":
        column_info.metric("fragile", level="token", reductions=("sum",), name="fragile")(token_metric)
    else:
        column_info.metric("fragile", level="sample", name="fragile")(sample_metric)
    yield request.param
    column_info.unregister("fragile")


def lines_of(level: str, count: int, bad: int, *, alike: bool) -> list[bytes]:
    """Return lines of which one is bad; ``alike`` if all have the same keys, so that a plan reads them."""
    found = []
    for number in range(count):
        value = UNLUCKY if number == bad else -1.0
        fields = {"logprobs": [value, value]} if level == "token" else {"reward": value}
        found.append(line(1, prompt="p", response="r", **fields, **({} if alike else {f"x{number % 3}": 1})))
    return found


def look(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


@pytest.mark.parametrize("alike", [True, False], ids=["a plan", "records"])
def test_a_line_that_a_metric_fails_on_is_bad(tmp_path: Path, level: str, alike: bool) -> None:
    append(tmp_path / "x.jsonl", *lines_of(level, 50, 30, alike=alike))
    found = look(RunIndex(tmp_path, "run", Reading(jobs=0)))
    assert (found.samples, found.bad_count) == (49, 1)
    bad = found.bad_lines[0]
    assert (bad.file, bad.line) == ("x.jsonl", 31)
    assert bad.reason == "no columns can be computed of it: IndexError: unlucky"
    assert np.isfinite(found.number("fragile_sum" if level == "token" else "fragile")).all()


def test_such_a_line_of_a_replaced_file_is_forgotten(tmp_path: Path, level: str) -> None:
    index = RunIndex(tmp_path, "run", Reading(jobs=0))
    append(tmp_path / "x.jsonl", *lines_of(level, 5, 2, alike=True))
    assert look(index).bad_count == 1
    rewrite(tmp_path / "x.jsonl", *lines_of(level, 3, -1, alike=True))
    found = look(index)
    assert (found.samples, found.bad_count, found.bad_lines) == (3, 0, ())


def test_such_a_line_in_a_backlog_is_counted(tmp_path: Path, level: str) -> None:
    append(tmp_path / "x.jsonl", *lines_of(level, 1000, 30, alike=True))
    found = look(
        RunIndex(tmp_path, "run", Reading(jobs=0, backlog_bytes=1), limits=store_limits(range_bytes=4096))
    )
    assert (found.samples, found.bad_count) == (999, 1)
