from __future__ import annotations

import base64
import json
from typing import Any

from bokeh.models import ImportedStyleSheet
from panel.io.resources import CDN_DIST, DIST_DIR

from rlpanel.views.frame import Sheets

URL = f"{CDN_DIST}css/loading.css?v=1"


class Channel:
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
    channel = Channel()
    sheet = ImportedStyleSheet(url=URL)
    Sheets(channel).keep(sheet)
    other = {"id": "no-sheet"}
    for text in (message(define("a"), other), message({"id": "a"}, {"id": sheet.id}, other)):
        channel.send(text)
    found = [json.loads(text)["events"][0]["new"] for text in channel.sent]
    sheets = [part for parts in found for part in parts if part != other]
    css = base64.b64encode((DIST_DIR / "css" / "loading.css").read_bytes()).decode()
    assert [part["attributes"]["url"] for part in sheets] == [f"data:text/css;base64,{css}"] * 3
    assert len({part["id"] for part in sheets}) == 3
    assert [parts[-1] for parts in found] == [other, other]


def test_bytes_pass_as_they_are() -> None:
    channel = Channel()
    Sheets(channel)
    channel.send(buffers=[b"{}"])
    assert channel.sent == [{"buffers": [b"{}"]}]
