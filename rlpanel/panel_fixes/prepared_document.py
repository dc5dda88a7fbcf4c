"""Serialises a document before its browser asks for it.

Upstream: docs/upstream/bokeh-serialise-ahead.md
Needed by: Bokeh 3.9 to 3.10
Delete when: spare pages are deleted, or Bokeh keeps the JSON of an unchanged document.
"""

from __future__ import annotations

from bokeh.core.serialization import Serialized
from bokeh.document import Document
from bokeh.document.json import DocJson


def serialize_ahead(document: Document) -> None:
    """Serialise a document for the browser that will ask for it.

    Call it with the document locked; it may be called on any thread. The result is
    used once, and dropped if the document changes before.
    """
    prepared: list[Serialized[DocJson]] = [document.to_json()]

    def to_json(*, deferred: bool = True) -> DocJson | Serialized[DocJson]:
        forget()
        if not deferred:
            return document.to_json(deferred=False)
        if not prepared:
            return document.to_json()
        document.models.flush_synced()
        return prepared.pop()

    def changed(_: object) -> None:
        prepared.clear()

    def forget() -> None:
        document.__dict__.pop("to_json", None)
        document.remove_on_change(changed)

    document.on_change(changed)
    document.to_json = to_json  # type: ignore[method-assign,assignment]
