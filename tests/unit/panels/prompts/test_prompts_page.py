"""The page of prompts, of a run that grows while its samples are read on a thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

from panel.io.state import set_curdoc

from rlpanel.api.open_run import open_run
from rlpanel.panels.prompts.prompts_page import PromptsPage
from rlpanel.panels.session.context import Context
from tests.factories import append, line, write_run
from tests.served_document import served_document
from tests.waiting import let_loop_run_until, run_alone


def test_a_reading_is_shown_although_the_run_grew_and_the_next_one_has_the_new_samples(
    tmp_path: Path,
) -> None:
    folder = write_run(tmp_path / "run", steps=3, samples=4, prompt="How many?")
    run = open_run(folder, follow=False)
    context, may_read = Context(index=run.index), threading.Event()
    context.view = run.view
    page, drawn = PromptsPage(context, count_now=0), list[str]()
    page.list.bar.param.watch(lambda event: drawn.append(event.new[-1]["title"]), "tabs")

    async def scenario() -> None:
        async with served_document() as document:
            with set_curdoc(document):
                for _ in range(2):  # both threads of the pool: the reading has begun, and waits
                    context.threads.pages.submit(may_read.wait)
                page.active = True
                append(folder / "rollout_data_rank_0.jsonl", line(4, prompt="A new one?"))
                run.index.read({str(folder / "rollout_data_rank_0.jsonl")})
                context.view = run.index.view
            may_read.set()
            await let_loop_run_until(lambda: len(drawn) == 2)

    try:
        run_alone(asyncio.wait_for(scenario(), 30))
    finally:
        may_read.set()
        context.threads.close()
    assert drawn == ["all 1", "all 2"]


#: Opens the page of a small run in a new process, and says which thread imports HoloViews' plots.
_OPEN = """
import asyncio, sys, threading
from pathlib import Path
from panel.io.state import set_curdoc
from rlpanel.api.open_run import open_run
from rlpanel.panels.prompts.prompts_page import PromptsPage
from rlpanel.panels.session.context import Context
from tests.served_document import served_document
from tests.waiting import let_loop_run_until

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "holoviews.plotting.bokeh":
            print(threading.current_thread().name)

async def scenario():
    with open_run(Path(sys.argv[1]), follow=False) as run:
        context = Context(index=run.index)
        context.view = run.view
        page, drawn = PromptsPage(context), []
        page.list.bar.param.watch(lambda event: drawn.append(event.new), "tabs")
        async with served_document() as document:
            with set_curdoc(document):
                page.active = True
            await let_loop_run_until(lambda: drawn)
        context.threads.close()

sys.meta_path.insert(0, Watch())
asyncio.run(scenario())
"""


def test_the_plots_of_the_first_page_are_imported_on_a_thread(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3, samples=4, prompt="How many?")
    found = subprocess.run(
        [sys.executable, "-c", _OPEN, str(folder)], capture_output=True, text=True, timeout=100, check=False
    )
    assert found.stdout.split() == ["rlpanel-pages_0"], found.stderr
