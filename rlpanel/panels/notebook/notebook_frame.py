"""What a view stands in where no page of ours is around it: its colours, and scripts and styles from here.

In a notebook Panel would send Material's script with every widget, 1.5 MB each, and have the browser ask a
distant host for the styles of what is drawn later. Here the script comes with the first view, what follows
asks the page for it, and styles come along as ``data:``. And what changes before the view stands in the page
waits: a message whose parts arrive while it is being drawn is half lost, and none after it is understood.
"""

from __future__ import annotations

import base64
import json
import re
import time
from functools import cache
from typing import Any
from uuid import uuid4

import panel as pn
import param
from bokeh.document import Document
from bokeh.model import Model
from bokeh.models import ImportedStyleSheet
from panel.custom import JSComponent
from panel.io.resources import CDN_DIST, DIST_DIR
from panel.theme import Native
from panel_material_ui.base import BUNDLE_PATH

from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets

_SHEET = '{"type":"object","name":"ImportedStyleSheet","id":"%s","attributes":{"url":"%s"}}'
_DEFINED = re.compile(re.escape(_SHEET) % (r"([\w-]+)", r"([^\"]+)"))
_NAMED = re.compile(r'\{"id":"([\w-]+)"\}')
_ASK = "export default (await globalThis.rlpanelMaterial).default"
_BRING = """
globalThis.rlpanelMaterial ??= import(URL.createObjectURL(new Blob([{code}], {{type: "text/javascript"}})))
"""
#: Seconds to wait for a page that does not say that the view stands: perhaps it is none of ours.
PATIENCE = 60.0


#: Nobody keeps the ages in a saved view: they are shown once a kernel hears the view.
_UNHEARD = "--rl-now: none;"
_FADED = ":host > :not(.rl-kernel) { filter: var(--rl-frame-faded, none); }"


class DrawnSignal(JSComponent):
    """Says that the page has drawn it, and with it the view that it is part of, until it is heard.

    From then on it says over the view that the kernel was restarted, is busy or out of reach.
    """

    plot = param.String(default="", doc="The name under which the page knows the view's kernel.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/clock.js", "panels/notebook/kernel.js")
    _stylesheets = [read_assets("panels/notebook/kernel.css")]

    def __init__(self) -> None:
        corner = {"position": "absolute", "inset": "0 0 auto auto"}
        super().__init__(width=0, height=0, margin=0, styles=corner, css_classes=["rl-kernel"])
        self.channels: list[DelayedComm] = []

    def _handle_msg(self, _: Any) -> None:
        for channel in self.channels:
            channel.open()
        self._send_msg("heard")


class NotebookFrame(pn.Column):
    """A view on the theme's background, with the colours and fonts that the board's page gives it elsewhere.

    Parameters
    ----------
    view : Viewable or Viewer
    context : Context, optional
        Held for as long as the view is shown; without it the view would hear of nothing.
    dark : bool
    """

    def __init__(self, view: Any, context: Context | None, dark: bool, **options: Any) -> None:
        self.view, self.context, self._here = view, context, DrawnSignal()
        colors = theme.palette(dark) | {"font": theme.FONT, "mono": theme.MONO}
        variables = "".join(f"--rl-{name}:{value};" for name, value in colors.items())
        super().__init__(
            view,
            self._here,
            sizing_mode="stretch_width",
            margin=0,
            styles={"background": "var(--rl-bg)", "padding": "8px", "position": "relative"},
            stylesheets=[f":host {{{variables}{_UNHEARD}}}", _FADED],
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

    def _render_mimebundle(self, model: Model, doc: Document, comm: Any, location: Any = None) -> Any:
        channel = DelayedComm(comm)
        self._here.channels.append(channel)
        self._here.plot = model.ref["id"]
        for sheet in model.select({"type": ImportedStyleSheet}):
            channel.keep(sheet)
        bundle = super()._render_mimebundle(model, doc, comm, location)
        # What changed while it was built is in it, and would reach a page that is not there yet.
        doc.callbacks._held_events = []
        data, about = bundle
        return {**data, "text/html": _contained(data["text/html"])}, about


class DelayedComm:
    """A view's channel to its browser: opens when the view stands there, and makes later style sheets whole.

    Panel names sheets that the browser has let go of since, and those of a distant host; here each comes
    along, wherever it is named.

    Parameters
    ----------
    comm : Comm
        Sends through this from now on.
    """

    def __init__(self, comm: Any) -> None:
        self._urls: dict[str, str] = {}
        self._waiting: list[tuple[Any, ...]] = []
        self._opens: float = time.monotonic() + PATIENCE
        self._send = comm.send
        comm.send = self.send

    def keep(self, sheet: Any) -> None:
        """Bring along a sheet that is sent with the view itself."""
        sheet.update(url=_local(sheet.url))
        self._urls[sheet.id] = sheet.url

    def open(self) -> None:
        """The view stands: send what waits, and all else at once."""
        self._opens = 0.0
        waiting, self._waiting = self._waiting, []
        for data, rest, options in waiting:
            self._send(data, *rest, **options)

    def send(self, data: Any = None, *rest: Any, **options: Any) -> None:
        """Send as the comm itself does, once the view stands."""
        data = self._whole(data) if isinstance(data, str) else data
        if self._opens > time.monotonic():
            self._waiting.append((data, rest, options))
            return
        if self._waiting:
            self.open()
        self._send(data, *rest, **options)

    def _whole(self, text: str) -> str:
        self._urls |= {id: _local(url) for id, url in _DEFINED.findall(text)}
        return _NAMED.sub(self._copy, _DEFINED.sub(r'{"id":"\1"}', text))

    def _copy(self, found: re.Match[str]) -> str:
        url = self._urls.get(found[1])
        return found[0] if url is None else _SHEET % (uuid4(), url)


def _contained(output: str) -> str:
    """A cell's output whose script no text in it can end: Panel puts texts of the log there as they are."""
    head, opening, rest = output.partition("<script")
    code, closing, tail = rest.rpartition("</script>")
    return f"{head}{opening}{_in_script(code)}{closing}{tail}"


def _local(url: str) -> str:
    """A style sheet of Panel's distribution as an address that holds all of it; other addresses stay."""
    if not url.startswith(CDN_DIST):
        return url
    path = DIST_DIR / url.removeprefix(CDN_DIST).partition("?")[0]
    return f"data:text/css;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else url


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
    return _in_script(json.dumps(code))


def _in_script(code: str) -> str:
    """Code whose strings, as they mean the same, neither end the script around it nor begin a comment."""
    return code.replace("</", "<\\/").replace("<!--", "<\\!--")
