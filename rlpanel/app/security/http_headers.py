"""Headers of HTTP: host and origin of each request, and the security headers of each response."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import OutputTransform

from rlpanel.errors import SettingError

# -- host and origin -----------------------------------------------------------------------------------
# Host and origin of a request: the server's name in the browser, and the page that led there.
#
# A page on a foreign site can make its own name resolve to 127.0.0.1 (DNS rebinding). The browser then treats
# the board as part of that site. The Host header still carries the foreign name, so the server checks it.
#
# Any web page can send a browser to the board, with a search that takes long. So what costs much in a link
# that the viewer did not choose waits for the viewer.


#: Addresses that stand for all network interfaces of this machine.
WILDCARDS = frozenset({"0.0.0.0", "::", ""})
#: Names under which this machine reaches itself.
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = (":80", ":443")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def host_name(netloc: str) -> str:
    """Return the host of ``host:port`` in lower case, without brackets; empty if it is malformed."""
    try:
        parts = urlsplit(f"//{netloc}")
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError:
        return ""
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return ""
    return (parts.hostname or "").rstrip(".")


class AllowedHosts:
    """Decides which Host and Origin headers belong to this server.

    Parameters
    ----------
    address : str
        The address that the server listens on.
    origins : tuple of str
        Further ``host:port`` of proxies; the port may be left out for 80 and 443.
    """

    def __init__(self, address: str, origins: tuple[str, ...] = ()) -> None:
        self.origins = frozenset(_without_default_port(origin) for origin in origins)
        names = {*LOOPBACK_NAMES, *map(host_name, origins), address.strip("[]").lower()}
        if not is_loopback(address):
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self.names = frozenset(names - {""})

    def allows_host(self, request: HTTPServerRequest) -> bool:
        """Return True if the Host header names this server.

        The port is not compared: a tunnel may use another port on the viewer's machine. The address that the
        connection arrived at is allowed too, since a literal address cannot be rebound by DNS.
        """
        name = host_name(request.headers.get("Host", ""))
        return bool(name) and (name in self.names or name == _arrived_at(request))

    def allows_origin(self, request: HTTPServerRequest) -> bool:
        """Return True if the request has no Origin header, or one of this server or of a named proxy."""
        origin = request.headers.get("Origin")
        if origin is None:
            return True
        scheme, _, netloc = origin.partition("://")
        if scheme not in {"http", "https"}:
            return False
        host = request.headers.get("Host", "").lower()
        return netloc.lower() == host or _without_default_port(netloc) in self.origins


def _without_default_port(netloc: str) -> str:
    netloc = netloc.lower()
    return next((netloc.removesuffix(port) for port in _DEFAULT_PORTS if netloc.endswith(port)), netloc)


def _arrived_at(request: HTTPServerRequest) -> str:
    """Return the address of this machine's end of the connection; empty if it is not known."""
    stream = getattr(request.connection, "stream", None)
    try:
        address = str(stream.socket.getsockname()[0]) if stream is not None else ""
    except (AttributeError, OSError, IndexError):
        return ""
    return address.partition("%")[0].removeprefix("::ffff:")


#: Header by which browsers say who made a request: nobody (a typed address), or a page of the board.
SITE_HEADER, _OWN = "Sec-Fetch-Site", ("none", "same-origin")
#: Argument of an address to which the login leads: the page before the login is not known.
_HELD = "held"


def comes_from_elsewhere(headers: Mapping[str, object], query: str) -> bool:
    """Return whether another site, or the login, led to an address with this query string.

    A request without the header, as of a script, counts as the viewer's own.
    """
    site = headers.get(SITE_HEADER, "none")
    return site not in _OWN or _HELD in parse_qs(query.lstrip("?"))


def after_login(target: str) -> str:
    """Return the address to which the login leads, marked as one that the viewer may not have chosen."""
    return f"{target}&{_HELD}=1" if "?" in target else target


# -- security headers ----------------------------------------------------------------------------------
# HTTP security headers of every response: content security policy, framing, referrer.


POLICY_HEADER = "Content-Security-Policy"
#: Content security policy of an answer that states no other one. A browser that shows it runs nothing.
STRICT = "default-src 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
#: Headers of audio and video from a log. A browser that shows such an answer as a page runs nothing.
MEDIA_HEADERS = {
    POLICY_HEADER: "default-src 'none'; sandbox",
    "Content-Disposition": "inline",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Accept-Ranges": "bytes",
    "Cache-Control": "no-store",
}
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")


def page_policy(nonce: str) -> str:
    """Return the content security policy of the board's page.

    Nothing may be loaded from, sent to or embedded in another origin. Only inline scripts with the nonce run.
    Bokeh compiles the code of callbacks, and Panel loads components from blobs: hence ``'unsafe-eval'`` and
    ``blob:``, see ``docs/security.md``.
    """
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval' blob:",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self' blob: data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        )
    )


def form_policy(style: str, script: str) -> str:
    """Return the policy of a page with a form, which has this one inline style and at most one script."""
    runs = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; style-src {_hash(style)}; {runs}base-uri 'none'; form-action 'self'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def check_origins(embed_in: Sequence[str]) -> None:
    """Raise `SettingError` for an origin that is not ``https://host`` or ``https://host:port``."""
    for origin in embed_in:
        if not _ORIGIN.fullmatch(origin):
            raise SettingError(
                f"{origin!r} is no origin of a page; write it as https://host or https://host:port"
            )


class SafetyHeaders(OutputTransform):
    """Adds headers to every response; pass it to ``tornado.web.Application.add_transform``.

    Parameters
    ----------
    request : HTTPServerRequest
    embed_in : sequence of str
        Origins whose pages may show the answers in a frame.
    """

    def __init__(self, request: HTTPServerRequest, embed_in: Sequence[str] = ()) -> None:
        super().__init__(request)
        self._embed_in = embed_in

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers; called by Tornado before the response is sent."""
        for name, value in HEADERS.items():
            headers[name] = value
        frames = " ".join(("frame-ancestors 'self'", *self._embed_in))
        headers[POLICY_HEADER] = f"{headers.get(POLICY_HEADER, STRICT)}; {frames}"
        if self._embed_in:
            # It cannot name an origin, and browsers use frame-ancestors instead.
            del headers["X-Frame-Options"]
        return status_code, headers, chunk
