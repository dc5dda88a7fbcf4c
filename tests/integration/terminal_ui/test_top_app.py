"""`rlpanel top` with textual's pilot: what it shows, its keys, hostile texts, and a run that grows."""

from __future__ import annotations

import asyncio
import html
import os
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("textual")

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import DataTable, Static, TabbedContent

from rlpanel.queries.runs import runs
from rlpanel.queries.table import Table
from rlpanel.runtime import default_runtime
from rlpanel.terminal_ui.run_list_screen import RunListScreen
from rlpanel.terminal_ui.run_screen import RunScreen
from rlpanel.terminal_ui.sample_screen import SampleScreen
from rlpanel.terminal_ui.top_app import HelpScreen, TopApp
from rlpanel.terminal_ui.widgets import CurveView, FindingsView, SamplesView
from tests.factories import append, line, write_run

RANK0 = "rollout_data_rank_0.jsonl"
HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold]not markup[/bold] [/] \u202e"
Use = Callable[[Pilot[None]], Awaitable[None]]


def use(app: TopApp, then: Use, size: tuple[int, int] = (120, 40)) -> None:
    """Run the program without a terminal, and end the reader afterwards.

    It runs on a thread: in this one, a browser of another test may have its event loop.
    """

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await then(pilot)

    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(run())).result()
    finally:
        default_runtime().close()


async def until(pilot: Pilot[None], found: Callable[[], object]) -> None:
    """Let the program go on until something holds."""
    async with asyncio.timeout(20):
        while not found():
            await pilot.pause(0.01)


def text_of(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).render())


def screen_text(pilot: Pilot[None]) -> str:
    """Return all characters on the screen."""
    parts = re.findall(r"<text[^>]*>([^<]*)</text>", pilot.app.export_screenshot())
    return "\n".join(html.unescape(part).replace("\xa0", " ") for part in parts)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "first", steps=4, samples=8)
    write_run(tmp_path / "runs" / "second", steps=2, samples=4)
    return tmp_path / "runs"


def test_the_list_opens_a_run_and_a_sample(root: Path) -> None:
    async def then(pilot: Pilot[None]) -> None:
        table = pilot.app.screen.query_one(DataTable)
        await until(pilot, lambda: table.row_count == 2)
        await pilot.press("s", "s")  # back to a stable order: by name, then by reward
        await pilot.press("slash", *"fir", "enter")
        await until(pilot, lambda: table.row_count == 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await until(pilot, lambda: pilot.app.screen.query(CurveView))
        await until(pilot, lambda: "step 4" in text_of(pilot, "#title"))
        await pilot.press("3")
        view = pilot.app.screen.query_one(SamplesView)
        await until(pilot, lambda: view.row_count == 8)
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "step 3" in text_of(pilot, "#chosen"))
        await pilot.press("slash", *"reward < 1", "enter")
        await until(pilot, lambda: "reward < 1" in text_of(pilot, "#chosen"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SampleScreen) and pilot.app.screen.shown)
        await until(pilot, lambda: "log_ratio" in text_of(pilot, "#tokens-text"))
        await pilot.press("m")
        await until(pilot, lambda: "log_ratio" not in text_of(pilot, "#tokens-text").splitlines()[0])
        await pilot.press("2")
        assert pilot.app.screen.query_one(TabbedContent).active == "conversation"
        assert "USER" in text_of(pilot, "#conversation-text")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunListScreen))

    use(TopApp(str(root), pause=0.0), then)


