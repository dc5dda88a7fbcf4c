"""What HoloViews will draw of an element."""

from __future__ import annotations

from typing import Any

import holoviews as hv


def options_of(element: Any) -> dict[str, Any]:
    """Return the options of an element, those of its frame and those of its marks."""
    groups = ("plot", "style")
    return {
        name: value
        for group in groups
        for name, value in hv.Store.lookup_options("bokeh", element, group).kwargs.items()
    }
