"""What a view stands in where no page of ours is around it: its colours, and scripts that come once.

In a notebook Panel would send Material's script with every widget, 1.5 MB each. Here it comes with the first
view, and what follows asks the page for it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import panel as pn
from bokeh.model import Model
from panel.theme import Native
from panel_material_ui.base import BUNDLE_PATH

from rlpanel.views import theme
from rlpanel.views.context import Context

_ASK = "export default (await globalThis.rlpanelMaterial).default"
_BRING = """
globalThis.rlpanelMaterial ??= import(URL.createObjectURL(new Blob([{code}], {{type: "text/javascript"}})))
"""


class Frame(pn.Column):
    """A view on the theme's background, with the colours and fonts that the board's page gives it elsewhere.

    Parameters
    ----------
    view : Viewable or Viewer
    context : Context, optional
        Held for as long as the view is shown; without it the view would hear of nothing.
    dark : bool
    """

    def __init__(self, view: Any, context: Context | None, dark: bool, **options: Any) -> None:
        _load()
        self.view, self.context = view, context
        colors = theme.palette(dark) | {"font": theme.FONT, "mono": theme.MONO}
        variables = "".join(f"--rl-{name}:{value};" for name, value in colors.items())
        super().__init__(
            view,
            sizing_mode="stretch_width",
            margin=0,
            styles={"background": "var(--rl-bg)", "padding": "8px"},
            stylesheets=[f":host {{{variables}}}"],
            design=Native,  # Material's own would wrap the view once more
            **options,
        )

    def _get_model(self, doc: Any, root: Any = None, parent: Any = None, comm: Any = None) -> Model:
        model = super()._get_model(doc, root, parent, comm)
        if comm is not None:
            for part in model.references():
                if getattr(part, "bundle", None) not in (None, "url"):
                    part.update(esm=_ASK)
        return model


@cache
def _load() -> None:
    """Bring the scripts to a notebook, once and from this machine."""
    if pn.state.curdoc is not None:
        return
    pn.extension("tabulator", inline=True)
    try:
        from IPython import get_ipython
        from IPython.display import Javascript, display
    except ImportError:  # a script
        return
    if get_ipython() is not None:
        display(Javascript(_BRING.format(code=_literal(BUNDLE_PATH.read_text("utf-8")))))


def _literal(code: str) -> str:
    """A script as a string in another script that may stand in a page."""
    return json.dumps(code).replace("</", "<\\/")
