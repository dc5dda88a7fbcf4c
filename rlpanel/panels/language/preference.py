"""Chooses the language of a page: the viewer's choice, else the browser's, else English."""

from __future__ import annotations

import re

from rlpanel.panels.language.labels import CHINESE, ENGLISH, LANGUAGES

#: Cookie with the viewer's choice: a key of `LANGUAGES`.
LANGUAGE_COOKIE = "rlpanel-language"
#: Characters of ``Accept-Language`` that are read, so that no request takes long.
_MAX_CHARS = 400
_PART = re.compile(r"\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?\s*", re.I)
#: Chinese that is written in traditional characters; the catalogue has simplified ones.
_TRADITIONAL = ("zh-tw", "zh-hk", "zh-mo", "zh-hant")


def preferred_language(cookie: str | None, accepted: str | None) -> str:
    """Return a key of `LANGUAGES`.

    Parameters
    ----------
    cookie : str, optional
        Value of `LANGUAGE_COOKIE`; one that names no language is ignored.
    accepted : str, optional
        Value of the header ``Accept-Language``.
    """
    if cookie in LANGUAGES:
        return str(cookie)
    parts = [_PART.fullmatch(part) for part in (accepted or "")[:_MAX_CHARS].split(",")]
    ranked = sorted(
        ((float(part[2] or 1), part[1].lower()) for part in parts if part), key=lambda pair: -pair[0]
    )
    for weight, name in ranked:
        if weight and name.split("-")[0] == "en":
            return ENGLISH
        if weight and name.split("-")[0] == "zh" and not name.startswith(_TRADITIONAL):
            return CHINESE
    return ENGLISH
