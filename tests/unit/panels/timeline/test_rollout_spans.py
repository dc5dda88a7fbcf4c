"""Times of rollouts: from the columns, and from spans in the lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rlpanel import Run, open_run
from rlpanel.panels.timeline.rollout_spans import has_times, read_spans, times_of
from tests.factories import sample


@contextmanager
def run_of(folder: Path, *timings: Any, **fields: Any) -> Iterator[Run]:
    lines = [
        sample(1, index=index, **({} if timing is None else {"timing": timing}), **fields)
        for index, timing in enumerate(timings)
    ]
    folder.joinpath("rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open_run(folder, follow=False) as run:
        yield run


def segments(times: Any, rollout: int) -> list[tuple[str, float, float]]:
    of = np.flatnonzero(times.owner == rollout)
    order = of[np.argsort(times.begin[of], kind="stable")]
    names = [times.phases[phase] for phase in times.phase[order].tolist()]
    return list(zip(names, times.begin[order].tolist(), times.end[order].tolist(), strict=True))


def test_phases_follow_one_another_and_the_rest_has_no_phase(tmp_path: Path) -> None:
    with run_of(tmp_path, {"generation": 2.0, "tool": 1.0, "total": 4.0}) as run:
        times = times_of(run.view, 1)
    assert segments(times, 0) == [("generation", 0.0, 2.0), ("tool", 2.0, 3.0), ("other", 3.0, 4.0)]
    assert times.exact == 0


def test_rollouts_without_times_are_left_out(tmp_path: Path) -> None:
    with run_of(tmp_path, None, {"generation": 2.0}, None) as run:
        times = times_of(run.view, 1)
        assert has_times(run.snapshot)
        assert run.snapshot.uids(times.rows) == times.uids == [run.samples().uid.iloc[1]]
    assert times.seconds.tolist() == [2.0]


def test_a_run_without_times(tmp_path: Path) -> None:
    with run_of(tmp_path, None, None) as run:
        assert not has_times(run.snapshot)


def test_logged_spans_take_the_place_of_the_sums(tmp_path: Path) -> None:
    spans = [["generation", 0.0, 1.0], ["tool", 1.0, 1.5], ["generation", 1.5, 3.0], ["sandbox", 3.0, 3.5]]
    with run_of(tmp_path, {"spans": spans}, {"generation": 2.0}) as run:
        before = times_of(run.view, 1)
        *_, times = read_spans(run.index, run.snapshot, before)
    assert segments(times, 0) == [(name, start, end) for name, start, end in spans]
    assert segments(times, 1) == [("generation", 0.0, 2.0)]
    assert times.exact == 1
    assert before.seconds.tolist() == [3.5, 2.0]


def test_nothing_is_shown_again_if_no_line_has_spans(tmp_path: Path) -> None:
    with run_of(tmp_path, {"generation": 2.0}) as run:
        assert list(read_spans(run.index, run.snapshot, times_of(run.view, 1))) == []


def test_a_status_that_is_not_ok_is_a_failure(tmp_path: Path) -> None:
    with run_of(tmp_path, {"generation": 2.0}, status="timeout", split="train") as run:
        times = times_of(run.view, 1)
    assert times.failed.tolist() == [True]
    assert times.status == ["timeout"]
