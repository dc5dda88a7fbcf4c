"""The page of one session: builds the board, its first view, and the parts that follow."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import panel as pn
from panel.viewable import Viewable

from rlpanel.app.board.board import Board
from rlpanel.app.page.page_layout import Layout
from rlpanel.app.page.page_template import apply_template, last_theme
from rlpanel.app.security import request_guard
from rlpanel.app.security.host_and_origin import comes_from_elsewhere
from rlpanel.panel_fixes import closed_pages
from rlpanel.panels.first_view.first_view import first_view_html
from rlpanel.panels.language.labels import set_document_language
from rlpanel.panels.language.preference import LANGUAGE_COOKIE, preferred_language
from rlpanel.panels.session.event_loop import current_loop, take_steps
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.theme import PlainDesign
from rlpanel.runtime import Runtime
from rlpanel.sources.files.file_access import AnyPath, path_of

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
