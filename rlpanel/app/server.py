"""Serve the board: one process, one reader, bound to this machine unless told otherwise."""

from __future__ import annotations

import os
import signal
import socket
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import panel as pn

from rlpanel.app import access, health
from rlpanel.app.headers import SafetyHeaders
from rlpanel.app.hub import hub
from rlpanel.app.page import session_page
from rlpanel.sources.files import AnyPath


@dataclass(frozen=True)
class Access:
    """Where to listen and whom to let in.

    Attributes
    ----------
    host, port : str, int
        Where to listen.
    token : str
        Asked of every viewer; empty lets in all who reach the port.
    origins : tuple of str
        Further ``host:port`` under which browsers reach the board, such as a proxy's; pages of all other
        origins are refused.
    show : bool
        Open a browser here.
    """

    host: str = "127.0.0.1"
    port: int = 5006
    token: str = ""
    origins: tuple[str, ...] = ()
    show: bool = False

    @property
    def way_in(self) -> str:
        """The path that opens the board."""
        return f"{access.LOGIN}?{urlencode({'token': self.token})}" if self.token else "/"

    @property
    def allowed_origins(self) -> list[str]:
        """Every origin whose pages may talk to the server."""
        own = {self.host, "localhost", "127.0.0.1"}
        if self.host in {"0.0.0.0", "::"}:
            own |= {socket.gethostname(), socket.getfqdn()}
        return sorted({f"{name}:{self.port}" for name in own} | set(self.origins))


def serve(root: AnyPath | None, at: Access) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    root : path or None
        The folder that holds runs.
    at : Access
    """
    server = start(root, at)
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


def start(root: AnyPath | None, at: Access) -> Any:
    """Start a server without blocking; its loop is the caller's."""
    where = str(root) if root is not None else os.environ.get("RLPANEL_ROOT")
    guarded = {"auth_provider": access.TokenAccess(at.token), "cookie_secret": access.new_token()}
    server = pn.serve(
        {"/": lambda: session_page(where)},
        title="rlpanel",
        address=at.host,
        port=at.port,
        show=False,
        start=False,
        websocket_origin=at.allowed_origins,
        extra_patterns=health.PATTERNS,
        liveness=True,
        threaded=False,
        verbose=True,
        **(guarded if at.token else {}),
    )
    server._tornado.add_transform(SafetyHeaders)
    if at.show:
        server.io_loop.add_callback(server.show, at.way_in)
    return server