def test_a_long_list_begins_with_the_newest_runs(tmp_path: Path) -> None:
    for number in range(4):
        write_run(tmp_path / f"run{number}", steps=1, samples=1)
    limits: list[int | None] = []

    def read(sort: str, limit: int | None, megabytes: int) -> Table:
        limits.append(limit)
        return runs(tmp_path, sort=sort, limit=limit, read=megabytes)

    async def then(pilot: Pilot[None]) -> None:
        await pilot.app.push_screen(RunListScreen(read, lambda path, name: None, 3600.0, ((2, 16), (3, 16))))
        table = pilot.app.screen.query_one(DataTable)
        await until(pilot, lambda: table.row_count == 3)
        assert limits == [2, 3]
        await pilot.press("s")  # by name
        await until(pilot, lambda: "by name" in text_of(pilot, "#where"))
        await pilot.press("home", "down", "down")
        os.utime(tmp_path / "run2" / RANK0, (1e9, 1e9))
        before = table.get_row_at(2)
        await pilot.press("r")
        await until(pilot, lambda: table.get_row_at(2) != before)
        assert (table.cursor_row, limits[-1]) == (2, 3)

    use(App(), then)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_a_run_is_followed(root: Path, size: tuple[int, int]) -> None:
    async def then(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await until(pilot, lambda: "step 4" in text_of(pilot, "#title"))
        append(root / "first" / RANK0, *(line(5, index=index) for index in range(8)))
        await until(pilot, lambda: "step 5" in text_of(pilot, "#title"))
        assert "40 samples" in text_of(pilot, "#title")
        await pilot.press("3")
        await until(pilot, lambda: "step 5 (follows)" in text_of(pilot, "#chosen"))

    use(TopApp(str(root), str(root / "first"), pause=0.0), then, size)


def test_a_finding_leads_to_its_samples(tmp_path: Path) -> None:
    write_run(tmp_path / "bad", steps=30, samples=8, reward=0.5)

    async def then(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: pilot.app.screen.query(FindingsView))
        await pilot.press("2")
        view = pilot.app.screen.query_one(FindingsView)
        await until(pilot, lambda: view.findings)
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen.query_one(TabbedContent).active == "samples")
        await until(pilot, lambda: pilot.app.screen.query_one(SamplesView).row_count)

    use(TopApp(str(tmp_path), str(tmp_path / "bad"), pause=0.0), then)


def test_a_finding_without_a_worst_step_begins_at_its_onset(tmp_path: Path) -> None:
    run = tmp_path / "bad"
    run.mkdir()
    for step in range(1, 41):
        rewards = [0.0 if at % 2 and step > 20 else float(at % 3 > 0) for at in range(48)]
        of_sample = [{"group": f"{step}-{at // 8}", "lang": ("en", "zh")[at % 2]} for at in range(48)]
        append(
            run / RANK0,
            *(line(step, index=at, reward=rewards[at], **of_sample[at]) for at in range(48)),
        )

    async def then(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: pilot.app.screen.query(FindingsView))
        await pilot.press("2")
        view = pilot.app.screen.query_one(FindingsView)
        await until(pilot, lambda: view.findings)
        place = next(at for at, each in enumerate(view.findings) if each["worst"] is None and each["filter"])
        view.highlighted = place
        await pilot.press("enter")
        await until(pilot, lambda: f"step {view.findings[place]['onset']}" in text_of(pilot, "#chosen"))

    use(TopApp(str(tmp_path), str(run), pause=0.0), then)


def test_nothing_that_a_log_says_controls_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "hostile"
    write_run(folder, steps=1, samples=2, response=HOSTILE, prompt=HOSTILE, response_tokens=[HOSTILE, "a\nb"])

    async def then(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await pilot.press("3")
        view = pilot.app.screen.query_one(SamplesView)
        await until(pilot, lambda: view.row_count == 2)
        seen = screen_text(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, SampleScreen) and pilot.app.screen.shown)
        for key in "123":
            await pilot.press(key)
            await pilot.pause()
            seen += screen_text(pilot)
        assert "[bold]not markup[/bold]" in seen
        assert not {"\x1b", "\x07", "\u202e"} & set(seen)

    use(TopApp(str(tmp_path / "runs"), str(folder), pause=0.0), then)


def test_a_wrong_filter_is_explained_and_the_samples_stay(root: Path) -> None:
    async def then(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "step 4" in text_of(pilot, "#title"))
        await pilot.press("3")
        view = pilot.app.screen.query_one(SamplesView)
        await until(pilot, lambda: view.row_count == 8)
        await pilot.press("slash", *"rewrad < 1", "enter")
        await until(pilot, lambda: "rewrad" in text_of(pilot, "#chosen"))
        assert view.row_count == 8

    use(TopApp(str(root), str(root / "first"), pause=0.0), then)


def test_keys_are_explained_and_q_quits(root: Path) -> None:
    app = TopApp(str(root), pause=0.0)

    async def then(pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, RunListScreen)
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)

    use(app, then)
