"""What every answer of the server tells the browser not to do."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders
from tornado.web import OutputTransform

#: Nothing is loaded from, sent to or shown inside another origin. Bokeh's page has inline scripts and
#: compiles callbacks, and Panel's components are modules made in the page: those need what stands at script.
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


class SafetyHeaders(OutputTransform):
    """Adds `HEADERS` to every answer; give it to ``tornado.web.Application.add_transform``."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Called by tornado before the first bytes leave."""
        for name, value in HEADERS.items():
            headers[name] = value
        return status_code, headers, chunk
