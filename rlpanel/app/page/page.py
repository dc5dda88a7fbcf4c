"""The page of one session: its HTML document, its board, its first view, and the parts that follow."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import panel as pn
from bokeh.document import Document
from panel.io.resources import get_dist_path
from panel.viewable import Viewable

from rlpanel.app.board.board import Board
from rlpanel.app.page.page_layout import Layout
from rlpanel.app.security import request_guard
from rlpanel.app.security.http_headers import comes_from_elsewhere
from rlpanel.board_url import DARK_DEFAULT
from rlpanel.panel_fixes import closed_pages
from rlpanel.panel_fixes.early_selects import EARLY_SELECTS
from rlpanel.panel_fixes.overlapping_children import OVERLAPPING_CHILDREN
from rlpanel.panel_fixes.plot_styles import PLAIN_STYLES
from rlpanel.panel_fixes.printf_minus import PRINTF_MINUS
from rlpanel.panels.first_view.first_view import first_view_html
from rlpanel.panels.language.labels import (
    LANGUAGE_COOKIE,
    browser_labels,
    document_language,
    preferred_language,
    set_document_language,
)
from rlpanel.panels.session.event_loop import current_loop, take_steps
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import PlainDesign
from rlpanel.runtime import Runtime
from rlpanel.sources.files.file_access import AnyPath, path_of

# -- page template -------------------------------------------------------------------------------------
# HTML document of the page: the first view comes before all scripts, so the browser paints it at once.
#
# Panel's own template puts style sheets and scripts into the head, where they delay the first paint by
# seconds.


#: Cookie with the theme that the user chose: ``dark`` or ``light``.
THEME_COOKIE = "rlpanel-theme"
#: Cookie with the theme of the browser's system, which the page's script sets at each visit.
SYSTEM_COOKIE = "rlpanel-system-theme"

_TEMPLATE = """
{% block inner_head %}
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title | e }}</title>
<link rel="icon" type="image/png" sizes="32x32" href="{{ dist_url }}images/favicon.ico">
<style>{{ rlpanel_style }}</style>
<script nonce="{{ rlpanel_nonce }}">document.documentElement.lang = "{{ rlpanel_language }}"</script>
<script nonce="{{ rlpanel_nonce }}">globalThis.rlpanelLabels = {{ rlpanel_labels }}</script>
<script nonce="{{ rlpanel_nonce }}">{{ rlpanel_head_script }}</script>
{% endblock %}
{% block inner_body %}
<div id="rl-first">{{ rlpanel_first_view }}</div>
{%- for doc in docs %}{% for root in doc.roots %}{{ embed(root) }}{% endfor %}{% endfor %}
{{ rlpanel_resources(bokeh_css) }}
{{ rlpanel_allowed(rlpanel_resources(bokeh_js), rlpanel_nonce) }}
<script nonce="{{ rlpanel_nonce }}">{{ rlpanel_bokeh_fixes }}</script>
{{ rlpanel_allowed(plot_script, rlpanel_nonce) }}
{% endblock %}
"""
#: Scripts and style sheets that the board does not use. Names that a later version changes are loaded.
_UNUSED = (
    "bokeh-gl.min.js",
    "bokeh-gl.js",
    "font-awesome/css/all.min.css",
)


def last_theme(cookies: Mapping[str, str]) -> str:
    """Return the theme that the user chose, else that of the system at the last visit, else the default."""
    known = (cookies.get(name, "") for name in (THEME_COOKIE, SYSTEM_COOKIE))
    return next((value for value in known if value in ("dark", "light")), "dark" if DARK_DEFAULT else "light")


def apply_template(document: Document, first_view: str) -> None:
    """Give a document the page's template and its first view.

    Parameters
    ----------
    document : Document
    first_view : str
        HTML that is shown until the board is drawn; its texts must already be escaped.
    """
    document.template = _TEMPLATE  # type: ignore[assignment]  # Panel also accepts blocks of a template
    document.template_variables.update(
        rlpanel_first_view=first_view,
        # Panel sets this only when it renders the HTML. A view that a thread creates before would get style
        # sheets of a CDN.
        dist_url=get_dist_path(),
        rlpanel_style="\n".join(
            (
                theme.theme_variables(":root{}"),
                read_assets("app/page/document.css", "panels/first_view/first_view.css"),
            )
        ),
        rlpanel_head_script=read_assets("app/page/theme.js", "app/page/settled.js")
        .replace("SYSTEM_COOKIE", SYSTEM_COOKIE)
        .replace("THEME_COOKIE", THEME_COOKIE),
        rlpanel_language=document_language(document),
        rlpanel_labels=browser_labels(document_language(document)),
        rlpanel_resources=without_unused_scripts,
        rlpanel_allowed=_with_nonce,
        rlpanel_nonce="",
        rlpanel_bokeh_fixes=PLAIN_STYLES + EARLY_SELECTS + OVERLAPPING_CHILDREN + PRINTF_MINUS,
    )


def set_nonce(document: Document, nonce: str) -> None:
    """Set the value by which the content security policy recognises the page's own inline scripts."""
    document.template_variables["rlpanel_nonce"] = nonce


