"""Cursors of answers: where the next rows of a question begin. The server keeps nothing for them.

A cursor names the question that it belongs to, as a digest of the tool and its arguments. With other
arguments it is refused, so that rows of two questions are not taken for those of one.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rlpanel.errors import SettingError

#: Most characters of a cursor.
MAX_CHARS = 120
#: Arguments that may differ from page to page.
_FREE = ("cursor", "detail", "limit", "last")
_FORM = re.compile(r"(\d{1,15})\.(\d{1,15})\.([0-9a-f]{12})")


@dataclass(frozen=True)
class PageCursor:
    """The place of a page.

    Attributes
    ----------
    skip : int
        Rows of the pages before.
    total : int
        Rows that existed when the first page was returned; 0 for the first page.
    """

    skip: int = 0
    total: int = 0


def question_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return what distinguishes a question from others; the number of rows on a page does not matter."""
    asked = {name: value for name, value in arguments.items() if name not in _FREE}
    text = json.dumps([tool, asked], sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def written(cursor: PageCursor, digest: str) -> str:
    """Return a cursor as a text for agents."""
    text = f"{cursor.skip}.{cursor.total}.{digest}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read(text: str, digest: str) -> PageCursor:
    """Return the cursor that a text describes; an empty one is the first page.

    Raises
    ------
    SettingError
        If the text is no cursor, or belongs to another question.
    """
    if not text:
        return PageCursor()
    try:
        found = _FORM.fullmatch(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii"))
    except (binascii.Error, ValueError):
        found = None
    if found is None:
        raise SettingError("this is no cursor: pass next of the answer before, as it is")
    if found[3] != digest:
        raise SettingError(
            "the cursor belongs to another question: repeat the arguments of the first call, or leave it out"
        )
    return PageCursor(int(found[1]), int(found[2]))
