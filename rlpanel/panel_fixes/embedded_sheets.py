"""Style sheets of Panel's distribution as ``data:`` URLs, which need no network.

Upstream: https://github.com/holoviz/panel/pull/8708
Needed by: Panel 1.9.0 to 1.9.3
Delete when: the oldest supported Panel is 1.9.4, and notebooks without network look right without it.
"""

from __future__ import annotations

import base64
import re
from functools import cache

from panel.io.resources import CDN_DIST, DIST_DIR

_SHEET = re.compile(re.escape(CDN_DIST) + r"[\w./-]+\.css(?:\?[\w.=&-]*)?")


@cache
def embedded_sheet(url: str) -> str:
    """Return a style sheet of Panel's distribution as a ``data:`` URL; other URLs are returned unchanged."""
    if not url.startswith(CDN_DIST):
        return url
    path = DIST_DIR / url.removeprefix(CDN_DIST).partition("?")[0]
    return f"data:text/css;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else url


def embed_sheets(text: str) -> str:
    """Replace the URLs of Panel's style sheets in HTML or JSON."""
    return _SHEET.sub(lambda found: embedded_sheet(found[0]), text)
