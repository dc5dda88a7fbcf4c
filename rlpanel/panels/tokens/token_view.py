"""The token view: a response token by token, coloured by a metric, over a strip of all metrics.

The drawing is a JSComponent in ``tokens*.js``; a sample goes to it in one message and everything after
that (metric, token, theme, hover, search) happens in the browser.
"""

from __future__ import annotations

from typing import Any, ClassVar

import panel as pn
import param

from rlpanel.panels.plots.snapshot_cache import cached_on
from rlpanel.panels.tokens.metric_rows import KL_ESTIMATORS
from rlpanel.panels.tokens.token_payload import declarations, pack
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import Sample

# One module to the browser, one idea a file here; the last one exports ``render``.
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


def _theme_css() -> str:
    """The theme as CSS variables of the view itself, so that it keeps its colours in a notebook too."""
    sheets = {
        ".rl-tokens": theme.LIGHT | {"font": theme.FONT, "mono": theme.MONO},
        ".rl-tokens.dark": theme.DARK,
    }
    return "\n".join(
        f"{selector} {{ {' '.join(f'--rl-{name}: {value};' for name, value in values.items())} }}"
        for selector, values in sheets.items()
    )


class TokenComponent(pn.custom.JSComponent):
    """Draws one packed sample; `TokenView` is what people use."""

    data = param.Dict(default={}, doc="The sample as `token_payload.pack` gives it.")
    metric = param.String(default="log_ratio", doc="The metric wished for.")
    token = param.Integer(default=-1, doc="The pinned token, -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    metrics = param.Dict(default={}, doc="What each token metric declares, logged or not.")

    _esm = read_assets(*_SCRIPTS)
    _stylesheets: ClassVar[list[str]] = [_theme_css(), read_assets("panels/tokens/token_view.css")]


class TokenView(pn.viewable.Viewer):
    """A response, token by token: running text, a strip of all metrics, and each token's values.

    The wish for a metric outlives samples that lack it: such a sample is coloured by the first metric it
    has, and says so. ``token`` too stays when the sample changes; who changes the sample decides.
    """

    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="The sample shown; None for none.")
    metric = param.String(default="log_ratio", doc="Token metric that colours the text.")
    token = param.Integer(default=-1, allow_None=False, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    pad_token = param.String(default="", doc="Tokens equal to it are greyed; empty for none.")
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
            metrics=declarations(),
            sizing_mode="stretch_width",
        )
        self._component.link(self, bidirectional=True, metric="metric", token="token")
        self.param.watch(self._show, ["sample", "pad_token", "kl_estimator", "dark"])

    def _pack(self) -> dict[str, Any]:
        how = {"pad_token": self.pad_token, "kl_estimator": self.kl_estimator}
        if self.sample is None:
            return pack(None, **how)
        key = tuple(how.values())
        return cached_on(self.sample, "packed", key, lambda: pack(self.sample, **how), most=1)

    def _show(self, *events: param.parameterized.Event) -> None:
        changed = {event.name for event in events}
        values: dict[str, Any] = {"dark": self.dark}
        if changed - {"dark"}:
            values["data"] = self._pack()
        self._component.param.update(**values)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._component
