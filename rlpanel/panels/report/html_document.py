"""An HTML document that carries all it needs, and is forbidden to load or run anything else.

The policy in its head names each script by its hash: a log's text that got past all escaping would still
not run, and no address is ever asked for anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rlpanel.panels.ui.theme import safe_text

_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def document(title: str, style: str, body: str, data: Any, scripts: Sequence[str]) -> bytes:
    """The document as bytes.

    Parameters
    ----------
    title : str
    style : str
        CSS.
    body : str
        HTML, escaped already.
    data : JSON-like
        What scripts find as the text of ``#data``.
    scripts : sequence of str
        Classic scripts, and as the last a module.
    """
    codes = [code.replace("</script", "<\\/script") for code in scripts]
    policy = _POLICY.format(scripts=" ".join(f"'sha256-{_hash(code)}'" for code in codes))
    # "<" may not stand in it: "</script" would end it, "<!--" would hide its end.
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
