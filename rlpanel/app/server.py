"""Serve the board: one process, one reader, bound to this machine unless told otherwise."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import panel as pn
from bokeh.settings import settings
from tornado.ioloop import PeriodicCallback

from rlpanel.app import access, health
from rlpanel.app.collecting import LOOK, spared
from rlpanel.app.headers import SafetyHeaders
from rlpanel.app.hub import hub
from rlpanel.app.page import DEFAULT_ROOT, resolve_root, session_page
from rlpanel.app.service import Service, service
from rlpanel.sources.files import AnyPath

#: Seconds after which a thread that computes gives way to another that waits. Python's own ten times as much
#: would pass at each call of the system that the event loop makes while the reader is busy.
SWITCH = 0.0005
#: Addresses that stand for all of a machine's.
_ANY = {"0.0.0.0", "::"}


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
    linger : float
        Seconds that a page's session outlives its connection, for a browser that comes back to it.
    """

    host: str = "127.0.0.1"
    port: int = 5006
    token: str = ""
    origins: tuple[str, ...] = ()
    show: bool = False
    linger: float = 15.0

    @property
    def way_in(self) -> str:
        """The path that opens the board."""
        return f"{access.LOGIN}?{urlencode({'token': self.token})}" if self.token else "/"

    @property
    def url(self) -> str:
        """Where others find the board; a wildcard stands for this machine's name."""
        host = socket.gethostname() if self.host in _ANY else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def allowed_origins(self) -> list[str]:
        """Every origin whose pages may talk to the server."""
        own = {self.host, "localhost", "127.0.0.1"}
        if self.host in _ANY:
            own |= {socket.gethostname(), socket.getfqdn()}
        return sorted({f"{name}:{self.port}" for name in own} | set(self.origins))


def serve(root: AnyPath | None, at: Access, *, alerts: bool = False) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    root : path or None
        The folder that holds runs.
    at : Access
    alerts : bool
        Whether runs are followed and findings are sent as the settings say.
    """
    folder = resolve_root(root) or Path(DEFAULT_ROOT)  # which may come later
    with service(hub().reader, folder, at.url) if alerts else nullcontext(Service()) as running:
        health.tell_of(running)
        _run(start(root, at))


def _run(server: Any) -> None:
    """Until SIGINT or SIGTERM."""
    sys.setswitchinterval(SWITCH)
    done = threading.Event()

    def stop(*_: Any) -> None:
        if not done.is_set():
            done.set()
            server.io_loop.add_callback_from_signal(server.io_loop.stop)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
    try:
        with spared(hub()) as look:
            PeriodicCallback(look, LOOK * 1000).start()
            server.io_loop.start()
    finally:
        server.stop(wait=False)
        hub().reader.stop()


def start(root: AnyPath | None, at: Access) -> Any:
    """Start a server without blocking; its loop is the caller's."""
    # Walks all models of a page once more to look for faults of whoever wrote it.
    settings.perform_document_validation = False
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
        unused_session_lifetime_milliseconds=int(at.linger * 1000),
        check_unused_sessions_milliseconds=int(at.linger * 1000),
        use_xheaders=bool(at.origins),  # a proxy says whether the viewer came by https
        **(guarded if at.token else {}),
    )
    server._tornado.add_transform(SafetyHeaders)
    server.start()  # the loop is the caller's; this begins the care for sessions: pings, and their end
    if at.show:
        server.io_loop.add_callback(server.show, at.way_in)
    return server
