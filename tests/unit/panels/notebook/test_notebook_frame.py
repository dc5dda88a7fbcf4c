from __future__ import annotations

import asyncio
import base64
import json
import threading
from typing import Any

import panel as pn
import pytest
from bokeh.models import ImportedStyleSheet
from panel.io.resources import CDN_DIST, DIST_DIR

from rlpanel.panels.notebook import notebook_frame
from rlpanel.panels.notebook.notebook_frame import DelayedComm, NotebookFrame
from rlpanel.panels.session.context import Context
from tests.page_parts import send

URL = f"{CDN_DIST}css/loading.css?v=1"


class Comm:
    """Keeps what is sent through it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, data: Any = None, **options: Any) -> None:
        self.sent.append(data if data is not None else options)


def message(*sheets: dict[str, Any]) -> str:
    return json.dumps({"events": [{"attr": "stylesheets", "new": list(sheets)}]}, separators=(",", ":"))


def define(id: str) -> dict[str, Any]:
    return {"type": "object", "name": "ImportedStyleSheet", "id": id, "attributes": {"url": URL}}


def test_every_message_brings_the_sheets_that_it_names() -> None:
    comm = Comm()
    sheet = ImportedStyleSheet(url=URL)
    opened = DelayedComm(comm)
    opened.sheets.embed(sheet)
    opened.open()
    other = {"id": "no-sheet"}
    for text in (message(define("a"), other), message({"id": "a"}, {"id": sheet.id}, other)):
        comm.send(text)
    found = [json.loads(text)["events"][0]["new"] for text in comm.sent]
    sheets = [part for parts in found for part in parts if part != other]
    css = base64.b64encode((DIST_DIR / "css" / "loading.css").read_bytes()).decode()
    assert [part["attributes"]["url"] for part in sheets] == [f"data:text/css;base64,{css}"] * 3
    assert len({part["id"] for part in sheets}) == 3
    assert [parts[-1] for parts in found] == [other, other]


def test_bytes_pass_as_they_are() -> None:
    comm = Comm()
    DelayedComm(comm).open()
    comm.send(buffers=[b"{}"])
    assert comm.sent == [{"buffers": [b"{}"]}]


def test_messages_sent_before_the_view_is_drawn_are_delayed() -> None:
    comm = Comm()
    channel = DelayedComm(comm)
    for text in ("one", "two"):
        comm.send(text)
    assert comm.sent == []
    channel.open()
    comm.send("three")
    assert comm.sent == ["one", "two", "three"]


def test_a_page_that_says_nothing_gets_it_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_frame, "PATIENCE", 0.0)
    comm = Comm()
    DelayedComm(comm)
    comm.send("one")
    assert comm.sent == ["one"]


def test_delayed_messages_reach_every_page_once_the_view_is_drawn() -> None:
    comms = [Comm(), Comm()]
    here = notebook_frame.DrawnSignal()
    here.channels = [DelayedComm(comm) for comm in comms]
    for comm in comms:
        comm.send("one")
    send(here, "here")
    assert [comm.sent for comm in comms] == [["one"], ["one"]]


def test_messages_that_arrive_on_another_thread_are_handled_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled: list[tuple[str, threading.Thread]] = []
    monkeypatch.setattr(
        pn.Column, "_on_msg", lambda *args: handled.append((args[-1], threading.current_thread()))
    )

    async def receive() -> None:
        frame = NotebookFrame(pn.pane.HTML("text"), Context(), dark=False)
        await asyncio.to_thread(frame._on_msg, "ref", None, "from a subshell")
        frame._on_msg("ref", None, "from the loop")

    asyncio.run(receive())
    here = threading.current_thread()
    assert handled == [("from a subshell", here), ("from the loop", here)]
