"""A choice of several, as the side panel has them."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from rlpanel.panels.ui import theme

#: The label stays over the frame: where nothing is chosen it would lie under it.
_LABEL = """
.MuiInputLabel-root:not(.MuiInputLabel-shrink) {
  transform: translate(14px, -9px) scale(0.75) !important; background: var(--rl-surface); padding: 0 5px;
}
"""


def multi_choice(label: str, description: str, name: str, **options: Any) -> pmui.MultiChoice:
    """A choice of several, empty yet; ``name`` is its class in the page."""
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
