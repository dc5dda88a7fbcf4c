"""Token view: the response as text coloured by a token metric, above a heatmap of all token metrics.

A JSComponent draws it with the scripts in this folder. The server sends each sample in one message.
Changes of metric, token and theme, hover and search are then handled in the browser.
"""

from __future__ import annotations

from typing import Any, ClassVar

import panel as pn
import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import current_language
from rlpanel.panels.tokens.metric_rows import KL_ESTIMATORS
from rlpanel.panels.tokens.token_payload import metric_declarations, pack_sample
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import Sample
from rlpanel.store.snapshot.snapshot_cache import cached_on

# Joined into one JavaScript module, in this order; the last file exports ``render``.
_SCRIPTS = (
    "panels/ui/dom.js",
    "panels/tokens/formulas.js",
    "panels/tokens/payload.js",
    "panels/tokens/color_scale.js",
    "panels/tokens/running_text.js",
    "panels/tokens/line_chart.js",
    "panels/tokens/heatmap_strip.js",
    "panels/tokens/row_picker.js",
    "panels/tokens/tooltip.js",
    "panels/tokens/toolbar.js",
    "panels/tokens/outliers.js",
    "panels/tokens/find.js",
    "panels/tokens/token_view.js",
)


def token_theme() -> str:
    """Return the theme as CSS variables of the view itself: a notebook has no page that defines them."""
    sheets = {
        ".rl-tokens": theme.LIGHT | {"font": theme.FONT, "mono": theme.MONO},
        ".rl-tokens.dark": theme.DARK,
    }
    return "\n".join(
        f"{selector} {{ {' '.join(f'--rl-{name}: {value};' for name, value in values.items())} }}"
        for selector, values in sheets.items()
    )


class TokenComponent(Component):
    """JavaScript component that draws one packed sample. Use it through `TokenView`."""

    data = param.Dict(default={}, doc="The sample as `token_payload.pack_sample` returns it.")
    metric = param.String(default="log_ratio", doc="Requested metric; it may be missing in the sample.")
    token = param.Integer(default=-1, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    metrics = param.Dict(default={}, doc="Declarations of all token metrics, logged or not.")

    _esm = read_assets(*_SCRIPTS)
    _stylesheets: ClassVar[list[str]] = [token_theme(), read_assets("panels/tokens/token_view.css")]


class TokenView(pn.viewable.Viewer):
    """Token view of one sample: coloured text, heatmap of all metrics, and the values of each token.

    ``metric`` is kept when a sample lacks it: that sample is coloured by its first metric, with a message.
    ``token`` is kept when the sample changes; the caller that sets ``sample`` resets it if needed.
    """

    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="Sample to show, or None.")
    metric = param.String(default="log_ratio", doc="Token metric that colours the text.")
    token = param.Integer(default=-1, allow_None=False, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    pad_token = param.String(default="", doc="Tokens equal to it are drawn in grey; empty for none.")
    kl_estimator = param.Selector(
        default="kl_k3", objects=list(KL_ESTIMATORS), doc="Estimator shown in the KL row."
    )

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._component = TokenComponent(
            data=self._pack(),
            metric=self.metric,
            token=self.token,
            dark=self.dark,
            metrics=metric_declarations(),
            sizing_mode="stretch_width",
        )
        self._component.link(self, bidirectional=True, metric="metric", token="token")
        self.param.watch(self._update_component, ["sample", "pad_token", "kl_estimator", "dark"])

    def _pack(self) -> dict[str, Any]:
        options = {"pad_token": self.pad_token, "kl_estimator": self.kl_estimator}
        if self.sample is None:
            return pack_sample(None, **options)
        key = (current_language(), *options.values())
        return cached_on(self.sample, "packed", key, lambda: pack_sample(self.sample, **options), most=1)

    def _update_component(self, *events: param.parameterized.Event) -> None:
        changed = {event.name for event in events}
        values: dict[str, Any] = {"dark": self.dark}
        if changed - {"dark"}:
            values["data"] = self._pack()
        self._component.param.update(**values)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._component
