"""Base of the components that a script draws: the browser takes the script as it is, and returns no data.

Upstream: docs/upstream/panel-esm-updates.md, docs/upstream/bokeh-returned-models.md,
    docs/upstream/bokeh-held-callbacks.md
Needed by: Panel 1.9 to 1.10, Bokeh 3.9
Delete when: Panel parses a script only if it is TypeScript, and once for all components that share it; and
    an event of a model that the server has sent names the model only; and Bokeh locks its held changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Protocol

import panel as pn
from bokeh.document import Document
from panel.custom import JSComponent
from param.parameterized import no_instance_params

#: Template variable of a document with the event loop that draws it.
LOOP_VARIABLE = "rlpanel_loop"


class DrawingLoop(Protocol):
    """The event loop that draws a document."""

    @property
    def runs_here(self) -> bool:
        """True if the calling thread runs the loop."""

    def call_soon(self, callback: Callable[[], Any], /) -> None:
        """Run a callback on the loop, with the document locked. Thread-safe."""


def pair_of(message: Any) -> tuple[Any, Any]:
    """Return both parts of a message, such as action and value; two Nones for any other message."""
    return (message[0], message[1]) if isinstance(message, list) and len(message) == 2 else (None, None)


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
        # With `panel serve --num-threads` a thread calls this, and Bokeh may lose the changes that it makes.
        document = pn.state.curdoc
        loop: DrawingLoop | None = document.template_variables.get(LOOP_VARIABLE) if document else None
        if loop is None:
            self.receive(msg)
        elif loop.runs_here:
            with pn.io.hold(document):  # what the message changes reaches the browser in one answer
                self.receive(msg)
        else:
            loop.call_soon(partial(self.receive, msg))

    def _get_properties(self, doc: Document | None) -> dict[str, Any]:
        properties = super()._get_properties(doc)
        properties["esm"] += _DRAW_KNOWN
        properties["bundle"] = sha256(properties["esm"].encode()).hexdigest()
        return properties
