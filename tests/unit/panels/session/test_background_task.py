"""Work on a thread ends early once the server's loop has stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from bokeh.document import Document
from panel.io.state import set_curdoc

from rlpanel.panels.session.threads import BackgroundTask, Threads


def test_long_work_ends_after_its_next_result_once_the_loop_has_stopped() -> None:
    threads, has_begun, has_stopped = Threads(), threading.Event(), threading.Event()
    made = list[int]()

    def results() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 1:
                has_begun.set()
                has_stopped.wait(30)
            yield number

    task: BackgroundTask[int] = BackgroundTask(lambda _: None, threads.pages)

    async def scenario() -> None:
        with set_curdoc(Document()):
            task.start(results())
        await asyncio.to_thread(has_begun.wait, 30)

    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as main:
        main.submit(loop.run_until_complete, scenario()).result()
    has_stopped.set()
    threads.pages.shutdown(wait=True)
    threads.close()
    loop.close()
    assert made == [0, 1]
