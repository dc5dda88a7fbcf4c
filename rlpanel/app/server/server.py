"""Server of the board: one process with one reader, its garbage collections and its compressed files."""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.settings import settings
from tornado.ioloop import PeriodicCallback
from tornado.web import RequestHandler, StaticFileHandler

from rlpanel.app.page.page import DEFAULT_ROOT, SYSTEM_COOKIE, THEME_COOKIE, resolve_root, session_page
from rlpanel.app.security import login
from rlpanel.app.security.bounded_server import bounded_servers, raise_descriptor_limit
from rlpanel.app.security.http_headers import SITE_HEADER, AllowedHosts, SafetyHeaders
from rlpanel.app.security.login import TokenAuth
from rlpanel.app.security.page_sessions import PageLimit, PageSessions
from rlpanel.app.security.request_guard import RefusalHandler, RequestGuard, guard_rule
from rlpanel.app.server.access import Access
from rlpanel.app.server.background_service import SIGNALS, Service, forced_end, reported_state, service
from rlpanel.app.server.health_endpoint import Observed, health_routes
from rlpanel.app.server.mcp_endpoint import mcp_routes
from rlpanel.app.server.page_endpoints import media_routes, show_routes
from rlpanel.app.server.page_handlers import MAX_MESSAGE, PageSocket, own_routes
from rlpanel.panel_fixes.server_pages import begun_pages, tornado_application
from rlpanel.panels.language.labels import LANGUAGE_COOKIE
from rlpanel.panels.session.session_hub import SessionHub
from rlpanel.runtime import Runtime, default_runtime
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.columns.page_memory import return_free_memory

# -- garbage collection --------------------------------------------------------------------------------
# Limits Python's full garbage collections to new objects; old ones are checked after pages were closed.
#
# An open page consists of very many long-lived objects. A full collection visits all of them, 25 ms per page.
# With fifty open pages it would repeatedly block the event loop for over a second without freeing anything.


#: All objects are collected when the closed pages exceed this share of the open ones,
PART = 0.25
#: and after this many seconds in any case.
EVERY = 600.0
#: Seconds between two checks of these conditions.
CHECK_SECONDS = 10.0


