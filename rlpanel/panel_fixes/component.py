"""Base of the components that a script draws: an update sends only the values that changed.

Upstream: docs/upstream/panel-esm-updates.md
Needed by: Panel 1.9 to 1.10
Delete when: an update of a `JSComponent` without children looks for no models.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, ClassVar

import panel as pn
from bokeh.document import Document
from panel.custom import JSComponent
from panel.reactive import Reactive
from param.parameterized import no_instance_params


class Component(JSComponent):
    """Component with plain values and without children, which a page may update at each step of a run.

    Panel searches the old and the new values for models. It looks up the old ones in the wrong model, and
    Bokeh then looks for similar names, for an error message that Panel ignores. Both together take as long as
    the update itself.
    """

    #: Panel looks for a bundled script in the folders of each component's packages, three times a component.
    _bundle_path: ClassVar[None] = None

    def __init__(self, **params: Any) -> None:
        # Panel looks at all parameters of a component, and would copy each for it: twenty, mostly inherited.
        no_instance_params(type(self))
        super().__init__(**params)

    def _get_properties(self, doc: Document | None) -> dict[str, Any]:
        """Let the browser take the script as it is.

        Panel would parse each script in the browser, in case it is TypeScript, and once more for each further
        component with it. It does neither for a bundle, whose name is the key of the browser's cache.
        """
        properties = super()._get_properties(doc)
        properties["bundle"] = sha256(properties["esm"].encode()).hexdigest()
        return properties

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
