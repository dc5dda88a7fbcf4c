"""HTTP security headers of every response: content security policy, framing, referrer."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders
from tornado.web import OutputTransform

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


class SafetyHeaders(OutputTransform):
    """Adds `HEADERS` to every response; pass it to ``tornado.web.Application.add_transform``.

    Media keep their own policy, which is stricter.
    """

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers; called by Tornado before the response is sent."""
        is_media = headers.get(_POLICY) == MEDIA_HEADERS[_POLICY]
        for name, value in HEADERS.items():
            if not (is_media and name == _POLICY):
                headers[name] = value
        return status_code, headers, chunk
