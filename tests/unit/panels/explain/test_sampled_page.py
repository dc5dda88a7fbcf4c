"""A page that reads samples by itself waits for many new ones, or for a minute."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rlpanel
from rlpanel.panels.explain.sampled_page import EVERY, PATIENCE, SampledPage
from rlpanel.panels.lint.lint_page import LintRules
from rlpanel.panels.session.context import Context
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import append

#: New samples that the page waits for.
LEAST = 4


class CountingPage(SampledPage[int]):
    """It reads the number of samples."""

    def __init__(self, context: Context, **params: Any) -> None:
        self.shown: list[int] = []
        view = LintRules(lambda rule, uid: None)
        super().__init__(context, view, kind="count", read_all="All", per_step=8, least=LEAST, **params)

    def read(self, index: RunIndex, view: RunView) -> Iterator[int]:
        yield view.snapshot.samples

    def show_found(self, found: int) -> None:
        self.shown.append(found)
        self.end(has_more=False)

    def clear(self) -> None:
        """There is nothing to clear."""


def test_few_new_samples_wait_for_a_minute_and_many_for_ten_seconds(tmp_path: Path) -> None:
    now, file = 100.0, tmp_path / "rank_0.jsonl"

    def grow(count: int) -> None:
        line = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
        append(file, "".join(json.dumps(line) + "\n" for _ in range(count)).encode())
        run.index.read()
        context.view = run.index.view

    append(file, b'{"step": 0, "prompt": "p", "response": "r", "reward": 0.0}\n')
    with rlpanel.open_run(tmp_path, follow=False) as run:
        context = Context(index=run.index, view=run.index.view)
        page = CountingPage(context, clock=lambda: now)
        page.active = True
        assert page.shown == [1]

        grow(LEAST - 1)
        now += PATIENCE - 1
        context.param.trigger("now")
        assert page.shown == [1]
        now += 1
        context.param.trigger("now")
        assert page.shown == [1, LEAST]

        grow(LEAST)
        now += EVERY - 1
        context.param.trigger("now")
        assert page.shown == [1, LEAST]
        now += 1
        context.param.trigger("now")
        assert page.shown == [1, LEAST, 2 * LEAST]