def _with_nonce(tags: str, nonce: str) -> str:
    """Let the content security policy allow the scripts of Bokeh's own tags, which hold no text of a log."""
    begin = r"(^\s*|</script>)<script(?=[\s>])"  # within a script, Bokeh writes no "</script>"
    return re.sub(begin, rf'\1<script nonce="{nonce}"', tags, flags=re.MULTILINE)


def without_unused_scripts(tags: str) -> str:
    """Remove the ``<script>`` and ``<link>`` tags of `_UNUSED` files."""
    names = "|".join(map(re.escape, _UNUSED))
    tags = re.sub(rf'<script[^>]*src="[^"]*(?:{names})[^"]*"[^>]*></script>', "", tags)
    return re.sub(rf'<link[^>]*href="[^"]*(?:{names})[^"]*"[^>]*>', "", tags)


# -- page ----------------------------------------------------------------------------------------------
# The page of one session: builds the board, its first view, and the parts that follow.


DEFAULT_ROOT = "rollout_samples"


def resolve_root(argument: str | os.PathLike[str] | None = None) -> AnyPath | None:
    """Return the root to show: the argument, ``$RLPANEL_ROOT``, or ``./rollout_samples`` if it exists."""
    if argument is not None:
        return path_of(argument)
    if os.environ.get("RLPANEL_ROOT"):
        return path_of(os.environ["RLPANEL_ROOT"])
    return Path(DEFAULT_ROOT) if Path(DEFAULT_ROOT).is_dir() else None


def session_page(
    root: str | os.PathLike[str] | None = None, *, read_only: bool = False, runtime: Runtime | None = None
) -> Viewable:
    """Build the page of the session being served, bind it to the URL and subscribe it to changes.

    Parameters
    ----------
    root : path, optional
    read_only : bool
        Whether the viewer may write nothing.
    runtime : Runtime, optional

    Returns
    -------
    Viewable
        The first root of the document. The board is a second one, which is added when its views are built:
        the HTML is sent before, and the browser loads its scripts in the meantime.
    """
    pn.extension("tabulator", notifications=True)
    pn.config.design = PlainDesign
    # Nothing reads what Panel asks each browser for; the question about WebGL creates a drawing context.
    pn.config.browser_info = False
    # For a view added later, the browser first sends back models that Bokeh already has. Bokeh keeps its own
    # models and warns, which is harmless.
    warnings.filterwarnings("ignore", "reference already known")
    if pn.state.curdoc is not None:
        set_document_language(pn.state.curdoc, _language())
    board = Board(resolve_root(root), read_only=read_only, runtime=runtime)
    _apply_preference(board)
    if pn.state.location is not None:
        query = pn.state.location.search or ""
        board.read_url(query, foreign=comes_from_elsewhere(pn.state.headers, query))
    document, loop = pn.state.curdoc, current_loop()
    if document is not None:
        document.theme = theme.PLOTS
        apply_template(document, first_view_html(board.context))
    if loop is not None:
        closed_pages.ignore_closed_connections(loop.on_loop)
        board.connect(loop)
    layout = Layout(board, owns_window=True)
    served = document if loop is not None else None
    if document is not None:
        document.on_session_destroyed(lambda _: closed_pages.release_page(document, layout.root))
    take_steps(loop, layout.steps(served))
    return layout.root if served is None or layout.window is None else layout.window


def _apply_preference(board: Board) -> None:
    """Apply the theme of the last visit; at a first visit, the browser reports the system's theme later."""
    board.context.selection.dark = last_theme(pn.state.cookies) == "dark"


def _language() -> str:
    """Return the language that the request asks for."""
    accepted = pn.state.headers.get("Accept-Language")
    return preferred_language(
        pn.state.cookies.get(LANGUAGE_COOKIE), accepted if isinstance(accepted, str) else None
    )


def servable() -> None:
    """Serve the board from a script: ``panel serve dashboards/board.py [--args ROOT]``."""
    request_guard.install()
    session_page(sys.argv[1] if len(sys.argv) > 1 else None).servable(title="rlpanel")
