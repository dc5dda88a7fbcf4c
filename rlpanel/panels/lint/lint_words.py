"""Translates what to log for a lint rule into the language of the session."""

from __future__ import annotations

import re

from rlpanel.panels.language.finding_sentences import tr_lint
from rlpanel.panels.language.labels import marked, tr

_BREAK, _OR = marked("; "), marked(" or ")
#: What separates fields, but not within the brackets of a meaning.
_PARTS = re.compile(r"; (?![^()]*\))")
#: Keys of a field, and what it means.
_FIELD = re.compile(r"(\w+(?: or \w+)*)(?: \((.+)\))?", re.DOTALL)


def tr_log(text: str) -> str:
    """Return what to log, which is advice and fields with their meaning, in the current language."""
    parts, shown = _PARTS.split(text), []
    while parts:
        # The longest beginning that is one text: an advice may have a semicolon of its own.
        texts = ((at, "; ".join(parts[:at])) for at in range(len(parts), 0, -1))
        whole, said = next(((at, said) for at, each in texts if (said := tr_lint(each)) != each), (0, ""))
        shown.append(said if whole else _field(parts[0]))
        parts = parts[whole or 1 :]
    return tr(_BREAK).join(shown)


def _field(text: str) -> str:
    """Return the keys of a field and their meaning in the current language; another text stays as it is."""
    field = _FIELD.fullmatch(text)
    if field is None:
        return text
    names = field[1].replace(" or ", tr(_OR))
    sentence = f"{field[2]}." if field[2] else ""
    meaning = tr(sentence).rstrip("。.")
    return f"{names} ({meaning})" if meaning else names
