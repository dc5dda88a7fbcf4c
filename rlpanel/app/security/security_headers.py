"""HTTP security headers of every response: content security policy, framing, referrer."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import OutputTransform

from rlpanel.errors import SettingError

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
