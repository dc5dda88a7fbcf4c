"""A multiple-choice field for the side panel."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from rlpanel.panels.ui import theme

#: Keeps the label in front of the frame: in an empty field it would be drawn behind it.
_LABEL = """
.MuiInputLabel-root:not(.MuiInputLabel-shrink) {
  transform: translate(14px, -9px) scale(0.75) !important; background: var(--rl-surface); padding: 0 5px;
}
"""


def multi_choice(label: str, description: str, name: str, **options: Any) -> pmui.MultiChoice:
    """Return a multiple-choice field without options; ``name`` is its CSS class."""
    return pmui.MultiChoice(
        label=label,
        description=description,
        options={},
        value=[],
        sizing_mode="stretch_width",
        css_classes=[name],
        sx=theme.FIELD_SX,
        stylesheets=[_LABEL],
        **options,
    )
