"""Labels of a timeline: English by default, and in the session's language on the board."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from rlpanel.panels.language.labels import CHINESE, using
from rlpanel.panels.timeline.rollout_spans import OTHER, PHASES, RolloutTimes
from rlpanel.panels.timeline.span_table import ENGLISH_LABELS, LAG, PHASE, VERSION, session_labels
from rlpanel.panels.timeline.timeline_plot import picture_of, timeline_of

#: Two rollouts: one waits and generates, one runs a phase that only the log knows, and fails.
TIMES = RolloutTimes(
    rows=np.arange(2),
    uids=["a:0", "a:1"],
    seconds=np.array([3.0, 1.0]),
    start=np.full(2, np.nan),
    rank=np.zeros(2, int),
    lag=np.array([0.0, 5.0]),
    version=np.array([7.0, 8.0]),
    failed=np.array([False, True]),
    status=["ok", "timeout"],
    owner=np.array([0, 0, 1]),
    begin=np.array([0.0, 1.0, 0.0]),
    end=np.array([1.0, 3.0, 1.0]),
    phase=np.array([0, 1, 6]),
    phases=(*PHASES, OTHER, "{seconds} <b>"),
)


def test_english_labels_are_those_of_a_session_in_english() -> None:
    session = session_labels()
    assert {phase: session.phases[phase] for phase in (*PHASES, OTHER)} == {p: p for p in (*PHASES, OTHER)}
    for field in fields(ENGLISH_LABELS):
        if field.name != "phases":
            assert getattr(session, field.name) == getattr(ENGLISH_LABELS, field.name)


@pytest.mark.parametrize(
    ("by", "english", "chinese"),
    [
        (PHASE, ("queue", "generation"), ("排队", "生成")),
        (VERSION, ("version 7", "version 8"), ("版本 7", "版本 8")),
        (LAG, ("lag 0", "lag 1", "lag 2", "lag 3 and more"), ("滞后 0", "滞后 1", "滞后 2", "滞后 3 及以上")),
    ],
)
def test_the_legend_is_in_the_language_of_the_labels(
    by: str, english: tuple[str, ...], chinese: tuple[str, ...]
) -> None:
    assert timeline_of(TIMES, by=by, dark=True).table.names[: len(english)] == english
    with using(CHINESE):
        names = timeline_of(TIMES, by=by, dark=True, labels=session_labels()).table.names
    assert names[: len(chinese)] == chinese
    assert names[-1] == "失败"


def test_tooltips_are_in_the_language_of_the_labels_and_names_of_the_log_stay() -> None:
    with using(CHINESE):
        rectangles = picture_of(timeline_of(TIMES, dark=True, labels=session_labels())).rectangles
    assert rectangles["span"].tolist()[:3] == ["排队 1 s", "生成 2 s", "{seconds} <b> 1 s"]
    assert rectangles["rollout"].tolist()[0] == "共 3 s, 排队 1 s, 生成 2 s, 策略版本 7, 滞后 0"
    assert rectangles["rollout"].tolist()[2].endswith("策略版本 8, 滞后 5, 状态 timeout")
    plain = picture_of(timeline_of(TIMES, dark=True)).rectangles
    assert plain["rollout"].tolist()[0] == "3 s in total, queue 1 s, generation 2 s, policy version 7, lag 0"
