"""The texts between the fields and above the results."""

from __future__ import annotations

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.ui import theme

_PARAGRAPHS = "p { margin: 0 0 6px; overflow-wrap: anywhere; }"


def note_pane(name: str) -> HtmlPane:
    """Return an empty pane for paragraphs of escaped text; ``name`` is its CSS class."""
    return HtmlPane(
        "",
        stylesheets=[theme.CSS, _PARAGRAPHS],
        sizing_mode="stretch_width",
        margin=(8, 16, 0, 16),
        css_classes=[name],
    )


def caption(text: str) -> HtmlPane:
    """Return a short text before a field."""
    return HtmlPane(
        f'<span class="note">{theme.safe_text(text)}</span>',
        stylesheets=[theme.CSS],
        margin=(4, 4),
        align="center",
    )
