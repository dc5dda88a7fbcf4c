"""Style sheets of Panel's distribution as ``data:`` URLs, for notebooks without network.

Panel embeds them when a cell is shown; from 1.9.4 on also those of layouts that are added later, from 1.10 on
those of updates. Plots of HoloViews still take theirs from a CDN.

Upstream: docs/upstream/holoviews-sheets.md; https://github.com/holoviz/panel/pull/8708 did a part of this
Needed by: Panel 1.9 to 1.10, HoloViews 1.23 to 1.24
Delete when: HoloViews embeds them; `SheetsOfView` if, on Panel 1.10, the tests of notebooks pass without it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import uuid4

import holoviews as hv
from bokeh.model import Model
from bokeh.models import ImportedStyleSheet
from holoviews.core.dimension import LabelledData
from panel.io.resources import CDN_DIST, DIST_DIR

_URL = re.compile(re.escape(CDN_DIST) + r"[\w./-]+\.css(?:\?[\w.=&-]*)?")
_SHEET = '{"type":"object","name":"ImportedStyleSheet","id":"%s","attributes":{"url":"%s"}}'
_DEFINITION = re.compile(re.escape(_SHEET) % (r"([\w-]+)", r"([^\"]+)"))
_REFERENCE = re.compile(r'\{"id":"([\w-]+)"\}')
#: HoloViews' name of the display of notebooks.
_NOTEBOOK = "html+js"


@cache
def embedded_sheet(url: str) -> str:
    """Return a style sheet of Panel's distribution as a ``data:`` URL; other URLs are returned unchanged."""
    if not url.startswith(CDN_DIST):
        return url
    path = DIST_DIR / url.removeprefix(CDN_DIST).partition("?")[0]
    return f"data:text/css;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else url


class SheetsOfView:
    """The style sheets of a view in a notebook: messages get the complete sheet at each reference.

    Panel also refers to style sheets that the browser has already freed.
    """

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}

    def embed(self, view: Model) -> None:
        """Embed the style sheets of the view itself, and remember them for later references."""
        sheets: Any = view.select({"type": ImportedStyleSheet})
        for sheet in sheets:
            sheet.update(url=embedded_sheet(sheet.url))
            self._urls[sheet.id] = sheet.url

    def embed_in(self, message: str) -> str:
        """Replace each definition of and reference to a style sheet by a complete sheet with a new id."""
        self._urls |= {id: embedded_sheet(url) for id, url in _DEFINITION.findall(message)}
        return _REFERENCE.sub(self._copy, _DEFINITION.sub(r'{"id":"\1"}', message))

    def _copy(self, match: re.Match[str]) -> str:
        url = self._urls.get(match[1])
        return match[0] if url is None else _SHEET % (uuid4(), url)


def embed_in_plots() -> None:
    """Embed the style sheets of the plots that HoloViews shows in a notebook."""
    display = hv.Store._display_hooks[_NOTEBOOK].get(LabelledData)
    if display is not None:
        hv.Store.set_display_hook(_NOTEBOOK, LabelledData, _without_network(display))


def _without_network(display: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def show(plot: Any) -> Any:
        shown = display(plot)
        if shown is None or "text/html" not in shown[0]:
            return shown
        data, metadata = shown
        html = _URL.sub(lambda found: embedded_sheet(found[0]), data["text/html"])
        return {**data, "text/html": html}, metadata

    return show
