"""Base of the components that a script draws: the browser takes the script as it is, and returns no data.

Upstream: docs/upstream/panel-esm-updates.md, docs/upstream/bokeh-returned-models.md
Needed by: Panel 1.9 to 1.10, Bokeh 3.9
Delete when: Panel parses a script only if it is TypeScript, and once for all components that share it; and
    an event of a model that the server has sent names the model only.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, ClassVar

from bokeh.document import Document
from panel.custom import JSComponent
from param.parameterized import no_instance_params

#: Draws a component when Bokeh knows that the server has its models: making a patch marks all as known.
_DRAW_KNOWN = """
export default {
  render(props) {
    props.view.model.document?.create_json_patch([])
    return render(props)
  }
}
"""


class Component(JSComponent):
    """Component with plain values and without a build step, which is alone or a part of a region.

    Panel would parse each script in the browser, in case it is TypeScript, and once more for each further
    component with it. It does neither for a bundle, whose name is the key of the browser's cache.
    """

    #: Parameters that the browser may set in a region.
    SET_IN_BROWSER: ClassVar[frozenset[str]] = frozenset()
    #: Parameters that a region sends apart from the others, since they are large and seldom change.
    LARGE: ClassVar[frozenset[str]] = frozenset()
    #: Panel looks for a bundled script in the folders of each component's packages, three times a component.
    _bundle_path: ClassVar[None] = None

    def __init__(self, **params: Any) -> None:
        self._listeners: list[Callable[[Any], object]] = []
        #: The region that draws the component, and the name of its part there.
        self.region: tuple[Component, str] | None = None
        # Panel looks at all parameters of a component, and would copy each for it: twenty, mostly inherited.
        no_instance_params(type(self))
        super().__init__(**params)

    def on_message(self, callback: Callable[[Any], object]) -> None:
        """Call back with each message of the component's script."""
        self._listeners.append(callback)

    def receive(self, message: Any) -> None:
        """Handle a message of the component's script. It comes from the browser."""
        for callback in self._listeners:
            callback(message)

    def send(self, message: Any) -> None:
        """Send a message to the component's script."""
        if self.region is None:
            self._send_msg(message)
        else:
            region, part = self.region
            region.send({"part": part, "message": message})

    def _handle_msg(self, msg: Any) -> None:
        self.receive(msg)

    def _get_properties(self, doc: Document | None) -> dict[str, Any]:
        properties = super()._get_properties(doc)
        properties["esm"] += _DRAW_KNOWN
        properties["bundle"] = sha256(properties["esm"].encode()).hexdigest()
        return properties
