"""The page detects whether its server is alive: heartbeat, and messages that need no server."""

from __future__ import annotations

import re
from pathlib import Path

import rlpanel
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.run_badge import badge_html
from rlpanel.panels.status.notices import BEAT, Connection
from tests.factories import write_run


def test_the_clock_of_the_session_is_the_beat() -> None:
    context = Context()
    connection = Connection(context)
    told: list[int] = []
    connection.param.watch(lambda event: told.append(event.new), "beat")
    for second in range(100, 120):
        context.now = float(second)
    assert told == [20, 21, 22, 23]
    assert BEAT == 5


def test_what_is_true_only_now_can_be_hidden(tmp_path: Path) -> None:
    snapshot = rlpanel.open_run(write_run(tmp_path / "a", steps=2, samples=3), follow=False).snapshot
    html = badge_html(snapshot, snapshot.newest_line + 7, "a")
    assert text_of(html) == "a live · 1 rank · 6 samples · step 2 · 7 s ago"
    lasting = re.sub(r'<span class="now[ a-z]*">.*?</span>(?!\s*<b>)', "", html)
    assert text_of(lasting) == "a1 rank · 6 samples · step 2"


def text_of(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html)
