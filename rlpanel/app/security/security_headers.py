"""HTTP security headers of every response: content security policy, framing, referrer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import OutputTransform

from rlpanel.errors import SettingError

#: Content security policy: nothing may be loaded from, sent to or embedded in another origin. Bokeh uses
#: inline scripts and compiles callbacks; Panel loads components from blobs: hence those in ``script-src``.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' blob: data:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


#: Headers of audio and video from a log. A browser that shows such an answer as a page runs nothing.
MEDIA_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Content-Disposition": "inline",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Accept-Ranges": "bytes",
    "Cache-Control": "no-store",
}
_POLICY = "Content-Security-Policy"


_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")


def page_headers(embed_in: Sequence[str] = ()) -> dict[str, str]:
    """Return the headers of every response of a board that pages of these origins may embed.

    Raises
    ------
    SettingError
        If an origin is not ``https://host`` or ``https://host:port``.
    """
    for origin in embed_in:
        if not _ORIGIN.fullmatch(origin):
            raise SettingError(
                f"{origin!r} is no origin of a page; write it as https://host or https://host:port"
            )
    if not embed_in:
        return HEADERS
    policy = POLICY.replace("frame-ancestors 'self'", " ".join(("frame-ancestors 'self'", *embed_in)))
    # X-Frame-Options cannot name an origin, and browsers use frame-ancestors instead.
    return {name: value for name, value in HEADERS.items() if name != "X-Frame-Options"} | {_POLICY: policy}


class SafetyHeaders(OutputTransform):
    """Adds headers to every response; pass it to ``tornado.web.Application.add_transform``.

    Media keep their own policy, which is stricter.

    Parameters
    ----------
    request : HTTPServerRequest
    headers : dict
        The headers to add, as `page_headers` returns them.
    """

    def __init__(self, request: HTTPServerRequest, headers: dict[str, str] = HEADERS) -> None:
        super().__init__(request)
        self._headers = headers

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers; called by Tornado before the response is sent."""
        is_media = headers.get(_POLICY) == MEDIA_HEADERS[_POLICY]
        for name, value in self._headers.items():
            if not (is_media and name == _POLICY):
                headers[name] = value
        return status_code, headers, chunk
