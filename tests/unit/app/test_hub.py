"""News from the reader's thread reach each session once, on its own document."""

from __future__ import annotations

from pathlib import Path

from bokeh.document import Document

from rlpanel.app.hub import Hub
from rlpanel.store.index import RunIndex
from rlpanel.store.live import Reader
from rlpanel.views.session import Session


def run_callbacks(document: Document) -> int:
    """Run what the document has scheduled, as its event loop would; how many there were."""
    scheduled = document.session_callbacks
    for callback in scheduled:
        document.remove_next_tick_callback(callback)
        callback.callback()
    return len(scheduled)


def test_many_changes_are_one_drawing() -> None:
    drawn: list[set[RunIndex | None]] = []
    document = Document()
    session = Session(document, drawn.append)
    index = RunIndex(Path("run"), "run")
    for changed in (index, None, index):
        session.tell(changed)
    assert run_callbacks(document) == 1
    assert drawn == [{index, None}]


def test_a_change_while_nothing_is_due_schedules_anew() -> None:
    drawn: list[set[RunIndex | None]] = []
    document = Document()
    session = Session(document, drawn.append)
    session.tell(None)
    run_callbacks(document)
    session.tell(None)
    assert len(document.session_callbacks) == 1


def test_a_drawing_that_fails_is_not_the_last() -> None:
    calls: list[int] = []

    def draw(changed: set[RunIndex | None]) -> None:
        calls.append(1)
        raise RuntimeError("broken view")

    document = Document()
    session = Session(document, draw)
    session.tell(None)
    run_callbacks(document)
    session.tell(None)
    assert calls == [1]
    assert len(document.session_callbacks) == 1


def test_a_session_that_left_hears_nothing(tmp_path: Path) -> None:
    reader = Reader()
    hub = Hub(reader)
    document = Document()
    session = Session(document, lambda changed: None)
    hub.join(session)
    assert hub.sessions == 1
    hub.leave(session)
    hub._news(None)
    assert hub.sessions == 0
    assert document.session_callbacks == []
