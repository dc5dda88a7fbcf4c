"""The pages of a run: each view is made when its page is first opened, and hidden parts draw nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.app.page.run_pages import RunPages
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.sample.sample_detail import SampleDetail
from rlpanel.panels.session.context import Context, Selection
from tests.factories import append, line


@pytest.fixture
def run(tmp_path: Path) -> Run:
    append(tmp_path / "rollout_data_rank_0.jsonl", *(line(1, index=at) for at in range(4)))
    return rlpanel.open_run(tmp_path, follow=False)


def test_the_view_of_a_page_is_made_when_it_is_first_opened(run: Run) -> None:
    context = Context(index=run.index, view=run.view)
    pages = RunPages(context)
    layout = pages.__panel__()
    assert (pages.shown, layout.visible, len(layout)) == ("", False, 0)
    context.selection.page = "explain"
    assert (pages.bar.value, layout.visible, len(layout)) == ("explain", True, 1)
    context.selection.page = "samples"
    assert (pages.bar.value, layout.visible, len(layout)) == ("samples", False, 1)


def test_a_page_that_the_run_has_nothing_for_shows_the_overview(run: Run) -> None:
    context = Context(index=run.index, view=run.view, selection=Selection(page="timeline"))
    pages = RunPages(context)
    assert pages.shown == ""
    assert "timeline" not in {tab["key"] for tab in pages.bar.tabs}


def test_the_sample_gets_the_whole_page_and_returns_to_the_one_before() -> None:
    context = Context(selection=Selection(page="samples"))
    pages = RunPages(context)
    context.toggle_sample()
    assert (context.selection.page, pages.bar.value) == ("sample", "samples")
    context.toggle_sample()
    assert context.selection.page == "samples"


def test_curves_out_of_sight_draw_nothing_until_they_are_shown(run: Run) -> None:
    context = Context(index=run.index)
    curves = Curves(context, active=False)
    context.view = run.view
    assert (curves.cards, list(curves.row)) == ({}, [])
    curves.active = True
    assert len(curves.row) == len(curves.cards) >= 3


def test_the_tabs_of_a_sample_out_of_sight_do_nothing(run: Run) -> None:
    context = Context(index=run.index, view=run.view)
    detail = SampleDetail(context, active=False)
    context.choose_sample(run.samples()["uid"].iloc[0])
    assert len(detail.__panel__()) == 1  # its head
    detail.active = True
    assert len(detail.__panel__()) == 2
