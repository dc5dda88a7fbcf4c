"""Reads whether Panel still has to send changes of a served document, for which it has no public interface.

Upstream: docs/upstream/panel-unsent-changes.md
Needed by: Panel 1.10
Delete when: Panel makes the message of a change when the change is made, or says whether changes wait.
"""

from __future__ import annotations

from bokeh.document import Document
from panel.io.document import _WRITE_BLOCK


def has_unsent_changes(document: Document) -> bool:
    """Return True if changes of the document wait until Panel sends them.

    Panel 1.10 makes messages of held and queued changes when it sends them. Points that are appended to a
    change meanwhile would be part of it, and be sent again on their own.
    """
    return bool(document.callbacks.hold_value or document in _WRITE_BLOCK)
