"""Self-contained HTML document whose content security policy forbids loading or running anything else.

The policy allows only scripts with the given hashes. Even if a text of the log evaded all escaping, it could
not run as a script, and the page never sends a request.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rlpanel.panels.ui.theme import safe_text

_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; {media}"
    "base-uri 'none'; form-action 'none'"
)


def document(
    title: str, style: str, body: str, data: Any, scripts: Sequence[str], *, plays_media: bool = False
) -> bytes:
    """Return the document as bytes.

    Parameters
    ----------
    title : str
    style : str
        CSS.
    body : str
        HTML; its texts must already be escaped.
    data : JSON-like
        Data for the scripts, stored as text of the element ``#data``.
    scripts : sequence of str
        Classic scripts; the last one is a module.
    plays_media : bool
        Whether the body has players of audio or video that is embedded as data URLs.
    """
    codes = [code.replace("</script", "<\\/script") for code in scripts]
    hashes = " ".join(f"'sha256-{_hash(code)}'" for code in codes)
    policy = _POLICY.format(scripts=hashes, media="media-src data:; " if plays_media else "")
    # Escape "<" in the JSON: "</script" would end the element, and "<!--" would hide its end.
    packed = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    classic = "".join(f"<script>{code}</script>\n" for code in codes[:-1])
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{safe_text(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{safe_text(title)}</title>\n<style>{style}</style></head>\n<body>{body}\n"
        f'<script type="application/json" id="data">{packed}</script>\n{classic}'
        f'<script type="module">{codes[-1]}</script>\n</body></html>\n'
    ).encode("utf-8", "replace")


def _hash(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
