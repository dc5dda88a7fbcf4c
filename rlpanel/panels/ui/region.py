"""A region of the page: several components in one element, with one model of Bokeh for all.

Each model costs the server time when a page is built, and each view makes the browser lay out the page.
Small components that stand beside each other are therefore drawn by one region, from a JSON text for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import param
from panel.reactive import Reactive
from panel.viewable import Viewable

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.ui.assets import read_assets

#: Script that most parts need, so a region's script has it once.
_DOM = read_assets("panels/ui/dom.js")
#: Parameters of all components that a region applies to the element of a part; its style sheet does the rest.
_OF_ELEMENT = ("css_classes", "visible")


class Region(Component):
    """Base class of regions: a text parameter for each part, in the order of the screen.

    A subclass declares a `param.String` for each part, and ``_esm = region_script(name=Class, ...)`` with the
    classes of the parts. A large value of a part has one of its own, named ``<part>_<value>``.
    Its style sheet places the parts, which are in an element of the class ``region``.

    Parameters
    ----------
    parts : dict of str to Component
        The component of each part; a part may be left out. The region draws it, so no other layout may.
    **params
        Parameters of the region itself.
    """

    def __init__(self, parts: dict[str, Component], **params: Any) -> None:
        self._parts = parts
        self._answered = dict.fromkeys(parts, 0)
        texts = [(name, *text) for name, part in parts.items() for text in _texts(name, type(part)).items()]
        super().__init__(**params, **{text: self._text(name, values) for name, text, values in texts})
        for name, text, values in texts:
            parts[name].param.watch(partial(self._write, name, text, values), list(values))
        for name, part in parts.items():
            part.region = (self, name)

    def select(self, selector: type | Callable[[Viewable], bool] | None = None) -> list[Viewable]:
        """Return the region and its parts, or those that a selector accepts."""
        return super().select(selector) + [
            found for part in self._parts.values() for found in part.select(selector)
        ]

    def receive(self, message: Any) -> None:
        """Pass a message to its part: what the part's script sends, or a value that it has set."""
        name = message.get("part") if isinstance(message, dict) else None
        if not isinstance(name, str) or name not in self._parts:
            return
        part = self._parts[name]
        if "message" in message:
            part.receive(message["message"])
        elif message.get("name") in part.SET_IN_BROWSER and isinstance(message.get("sent"), int):
            self._answered[name] = message["sent"]
            with suppress(ValueError):  # the browser may send anything: the part then keeps its value
                setattr(part, message["name"], message.get("value"))
            self._write(name, name, _texts(name, type(part))[name])

    def _write(self, name: str, text: str, values: tuple[str, ...], *_: Any) -> None:
        setattr(self, text, self._text(name, values))

    def _text(self, name: str, values: tuple[str, ...]) -> str:
        shown = {value: getattr(self._parts[name], value) for value in values}
        document = {"answered": self._answered[name], "values": shown}
        return json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


class Html(Component):
    """A part that shows HTML. The caller has escaped what comes from a log."""

    html = param.String(default="", doc="The HTML.")

    _esm = read_assets("panels/ui/html.js")


class ReportingHtml(Html):
    """HTML that sends ``"drawn"`` when the browser has built it and what was sent with it."""

    reports = param.Boolean(default=True)


def region_script(**parts: type[Component]) -> str:
    """Return the script of a region that draws parts of these classes, in this order."""
    drawn: dict[str, str] = {}
    lines = [_DOM, "const DRAW = {}", "const SHEETS = {}", "const TEXTS = {}"]
    for name, part in parts.items():
        script = f"(() => {{\n{_inside(part)}\nreturn render\n}})()"
        # Parts with the same script share it.
        lines.append(f"DRAW.{name} = {drawn.get(script, script)}")
        lines.append(f"SHEETS.{name} = {json.dumps(list(part._stylesheets))}")
        lines.append(f"TEXTS.{name} = {json.dumps(list(_texts(name, part)))}")
        drawn[script] = f"DRAW.{name}"
    return "\n".join([*lines, read_assets("panels/ui/region.js")])


def _inside(part: type[Component]) -> str:
    """Return the script of a component as the body of a function."""
    return str(part._esm).replace(_DOM, "").replace("export function render", "function render")


@cache
def _texts(name: str, part: type[Component]) -> dict[str, tuple[str, ...]]:
    """Return the texts of a region for a part of a class, each with the parameters that it holds."""
    own = [
        value
        for value in part.param
        if value not in Reactive.param and (part.param[value].precedence or 0) >= 0
    ]
    small = tuple(value for value in own if value not in part.LARGE)
    return {f"{name}_{value}": (value,) for value in own if value in part.LARGE} | {
        name: (*small, *_OF_ELEMENT)
    }
