"""Limits of connections: clients that connect and send nothing must not use up the file descriptors.

Tornado accepts without a limit (``tornado.netutil.add_accept_handler``). When no descriptor is left,
``accept`` fails with EMFILE, its handler logs a traceback, and the event loop calls it again at once. Tornado
also believes ``X-Real-Ip`` and ``X-Scheme`` (``tornado.httpserver._HTTPRequestContext``), which most proxies
pass on from the client.

The network of a client: what is counted and limited as one client.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream


def network_of(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address: one client owns all of it."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

#: Most open connections. An idle one takes about 20 KB.
MAX_CONNECTIONS = 4096
#: Descriptors that are kept for files, at least; and the largest number of descriptors to ask the system for.
FOR_FILES, WANTED = 64, 65_536
#: Seconds between two messages about the same limit.
LOG_EVERY = 60.0
#: Seconds to wait if no descriptor can be had at all.
PAUSE = 0.05
#: Headers of a client that Tornado would take for a proxy's.
FORGEABLE = ("X-Real-Ip", "X-Scheme")
_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as it may without more rights."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Return how many connections may be open, so that descriptors are left for files."""
    limit = resource.RLIM_INFINITY if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if resource is None or limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, limit - max(FOR_FILES, limit // 4)))


@contextmanager
def bounded_servers() -> Iterator[None]:
    """Let all Tornado servers that are created in the block be a `BoundedServer`; Bokeh creates its own."""
    before = HTTPServer.configured_class()
    HTTPServer.configure(BoundedServer)
    try:
        yield
    finally:
        HTTPServer.configure(before)


class BoundedServer(HTTPServer):
    """Has at most `most` connections, and half of them with one client.

    Beyond, a new connection takes the place of the one that has waited longest for a complete request. If
    none waits, the new one is closed. Behind a proxy all clients count as one.
    """

    def initialize(self, *arguments: Any, **options: Any) -> None:
        """Set up the server (called by Tornado)."""
        super().initialize(*arguments, **options)
        self.most = most_connections()
        self._share = max(1, self.most // 2)
        self._open: WeakKeyDictionary[IOStream, str] = WeakKeyDictionary()
        self._waiting: dict[IOStream, None] = {}  # the one that has waited longest is first
        self._crowded = _RareWarning(
            f"closed idle connections, %d so far: more than {self.most} were open, or {self._share} of one "
            "client; a higher ulimit -n allows more"
        )
        self._exhausted = _RareWarning(
            "closed connections, %d so far: no file descriptor was left; set a higher ulimit -n"
        )

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on sockets."""
        super().add_sockets([_Listener(each, self._shed) for each in sockets])

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Take a new connection, if there is room for it."""
        client = network_of(str(address[0])) if address else ""
        if len(self._open) >= self._share and not self._make_room(client):
            stream.close()
            return
        self._open[stream] = client
        self._waiting[stream] = None
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """Begin to wait for the next request of a connection."""
        stream = request_conn.stream
        self._waiting.pop(stream, None)
        self._waiting[stream] = None
        return _ArrivingRequest(
            super().start_request(server_conn, request_conn), lambda: self._waiting.pop(stream, None)
        )

    def on_close(self, server_conn: Any) -> None:
        """Forget a connection that closed, or that became a websocket."""
        self._waiting.pop(server_conn.stream, None)
        super().on_close(server_conn)

    def _make_room(self, client: str) -> bool:
        """Return True if one more connection of a client may be open, after closing another one if needed."""
        clients = Counter(of for stream, of in list(self._open.items()) if not stream.closed())
        if clients.total() < self.most and clients[client] < self._share:
            return True
        self._crowded.say()
        return self._end_waiting(client if clients[client] >= self._share else None)

    def _end_waiting(self, client: str | None = None) -> bool:
        """Close the connection that has waited longest for a request, of one client if it is given."""
        for stream in self._waiting:
            if not stream.closed() and client in {None, self._open.get(stream)}:
                del self._waiting[stream]
                stream.close()
                return True
        return False

    def _shed(self) -> bool:
        """Free a descriptor for the connection that is to be accepted."""
        self._exhausted.say()
        return self._end_waiting()


class _ArrivingRequest(HTTPMessageDelegate):
    """Passes a request on without forgeable headers, and reports when it is complete."""

    def __init__(self, inner: HTTPMessageDelegate, arrived: Callable[[], object]) -> None:
        self._inner, self._arrived = inner, arrived

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        for name in FORGEABLE:
            headers.pop(name, None)
        return self._inner.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._inner.data_received(chunk)

    def finish(self) -> None:
        self._arrived()
        self._inner.finish()

    def on_connection_close(self) -> None:
        self._inner.on_connection_close()


class _Listener(socket.socket):
    """A listening socket that accepts, and closes, a connection even if no descriptor is left.

    Parameters
    ----------
    listening : socket
        Its descriptor is taken over.
    free_one : callable
        Frees a descriptor; returns False if it cannot.
    """

    def __init__(self, listening: socket.socket, free_one: Callable[[], bool]) -> None:
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        self._free_one = free_one
        self._reserve = _reserve()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; BlockingIOError, as if none were waiting, after one was closed."""
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
        try:
            if self._free_one():
                return super().accept()
            self._close_one()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
            time.sleep(PAUSE)  # else the event loop would call again at once
        raise BlockingIOError

    def close(self) -> None:
        """Close the socket and the descriptor in reserve."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        super().close()

    def _close_one(self) -> None:
        """Accept a connection by the descriptor in reserve, and close it: its client would wait otherwise."""
        if self._reserve is not None:
            os.close(self._reserve)
        try:
            super().accept()[0].close()
        finally:
            self._reserve = _reserve()


def _reserve() -> int | None:
    """Return a descriptor that can be closed when one is needed; None if there is none left."""
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return None


class _RareWarning:
    """Logs a sentence with the number of times: at once, and then at most once a minute.

    Parameters
    ----------
    sentence : str
        Contains ``%d``.
    """

    def __init__(self, sentence: str) -> None:
        self._sentence, self._count, self._logged = sentence, 0, 0.0

    def say(self) -> None:
        """Count, and log if the last message is long ago."""
        self._count += 1
        now = time.monotonic()
        if not self._logged or now - self._logged > LOG_EVERY:
            log.warning(self._sentence, self._count)
            self._logged = now
