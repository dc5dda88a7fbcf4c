"""Means by place and step: clustered errors against plain loops, and reuse of unchanged steps."""

from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.findings.engine.places import GROUPS, MEAN, SAMPLES, VARIANCE, PlaceSeries
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import SIGNALS, column_signal
from rlpanel.findings.rules import responses  # noqa: F401
from rlpanel.settings import FindingSettings
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append, line, write_run


def labelled(folder: Path, steps: int = 6) -> Path:
    write_run(folder, steps=0)
    for rank in (0, 1):
        lines = [
            line(
                step, rank=rank, index=index, lang="zh" if index % 3 else "en", drop=["reward"] * (index == 5)
            )
            for step in range(1, steps + 1)
            for index in range(16)
        ]
        append(folder / f"rollout_data_rank_{rank}.jsonl", *lines)
    return folder


def view_of(index: RunIndex) -> RunView:
    index.rescan()
    while index.read():
        pass
    return RunView(index.snapshot)


def context_of(view: RunView, previous: PlaceSeries | None = None) -> RuleContext:
    return RuleContext(view, FindingSettings(), time.time() + 3600, previous)


def test_the_error_is_clustered_by_group(tmp_path: Path) -> None:
    with open_run(labelled(tmp_path / "run"), follow=False) as run:
        context = context_of(run.view)
        frame = run.samples()
    table = context.table(column_signal("reward"))
    places = context.place_series.places
    assert {place.text for place in places} == {"", "rank 0", "rank 1", "lang = zh", "lang = en"}
    for place, (dimension, value) in enumerate((each.dimension, each.value) for each in places):
        for position, step in enumerate(context.steps.tolist()):
            part = frame[(frame["step"] == step) & frame["reward"].notna()]
            if dimension:
                part = part[part[dimension].astype(str) == value]
            sums = [(group["reward"] - part["reward"].mean()).sum() for _, group in part.groupby("group")]
            count, groups = len(part), len(sums)
            assert table[MEAN, place, position] == pytest.approx(part["reward"].mean())
            assert table[SAMPLES, place, position] == count
            assert table[GROUPS, place, position] == groups
            if groups >= 3:
                variance = sum(each**2 for each in sums) / count**2 * groups / (groups - 1)
                assert table[VARIANCE, place, position] == pytest.approx(variance)


def test_unchanged_steps_are_reused_and_equal_a_fresh_result(tmp_path: Path) -> None:
    folder = labelled(tmp_path / "run")
    index = RunIndex(folder, "run")
    previous = context_of(view_of(index)).place_series
    reward = column_signal("reward")
    previous.table(reward)
    previous.release()
    for new in (line(7, rank=0, index=1, lang="zh"), line(3, rank=1, index=40, lang="en", reward=9.0)):
        append(folder / "rollout_data_rank_0.jsonl", new)
        view = view_of(index)
        reused, fresh = context_of(view, previous), context_of(view)
        np.testing.assert_allclose(reused.table(reward), fresh.table(reward))
        previous = reused.place_series.release()


def test_facts_about_columns_of_a_grown_run_equal_fresh_ones(tmp_path: Path) -> None:
    folder = labelled(tmp_path / "run")
    index = RunIndex(folder, "run")
    previous: PlaceSeries | None = None
    new_lines = (
        [line(7, rank=0, index=at, lang="zh", reward=float(at % 2)) for at in range(4)],  # a further step
        [line(3, rank=1, index=40, lang="en", reward=9.0)],  # a late line of an earlier one
        [],
    )
    for lines in new_lines:
        append(folder / "rollout_data_rank_0.jsonl", *lines)
        view = view_of(index)
        grown, fresh = context_of(view, previous), context_of(view)
        columns = grown.step_stats.columns
        np.testing.assert_allclose(grown.step_stats.facts(columns), fresh.step_stats.facts(columns))
        np.testing.assert_array_equal(grown.step_stats.std, fresh.step_stats.std)
        assert grown.spread("reward") == fresh.spread("reward") > 0
        assert grown.spread("reward") == pytest.approx(np.nanmedian(fresh.step_stats.of(["reward"])[1]))
        previous = grown.place_series.release()


def test_a_new_category_is_counted_from_the_first_step_on(tmp_path: Path) -> None:
    folder = labelled(tmp_path / "run")
    index = RunIndex(folder, "run")
    first = context_of(view_of(index))
    reward = column_signal("reward")
    first.table(reward)
    append(folder / "rollout_data_rank_0.jsonl", line(7, rank=0, index=1, lang="fr"))
    context = context_of(view_of(index), first.place_series.release())
    languages = [row for row, place in enumerate(context.place_series.places) if place.dimension == "lang"]
    assert {context.place_series.places[row].value for row in languages} == {"en", "fr", "zh"}
    assert context.table(reward)[SAMPLES][languages].sum() == 6 * 32 - 6 * 2 + 1


def test_a_share_of_0_has_an_error(tmp_path: Path) -> None:
    with open_run(labelled(tmp_path / "run"), follow=False) as run:
        context = context_of(run.view)
        table = context.table(SIGNALS["empty_response"])[:, 0]
    assert (table[MEAN] == 0).all()
    independent = (32 * 8) ** 0.5  # 32 samples in 8 groups
    share = 0.5 / (independent + 1)
    expected = share * (1 - share) / independent
    assert table[VARIANCE] == pytest.approx(np.full(6, expected))


def test_a_released_result_keeps_no_columns_of_its_snapshot(tmp_path: Path) -> None:
    index = RunIndex(labelled(tmp_path / "run"), "run")
    view = view_of(index)
    context = context_of(view)
    series = context.place_series
    series.table(column_signal("reward"))
    held = weakref.ref(view)
    del view, context
    gc.collect()
    assert held() is not None
    series.release()
    gc.collect()
    assert held() is None
