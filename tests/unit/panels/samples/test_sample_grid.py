"""The grid's rows for a query, and its messages to the other panels."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pandas as pd
import pytest
from bokeh.document import Document
from panel.io.state import set_curdoc

import rlpanel
from rlpanel.api.run import Run
from rlpanel.panels.samples.sample_bar import GridHead, QueryBar
from rlpanel.panels.samples.sample_grid import SampleGrid
from rlpanel.panels.session.context import Context
from tests.factories import append, line, write_run
from tests.page_parts import part_of, send
from tests.waiting import let_loop_run_until


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return rlpanel.open_run(write_run(tmp_path / "run", steps=3, ranks=2), follow=False)


@pytest.fixture
def context(run: Run) -> Context:
    made = Context(index=run.index)
    made.view = run.view
    return made


@pytest.fixture
def grid(context: Context) -> SampleGrid:
    return SampleGrid(context)


def bar(grid: SampleGrid) -> QueryBar:
    return part_of(grid, QueryBar)


def exported(grid: SampleGrid) -> pd.DataFrame:
    """The samples of the file that the export menu makes."""
    answers = send(bar(grid), {"do": "take", "what": "JSONL"})
    return pd.read_json(io.BytesIO(b"".join(each.get("piece", b"") for each in answers)), lines=True)


def shown(grid: SampleGrid) -> list[str]:
    return list(grid.table.frame["uid"])


def test_without_a_question_the_step_is_shown(grid: SampleGrid, run: Run) -> None:
    assert shown(grid) == run.samples(3).uid.tolist()
    assert grid.context.filtered_uids is None


def test_a_filter_leaves_what_passes_and_tells_other_views(grid: SampleGrid, run: Run) -> None:
    grid.context.selection.filter = "reward > 1"
    wanted = run.samples(3).query("reward > 1").uid
    assert shown(grid) == wanted.tolist()
    assert grid.context.filtered_uids == set(wanted)


def test_a_filter_that_is_none_says_so_and_hides_nothing(grid: SampleGrid, run: Run) -> None:
    grid.context.selection.filter = "rewad > 1"
    assert "did you mean reward" in bar(grid).error
    assert shown(grid) == run.samples(3).uid.tolist()
    assert grid.context.filtered_uids is None
    grid.context.selection.filter = ""
    assert bar(grid).error == ""


def test_all_steps_are_asked_and_come_sorted(grid: SampleGrid, run: Run) -> None:
    grid.context.selection.param.update(scope="run", sort="-reward")
    assert shown(grid) == run.samples().sort_values("reward", ascending=False, kind="stable").uid.tolist()
    assert list(grid.table.frame.columns[:2]) == ["uid", "step"]


def test_a_run_that_fills_while_it_is_searched_is_searched_again(context: Context, tmp_path: Path) -> None:
    """The rows of the run that was shown before do not count."""
    log = tmp_path / "other" / "rollout_data_rank_0.jsonl"
    log.parent.mkdir()
    append(log, b"")
    index = rlpanel.open_run(log.parent, follow=False).index

    async def look() -> str:
        with set_curdoc(Document()):
            grid = SampleGrid(context)
            context.selection.param.update(scope="run", search="/prom.t/")
            await let_loop_run_until(lambda: bar(grid).progress < 0)
            context.param.update(index=index, view=index.view)  # its search runs on a thread
            append(log, *(line(1, index=at) for at in range(99)))
            index.rescan()
            while index.read():
                pass
            context.view = index.view
            await let_loop_run_until(lambda: bar(grid).progress < 0)
            return part_of(grid, GridHead).html

    assert "99 of 99 match" in asyncio.run(look())


def test_equal_samples_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "even").mkdir()
    append(
        tmp_path / "even" / "rollout_data_rank_0.jsonl",
        *(line(1, index=at, reward=at % 2) for at in range(24)),
    )
    run = rlpanel.open_run(tmp_path / "even", follow=False)
    made = Context(index=run.index)
    made.view = run.view
    grid = SampleGrid(made)
    made.selection.sort = "-reward"
    wanted = run.samples().sort_values("reward", ascending=False, kind="stable").uid.tolist()
    assert list(grid.table.current.uid) == wanted


def test_the_first_row_is_highlighted_until_a_sample_is_chosen(grid: SampleGrid) -> None:
    grid.context.selection.step = 2
    assert grid.table.chosen == shown(grid)[0]
    grid.table.receive({"pick": [shown(grid)[3], "reward"]})
    assert grid.table.chosen == grid.context.selection.uid == shown(grid)[3]


def test_of_more_than_fit_the_first_are_shown(grid: SampleGrid, run: Run) -> None:
    grid.context.display.max_samples = 8
    grid.context.selection.param.update(scope="run", sort="reward")
    assert shown(grid) == run.samples().sort_values("reward", kind="stable").uid.tolist()[:8]
    assert "48 of all steps · 8 shown" in part_of(grid, GridHead).html
    assert len(exported(grid)) == 48


def test_of_all_steps_those_of_the_step_pass_for_other_views(grid: SampleGrid, run: Run) -> None:
    grid.context.selection.param.update(scope="run", filter="reward > 1")
    assert grid.context.filtered_uids == set(run.samples(3).query("reward > 1").uid)


def test_head_filters_narrow_what_is_taken_away(grid: SampleGrid, run: Run) -> None:
    grid.table.filters = {"reward": "1"}
    assert exported(grid).uid.tolist() == run.samples(3).query("reward >= 1").uid.tolist()


def test_what_a_query_names_is_shown(grid: SampleGrid, run: Run) -> None:
    grid.context.selection.param.update(filter="copies >= 1", sort="group_reward")
    whole = run.samples(3)
    means = whole.groupby("group").reward.transform("mean")
    pd.testing.assert_series_equal(
        grid.table.frame.group_reward, means.sort_values(kind="stable").reset_index(drop=True),
        check_names=False,
    )  # fmt: skip
    assert set(grid.table.frame["copies"]) == {1.0}


def test_a_tag_stands_in_the_grid_when_it_is_left(grid: SampleGrid, run: Run) -> None:
    uid = run.samples(3).uid[2]
    assert grid.context.notes is not None
    grid.context.notes.write(uid, "odd", "")
    grid.context.notes_version += 1
    assert grid.table.frame.set_index("uid").tag[uid] == "odd"
    grid.context.selection.filter = 'tag == "odd"'
    assert shown(grid) == [uid]


def test_a_tag_that_a_log_has_is_another_column(tmp_path: Path) -> None:
    append(tmp_path / "rollout_data_rank_0.jsonl", line(1, tag="theirs"))
    assert rlpanel.open_run(tmp_path, follow=False).samples().logged_tag.tolist() == ["theirs"]


def test_new_samples_of_all_steps_wait_behind_the_pill(grid: SampleGrid, run: Run) -> None:
    grid.context.selection.param.update(scope="run", filter="reward > -99")
    append(run.path / "rollout_data_rank_0.jsonl", line(4), line(4, index=1))
    run.index.rescan()
    while run.index.read():
        pass
    grid.context.view = run.view
    assert len(shown(grid)) == 48
    assert part_of(grid, GridHead).new == "↻ 2 new"
    send(part_of(grid, GridHead), "load")
    assert len(shown(grid)) == 50


def test_a_file_that_is_too_large_is_not_made(grid: SampleGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlpanel.panels.samples.query_runner.MAX_EXPORT_BYTES", 100)
    send(bar(grid), {"do": "take", "what": "JSONL"})
    assert "export fewer samples" in bar(grid).error
    assert bar(grid).note == ""


def test_filters_of_columns_are_part_of_the_selection(grid: SampleGrid, run: Run) -> None:
    rewards = run.samples(3).reward
    send(grid.table, {"filters": {"reward": "1"}})
    assert grid.context.selection.columns == {"reward": "1"}
    assert "columns=reward%3A1" in grid.context.query
    assert bar(grid).chips == [["column:reward", "reward: 1", ""]]
    send(bar(grid), {"do": "off", "what": "column:reward"})
    assert grid.table.filters == {}
    grid.context.selection.columns = {"reward": "1", "gone": "x"}
    assert len(grid.table.current) == (rewards >= 1).sum()
    assert grid.context.selection.columns == {"reward": "1", "gone": "x"}


def test_a_new_grid_has_the_filters_of_columns_of_a_link(context: Context, run: Run) -> None:
    context.selection.columns = {"reward": "1"}
    grid = SampleGrid(context)
    assert len(grid.table.current) == (run.samples(3).reward >= 1).sum()
    assert context.selection.columns == {"reward": "1"}


def test_conditions_that_no_sample_meets_together_say_what_each_finds(grid: SampleGrid) -> None:
    grid.context.selection.filter = 'rank = 0 and reward > 99 and response contains "sun"'
    assert shown(grid) == []
    assert [chip[1:] for chip in bar(grid).chips] == [
        ["rank = 0", "8 alone"], ["reward > 99", "0 alone"], ['response contains "sun"', ""],
    ]  # fmt: skip
    assert "no sample of step 3 matches" in bar(grid).note
    assert grid.context.message
    send(bar(grid), {"do": "off", "what": "filter:1"})
    assert grid.context.selection.filter == 'rank = 0 and response contains "sun"'
    assert [chip[2] for chip in bar(grid).chips] == ["", ""]
