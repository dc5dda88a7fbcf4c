"""Serve the board: one process, one reader, bound to this machine unless told otherwise."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import panel as pn

from rlpanel.app.hub import hub
from rlpanel.app.page import session_page


def serve(root: Path | None, *, host: str = "127.0.0.1", port: int = 5006, show: bool = False) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    root : Path or None
        The folder that holds runs.
    host, port : str, int
        Where to listen; other origins than this address are refused.
    show : bool
        Open a browser.
    """
    server = start(root, host=host, port=port, show=show)
    done = threading.Event()

    def stop(*_: Any) -> None:
        if not done.is_set():
            done.set()
            server.io_loop.add_callback_from_signal(server.io_loop.stop)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    try:
        server.io_loop.start()
    finally:
        server.stop(wait=False)
        hub().reader.stop()


def start(root: Path | None, *, host: str, port: int, show: bool = False) -> Any:
    """Start a server without blocking; its loop is the caller's."""
    where = str(root) if root is not None else os.environ.get("RLPANEL_ROOT")
    origins = [f"{name}:{port}" for name in {host, "localhost", "127.0.0.1"}]
    return pn.serve(
        {"/": lambda: session_page(where)},
        title="rlpanel",
        address=host,
        port=port,
        show=show,
        start=False,
        websocket_origin=origins,
        liveness=True,
        threaded=False,
        verbose=True,
    )
