"""What a view stands in where no page of ours is around it: its colours, and scripts and styles from here.

In a notebook Panel would send Material's script with every widget, 1.5 MB each, and have the browser ask a
distant host for the styles of what is drawn later. Here the script comes with the first view, what follows
asks the page for it, and styles come along as ``data:``.
"""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any

import panel as pn
from bokeh.document import Document
from bokeh.model import Model
from bokeh.models import ImportedStyleSheet
from panel.io.resources import CDN_DIST, DIST_DIR
from panel.io.state import state
from panel.theme import Native
from panel_material_ui.base import BUNDLE_PATH

from rlpanel.views import theme
from rlpanel.views.context import Context

_SHEET = re.compile(re.escape(CDN_DIST) + r"[\w./-]+\.css(?:\?v=[\w.]+)?")
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
        if comm is not None:
            state._stylesheets.setdefault(doc, Styles())
            _keep_local(comm)
        model = super()._get_model(doc, root, parent, comm)
        if comm is not None:
            for part in model.references():
                if getattr(part, "bundle", None) not in (None, "url"):
                    part.update(esm=_ASK)
        return model

    def _render_mimebundle(self, model: Model, doc: Document, comm: Any, location: Any = None) -> Any:
        for sheet in model.select({"type": ImportedStyleSheet}):
            sheet.update(url=_local(str(sheet.url)))  # type: ignore[attr-defined]
        bundle = super()._render_mimebundle(model, doc, comm, location)
        # What changed while it was built is in it. Told once more, it would reach a page that is not there
        # yet, and what the page missed then would be taken for known.
        doc.callbacks._held_events = []
        return bundle


class Styles(dict[str, ImportedStyleSheet]):
    """Panel's store of a document's style sheets, which knows those of its distribution from the start."""

    def __contains__(self, url: object) -> bool:
        if not super().__contains__(url) and isinstance(url, str) and url.startswith(CDN_DIST):
            self[url] = ImportedStyleSheet(url=_local(url))
        return super().__contains__(url)


def _local(url: str) -> str:
    """A style sheet of Panel's distribution as an address that holds all of it; other addresses stay."""
    if not url.startswith(CDN_DIST):
        return url
    path = DIST_DIR / url.removeprefix(CDN_DIST).partition("?")[0]
    return f"data:text/css;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else url


def _keep_local(comm: Any) -> None:
    """Have later messages bring their style sheets along, too."""
    send = comm.send

    def send_local(data: Any = None, *rest: Any, **options: Any) -> None:
        if isinstance(data, str):
            data = _SHEET.sub(lambda found: _local(found[0]), data)
        send(data, *rest, **options)

    comm.send = send_local


@cache
def load() -> None:
    """Bring the scripts to a notebook, once and from this machine; before any view is made."""
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
