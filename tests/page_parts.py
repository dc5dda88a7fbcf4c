"""The parts that a view shows, and messages of the browser to them, without private names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import panel as pn
from bokeh.document import Document
from bokeh.document.events import DocumentChangedEvent, MessageSentEvent
from bokeh.events import ModelEvent
from bokeh.model import Model
from panel.custom import ReactiveESM
from panel.models.esm import DataEvent
from panel.viewable import Viewable

from rlpanel.panel_fixes.component import Component

P = TypeVar("P", bound=Viewable)


def parts_of(view: Any, kind: type[P], **having: Any) -> list[P]:
    """Return all parts of a kind that a view shows, in the order of the page.

    Parameters
    ----------
    view : Viewer or Viewable
    kind : type
        Class of the parts, such as `panel.widgets.Select`.
    **having
        Values of their parameters, such as the label of a field.
    """
    return pn.panel(view).select(
        lambda part: (
            isinstance(part, kind)
            and all(getattr(part, name, None) == value for name, value in having.items())
        )
    )


def part_of(view: Any, kind: type[P], **having: Any) -> P:
    """Return the part of a kind, of which the view shows exactly one."""
    (part,) = parts_of(view, kind, **having)
    return part


def send(component: ReactiveESM, message: Any) -> list[Any]:
    """Send a message to a component as its script does, and return the messages that it gets back."""
    if isinstance(component, Component) and component.region is not None:
        region, part = component.region
        answers = send(region, {"part": part, "message": message})
        return [answer["message"] for answer in answers if answer["part"] == part]
    _, _, events = _shown(component)
    before = len(events)
    receive(component, DataEvent, data=message)
    return [event.msg_data.data for event in events[before:] if isinstance(event, MessageSentEvent)]


def receive(part: Viewable | Model, kind: type[ModelEvent], **values: Any) -> None:
    """Let a component or a figure receive an event of the browser."""
    document, model, _ = _shown(part)
    document.callbacks.trigger_event(kind(model, **values))


@lru_cache(maxsize=4)
def _shown(part: Viewable | Model) -> tuple[Document, Model, list[DocumentChangedEvent]]:
    """Show a part in a document of its own; further messages use the same one."""
    document, events = Document(), []
    model = part if isinstance(part, Model) else part.get_root(document)
    document.add_root(model)
    document.on_change(events.append)
    return document, model, events
