"""An HTML pane for content that changes often: an update sends only the text.

Upstream: docs/upstream/panel-html-sheets.md
Needed by: Panel 1.9 to 1.10
Delete when: an update of `panel.pane.HTML` makes no style sheets.
"""

from __future__ import annotations

from typing import Any

import panel as pn
from markupsafe import Markup


class HtmlPane(pn.pane.HTML):
    """HTML pane that sends only its text.

    Panel's own makes its style sheets again at every change. If the model is not yet part of the page, it
    takes them from a CDN.
    """

    def _transform_object(self, obj: Any) -> dict[str, Any]:
        # Markup escapes what replaces a part of it, so Panel would escape a label from `tr_html` twice.
        return super()._transform_object(str(obj) if isinstance(obj, Markup) else obj)

    def _update(self, ref: str, model: Any) -> None:
        text = self._transform_object(self.object)["object"]
        if text != model.text:
            model.text = text
