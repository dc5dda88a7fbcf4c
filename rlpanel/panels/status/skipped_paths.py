"""List of links that are not followed and folders that cannot be listed, below the list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.files.file_access import Unread

_NAMED = 3


class LeftOut(Html):
    """Lists the folders below the root that are not shown, with reasons; hidden if there are none."""

    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/status/skipped_paths.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(css_classes=["rl-left-out"])
        self.context = context
        context.param.watch(self._draw, ["left_out", "runs"])
        self._draw()

    def _draw(self, *_: Any) -> None:
        # Without runs the empty state explains what the root contains.
        html = left_out_html(self.context.left_out) if self.context.runs else ""
        self.param.update(html=html, visible=bool(html))


def left_out_html(left_out: Sequence[Unread]) -> str:
    """Return the first names with their reasons, and the number of further ones, as HTML."""
    named = left_out[:_NAMED]
    rows = [f"<li><code>{safe_text(entry.file)}</code> {safe_text(entry.reason)}</li>" for entry in named]
    if len(left_out) > _NAMED:
        more = tr("and {count:,} more", count=len(left_out) - _NAMED)
        rows.append(f"<li>{more}</li>")
    title = tr("Not shown: {left_out:,}", left_out=len(left_out))
    return f"<p>{title}</p><ul>{''.join(rows)}</ul>" if rows else ""
