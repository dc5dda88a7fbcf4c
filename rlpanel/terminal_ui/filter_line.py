"""A widget: the line in which a filter is typed; it is hidden until it is asked for."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input


class FilterLine(Input):
    """A line at the lower edge. Enter applies it, Escape leaves it as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]
    DEFAULT_CSS = "FilterLine { dock: bottom; display: none; height: 3; }"

    class Applied(Message):
        """The filter was typed.

        Attributes
        ----------
        text : str
        """

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder=placeholder)
        self._applied = ""

    def open(self) -> None:
        """Show the line with the filter that applies."""
        self.value = self._applied
        self.display = True
        self.focus()

    def set(self, text: str) -> None:
        """Note a filter that was chosen elsewhere."""
        self._applied = text

    def action_leave(self) -> None:
        """Hide the line; the filter stays."""
        self.display = False
        self.screen.focus_next()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the filter."""
        event.stop()
        self._applied = event.value.strip()
        self.display = False
        self.screen.focus_next()
        self.post_message(self.Applied(self._applied))
