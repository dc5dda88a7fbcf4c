"""Display settings in the sidebar; each widget is built from the declaration in `rlpanel.settings`."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewer

from rlpanel.panels.curves import curve_menu, trainer_scalars
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.multi_choice import multi_choice

_GROUPS = {
    "Curves": ("band", "log_values", "variance_scale", "zero_shift", "kl_estimator", "per_sequence"),
    "Samples": ("max_samples", "older_attempts", "stuck_steps"),
    "Text": ("pad_token", "system_end"),
}


class DisplayControls(Viewer):
    """Widgets for the display settings, in groups, and the selection of curves."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._curves = multi_choice(
            "Metrics",
            "Metrics that are drawn as curves; without a choice, the default four.",
            "rl-curve-choice",
            margin=(8, 12, 4, 12),
            searchable=True,
        )
        self._curves.param.watch(self._on_choice, "value")
        context.param.watch(self._update, "view")
        context.selection.param.watch(self._update, "curves")
        parts: list[Any] = []
        for title, names in _GROUPS.items():
            parts.append(caption(title))
            if title == "Curves":
                parts.append(self._curves)
            parts += [_widget(context.display, name) for name in names]
        self._column = pn.Column(*parts, sizing_mode="stretch_width", margin=0, css_classes=["rl-controls"])
        self._update()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _update(self, *_: Any) -> None:
        view = self.context.view
        available = [*curve_menu.options(view).items(), *trainer_scalars.options(view.snapshot).items()]
        options = curve_menu.unique_labels(available)
        if options != self._curves.options:
            self._curves.options = options
        selected = [trainer_scalars.resolve(view, name) for name in self.context.selection.curves]
        value = [name for name in selected if name in options.values()]
        if value != self._curves.value:
            self._curves.value = value

    def _on_choice(self, event: Any) -> None:
        available = set(self._curves.options.values())
        selected = [name for name in self.context.selection.curves if name in available]
        if event.new != selected:
            self.context.selection.curves = list(event.new)


def caption(text: str) -> pn.pane.HTML:
    """Return a small heading."""
    return pn.pane.HTML(
        f'<span class="caption">{text}</span>',
        stylesheets=[theme.CSS],
        margin=(14, 12, 2, 12),
        sizing_mode="stretch_width",
    )


def _widget(settings: param.Parameterized, name: str) -> Any:
    """Return the widget for a setting, by the type of its parameter."""
    parameter = settings.param[name]
    common: dict[str, Any] = {
        "description": parameter.doc,
        "size": "small",
        "margin": (4, 12),
        "sizing_mode": "stretch_width",
    }
    common["sx"] = theme.FIELD_SX
    if isinstance(parameter, param.Boolean):
        return pmui.Switch.from_param(parameter, **common)
    if isinstance(parameter, param.Selector):
        return pmui.Select.from_param(parameter, **common)
    if isinstance(parameter, param.Integer):
        return pmui.IntInput.from_param(parameter, **common)
    if isinstance(parameter, param.Number):
        return pmui.FloatSlider.from_param(parameter, **common)
    return pmui.TextInput.from_param(parameter, **common)
