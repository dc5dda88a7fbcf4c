"""Fields in the style of the board: buttons, selects and text fields, all native HTML elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn

from rlpanel.panel_fixes.narrow_row import NarrowRow
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets


def _style() -> dict[str, Any]:
    return {"stylesheets": [read_assets("panels/inputs/input_fields.css")]}


def button(label: str, click: Callable[..., None] | None = None, **params: Any) -> pn.widgets.Button:
    """Return a small button.

    Parameters
    ----------
    label : str
    click : callable, optional
        Called with the event of each click.
    **params
        Parameters of the widget, such as ``visible`` and ``css_classes``.
    """
    defaults: dict[str, Any] = {"margin": (0, 4), "align": "center", **_style()}
    widget = pn.widgets.Button(label=label, **{**defaults, **params})
    if click is not None:
        widget.on_click(click)
    return widget


def select_field(name: str, label: str, width: int, **params: Any) -> pn.widgets.Select:
    """Return a select.

    Parameters
    ----------
    name : str
        The CSS class is ``rl-<name>``.
    label : str
        What the field chooses. Only screen readers show it.
    width : int
        Width in pixels.
    **params
        Parameters of the widget, such as ``options`` and ``visible``.
    """
    defaults: dict[str, Any] = {"options": {}, "margin": (0, 4), "align": "center", **_style()}
    return pn.widgets.Select(label=label, width=width, css_classes=[f"rl-{name}"], **{**defaults, **params})


def text_field(name: str, label: str, placeholder: str = "", **params: Any) -> pn.widgets.TextInput:
    """Return a text field as `select_field` does; its value changes on Enter and when it loses the focus."""
    defaults: dict[str, Any] = {"margin": (0, 4), "align": "center", **_style()}
    return pn.widgets.TextInput(
        label=label, placeholder=placeholder, css_classes=[f"rl-{name}"], **{**defaults, **params}
    )


def integer_field(name: str, label: str, width: int, **params: Any) -> pn.widgets.IntInput:
    """Return a field for an integer, as `select_field` does."""
    defaults: dict[str, Any] = {"margin": (0, 4), "align": "center", **_style()}
    return pn.widgets.IntInput(label=label, width=width, css_classes=[f"rl-{name}"], **{**defaults, **params})


def slider_field(name: str, label: str, **params: Any) -> pn.widgets.FloatSlider:
    """Return a slider with its label and value above it; the CSS class is ``rl-<name>``."""
    style = [theme.CSS, read_assets("panels/inputs/slider.css")]
    return pn.widgets.FloatSlider(label=label, stylesheets=style, css_classes=[f"rl-{name}"], **params)


class FieldRow(NarrowRow):
    """A row of fields that breaks where it is too narrow."""

    def __init__(self, *fields: Any, **params: Any) -> None:
        style = read_assets("panels/inputs/field_row.css")
        super().__init__(*fields, **{"sizing_mode": "stretch_width", "stylesheets": [style], **params})
