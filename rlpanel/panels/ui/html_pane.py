"""A pane of HTML that changes many times: of a change, the text alone is worked out and sent."""

from __future__ import annotations

from typing import Any

import panel as pn


class HtmlPane(pn.pane.HTML):
    """Panel's pane, which resolves its design's style sheets anew, from disk, whenever its text changes."""

    def _update(self, ref: str, model: Any) -> None:
        text = self._transform_object(self.object)["object"]
        if text != model.text:
            model.text = text
