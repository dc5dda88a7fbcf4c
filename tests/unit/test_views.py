from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from collections.abc import Iterator
from pathlib import Path

import panel as pn
import pytest

import rlpanel
from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.export.card_export import BarCard
from rlpanel.panels.notebook.notebook_frame import context_of
from rlpanel.panels.session.context import Context
from tests.factories import append, line, write_run
from tests.waiting import wait_until


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with open_run(write_run(tmp_path / "run", steps=3)) as opened:
        yield opened


@pytest.mark.parametrize("name", rlpanel.views.__all__)
def test_every_view_alone_is_a_function_that_says_what_it_takes(name: str) -> None:
    view = getattr(rlpanel.views, name)
    assert inspect.isfunction(view)
    assert view.__doc__


def test_a_view_keeps_its_name_though_its_module_has_the_same() -> None:
    assert Curves.__module__ == "rlpanel.panels.curves.curves"
    assert inspect.isfunction(rlpanel.views.curves)


@pytest.mark.parametrize("name", rlpanel.views.__all__)
def test_every_view_alone_can_be_shown(run: Run, name: str) -> None:
    frame = getattr(rlpanel.views, name)(run)
    assert frame.get_root().children


def shown_step(frame: pn.Column) -> str:
    """Return the text in the head of a distribution."""
    return frame.select(BarCard)[0].head_html()


def test_views_of_a_run_move_together_but_for_one_that_is_told_its_step(run: Run) -> None:
    curves = rlpanel.views.curves(run)
    together, alone = rlpanel.views.distribution(run), rlpanel.views.distribution(run, step=1)
    curves.context.choose_step(2)
    assert "step 2," in shown_step(together)
    assert "step 1," in shown_step(alone)


def test_a_sample_is_shown_as_it_was_given(run: Run) -> None:
    sample = run.sample(run.samples(step=2).uid.iloc[0])
    frame = rlpanel.views.tokens(sample, metric="kl_k3")
    assert frame[0].data["state"] == "tokens"
    assert frame[0].metric == "kl_k3"


def test_what_is_appended_comes_by_itself_where_a_loop_runs(run: Run) -> None:
    async def main() -> None:
        context = context_of(run)
        append(run.path / "rollout_data_rank_0.jsonl", *(line(4, index=index) for index in range(8)))
        # In a thread, so that the event loop can deliver the update.
        await asyncio.to_thread(wait_until, lambda: context.selection.step == 4, 10.0, "the new step")

    asyncio.run(main())


def test_a_context_that_nobody_holds_is_let_go(run: Run) -> None:
    async def main() -> weakref.ref[Context]:
        return weakref.ref(context_of(run))

    gone = asyncio.run(main())
    gc.collect()
    assert gone() is None