@contextmanager
def exclude_old_objects(
    hub: SessionHub, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[], None]]:
    """Exclude objects that survived a full collection from later collections.

    Parameters
    ----------
    hub : SessionHub
        Counts the open and the closed pages.
    clock : callable
        Returns seconds.

    Yields
    ------
    callable
        Call it every `CHECK_SECONDS` seconds: it collects all unused objects if that is due.
    """
    last, closed = clock(), hub.left

    def freeze_survivors(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    def collect_if_due() -> None:
        nonlocal last, closed
        if hub.left - closed > PART * hub.sessions or clock() - last > EVERY:
            last, closed = clock(), hub.left
            gc.unfreeze()
            gc.collect()

    gc.callbacks.append(freeze_survivors)
    try:
        yield collect_if_due
    finally:
        gc.callbacks.remove(freeze_survivors)
        gc.unfreeze()


# -- compressed files ----------------------------------------------------------------------------------
# Serves scripts and style sheets compressed: a page loads 3.4 MB of them, often through a slow tunnel.
#
# Tornado can compress responses by itself, but it does so for each request, and on the event loop. Here a
# file is compressed once, on a thread.


#: Types of files that are compressed, and the smallest size in bytes for which that is worth it.
TYPES, MIN_BYTES = (".js", ".mjs", ".css", ".svg", ".json"), 1024
#: Level of gzip: the highest takes half as long again, for less than 1 % fewer bytes.
LEVEL = 6

_lock = threading.Lock()
#: Path → time of the last change in ns, and compressed content.
_compressed: dict[str, tuple[int, bytes]] = {}


def compress_routes(rules: Iterable[Any]) -> None:
    """Let the static file handlers of Tornado routes answer with compressed files.

    Parameters
    ----------
    rules : iterable of tornado.routing.Rule
    """
    for rule in rules:
        handler = rule.target
        if isinstance(handler, type) and issubclass(handler, StaticFileHandler):
            rule.target = type(f"Compressed{handler.__name__}", (CompressedFiles, handler), {})


def compressed(path: str) -> bytes | None:
    """Return a file's content in gzip format; None if compression is not worth it. Thread-safe.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    file = Path(path)
    status = file.stat()
    if file.suffix not in TYPES or status.st_size < MIN_BYTES:
        return None
    with _lock:
        changed, content = _compressed.get(path, (0, b""))
        if changed != status.st_mtime_ns:
            content = gzip.compress(file.read_bytes(), LEVEL, mtime=0)
            _compressed[path] = status.st_mtime_ns, content
    return content


class CompressedFiles(StaticFileHandler):
    """Static file handler that sends gzip to clients that accept it, unless they ask for a part of a file."""

    _content: bytes | None = None

    async def get(self, path: str, include_body: bool = True) -> None:
        """Answer a GET or HEAD request."""
        self.path = self.parse_url_path(path)
        found = self.validate_absolute_path(self.root, self.get_absolute_path(self.root, self.path))
        headers = self.request.headers
        if found is not None and "gzip" in headers.get("Accept-Encoding", "") and "Range" not in headers:
            # For large files the compression would hold the event loop.
            self._content = await asyncio.get_running_loop().run_in_executor(None, compressed, found)
        if self._content is not None:
            self.get_content = partial(_parts, self._content)  # type: ignore[method-assign,assignment]
        await super().get(path, include_body)

    def set_headers(self) -> None:
        """Add the encoding to the headers; caches must not mix it up with the plain file."""
        super().set_headers()
        self.set_header("Vary", "Accept-Encoding")
        if self._content is not None:
            self.set_header("Content-Encoding", "gzip")

    def get_content_size(self) -> int:
        """Return the number of bytes that are sent."""
        return super().get_content_size() if self._content is None else len(self._content)

    def compute_etag(self) -> str | None:
        """Return the file's tag; that of the compressed file is another one."""
        tag = super().compute_etag()
        return tag if tag is None or self._content is None else f'{tag[:-1]}-gzip"'


def _parts(content: bytes, *_: Any) -> Iterable[bytes]:
    """Return the content in parts, as Tornado sends a file: other requests are answered in between."""
    size = 64 << 10
    return (content[start : start + size] for start in range(0, len(content), size))


# -- server --------------------------------------------------------------------------------------------
# Server of the board: one process with one reader; it listens on this machine only by default.


log = logging.getLogger(__name__)

#: Python's thread switch interval in seconds. After each system call the event loop waits for a busy reader
#: thread to release the interpreter; with Python's default of ten times as much, pages respond slowly.
SWITCH = 0.0005
#: Limits of requests: bytes of a body (only the login form has one), and seconds for the body and for the
#: headers, counted from the last request.
_LIMITS = {"max_body_size": 64 << 10, "body_timeout": 30.0, "idle_connection_timeout": 30.0}


def serve(
    root: AnyPath | None, at: Access, *, alerts: bool = False, on_ready: Callable[[], object] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    root : path or None
        The folder that holds runs.
    at : Access
    alerts : bool
        Whether to follow live runs and send findings, as far as the settings ask for it.
    on_ready : callable, optional
        Called when browsers can connect.
    """
    raise_descriptor_limit()
    folder = resolve_root(root) or Path(DEFAULT_ROOT)  # it may be created later
    with (
        Runtime() as runtime,
        forced_end(),
        service(runtime, folder, at.url) if alerts else nullcontext(Service()) as running,
    ):
        server = start(root, at, runtime, running)
        if on_ready is not None:
            server.io_loop.add_callback(on_ready)
        _run(server, runtime)


def _run(server: Any, runtime: Runtime) -> None:
    """Run the event loop until SIGINT or SIGTERM, then close the runtime."""
    sys.setswitchinterval(SWITCH)
    done = threading.Event()

    def stop(*_: Any) -> None:
        if not done.is_set():
            done.set()
            server.io_loop.add_callback_from_signal(server.io_loop.stop)

    for name in SIGNALS:
        signal.signal(name, stop)
    try:
        with exclude_old_objects(runtime.hub) as collect_if_due, reported_state(server.io_loop):
            PeriodicCallback(collect_if_due, CHECK_SECONDS * 1000).start()
            server.io_loop.start()
    finally:
        server.stop(wait=False)
        runtime.close()


def start(
    root: AnyPath | None, at: Access, runtime: Runtime | None = None, running: Service | None = None
) -> Any:
    """Start a server without blocking; the caller runs its event loop.

    Parameters
    ----------
    root : path or None
    at : Access
    runtime : Runtime, optional
        What the server's sessions share; by default that of the process. The caller closes it.
    running : Service, optional
        Background tasks that ``/health`` reports on.
    """
    runtime = runtime or default_runtime()
    observed = Observed(runtime, running or Service())
    return_free_memory()
    # Bokeh traverses all models of a page again, and inspects the signature of each callback, only to find
    # mistakes of the page's author.
    settings.perform_document_validation = False
    settings.perform_error_diagnostics = False
    session_root = str(root) if root is not None else os.environ.get("RLPANEL_ROOT")
    auth = TokenAuth(at.token, at.port) if at.token else None
    sessions = PageSessions(auth, lambda: begun_pages(application))
    routes = [
        *health_routes(observed),
        *media_routes(runtime),
        *mcp_routes(runtime, (resolve_root(session_root) or Path(DEFAULT_ROOT)).resolve(), at.url),
        *show_routes(runtime),
        *(login.routes(auth, sessions.end) if auth else []),
    ]
    with bounded_servers():
        server = pn.serve(
            {"/": lambda: session_page(session_root, read_only=at.read_only, runtime=runtime)},
            title="rlpanel",
            address=at.host,
            port=at.port,
            show=False,
            start=False,
            extra_patterns=routes,
            threaded=False,
            verbose=False,
            unused_session_lifetime_milliseconds=int(at.linger * 1000),
            check_unused_sessions_milliseconds=int(at.linger * 1000),
            use_xheaders=bool(at.origins),  # a proxy reports whether the viewer uses https
            http_server_kwargs=dict(_LIMITS),
            websocket_max_message_size=MAX_MESSAGE,
            sign_sessions=True,
            secret_key=secrets.token_bytes(32),
            # Others would be contained in the page, and scripts could read the session cookie.
            include_headers=["Accept-Language", SITE_HEADER],
            include_cookies=[THEME_COOKIE, SYSTEM_COOKIE, LANGUAGE_COOKIE],
            auth=auth,
            log_function=_log_request,
        )
    application = tornado_application(server)
    limit = PageLimit(at.max_pages, sessions.addresses, shared=bool(at.origins))
    compress_routes(application.wildcard_router.rules)
    own_routes(application.wildcard_router.rules, sessions, limit)
    runtime.media.served = True
    _guard(application, at, auth, limit)
    application.add_transform(partial(SafetyHeaders, embed_in=at.embed_in))
    server.start()  # starts the periodic session tasks: pings and removal of expired sessions
    if at.show:
        server.io_loop.add_callback(server.show, at.login_path)
    return server


def _guard(application: Any, at: Access, auth: TokenAuth | None, limit: PageLimit) -> None:
    """Put the request guard before all routes of a Bokeh server's application."""
    rules = list(application.wildcard_router.rules)
    guard = RequestGuard(rules, AllowedHosts(at.host, at.origins), auth, limit, bool(at.embed_in))
    application.default_router.rules.insert(0, guard_rule(guard))
    # The guard has checked Host and Origin. Bokeh's own check refuses a tunnel's port and lacks IPv6 support.
    application.websocket_origins.add("*")


def _log_request(handler: RequestHandler) -> None:
    """Log server errors only; refused requests of strangers would fill the log."""
    refused = isinstance(handler, RefusalHandler | PageSocket)
    if handler.get_status() >= 500 and not refused:
        request = handler.request
        log.error("%d %s %s", handler.get_status(), request.method, request.path[:200])
