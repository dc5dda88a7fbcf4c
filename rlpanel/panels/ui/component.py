"""Base of the components that a script draws: an update sends only the values that changed."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.custom import JSComponent
from panel.reactive import Reactive


class Component(JSComponent):
    """Component with plain values and without children, which a page may update at each step of a run.

    Panel searches the old and the new values for models. It looks up the old ones in the wrong model, and
    Bokeh then looks for similar names, for an error message that Panel ignores. Both together take as long as
    the update itself.
    """

    def _update_model(
        self, events: Any, msg: dict[str, Any], root: Any, model: Any, doc: Any, comm: Any
    ) -> None:
        if self._in_process__events.get(doc) or not _OF_MODEL.isdisjoint(msg):
            super()._update_model(events, msg, root, model, doc, comm)  # such as a change by the browser
            return
        with pn.io.hold(doc):
            self._set_on_model(msg, root, model.data)


#: Parameters that Panel keeps in the component's model. All others are in the model's data.
_OF_MODEL = frozenset({*Reactive.param, "esm", "importmap"})
