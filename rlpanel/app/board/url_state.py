"""Converts the selection to the query string of the URL and back.

Keys are read one by one: a value that cannot be read is ignored and reported, the others are applied. The
name of a run is always text, even if it looks like a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from rlpanel.display_settings import MAX_SMOOTHING
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Selection
from rlpanel.panels.session.overlay_run import MAX_OVERLAY_RUNS
from rlpanel.store.snapshot.alignment import ALIGNMENTS
from rlpanel.store.snapshot.prompt_pairs import BEST, NEWEST

_TRUE, _FALSE = {"1", "true", "dark"}, {"0", "false", "light"}


def _integer(text: str) -> int:
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _scope(text: str) -> str:
    if text not in ("step", "run"):
        raise ValueError(text)
    return text


#: Encodes the empty name in a list; a quoted name is never equal to it.
_EMPTY = "%"


def _names(text: str) -> list[str]:
    return ["" if name == _EMPTY else unquote(name) for name in text.split(",") if name]


def _write_names(names: list[str]) -> str:
    """Join names of columns with commas; commas and percent signs in a name are quoted."""
    return ",".join(name.replace("%", "%25").replace(",", "%2C") or _EMPTY for name in names)


def _runs(text: str) -> list[str]:
    names = [unquote(name, errors="strict") for name in text.split(",") if name]
    if len(names) > MAX_OVERLAY_RUNS:
        raise ValueError(text)
    return list(dict.fromkeys(names))


def _write_runs(names: list[str]) -> str:
    """Join names of runs with commas; special characters in a name are quoted."""
    return ",".join(quote(name, safe="/ ", errors="replace") for name in names)


def _alignment(text: str) -> str:
    if text not in ALIGNMENTS.values():
        raise ValueError(text)
    return text


def _smoothing(text: str) -> float:
    weight = float(text)
    if not 0 <= weight <= MAX_SMOOTHING:
        raise ValueError(text)
    return weight


def _samples_at(text: str) -> str:
    return text if text in (NEWEST, BEST) else str(int(text))


#: Key in the URL → (parameter of the selection, parser, formatter).
KEYS: dict[str, tuple[str, Callable[[str], Any], Callable[[Any], str]]] = {
    "run": ("run", str, str),
    "split": ("split", str, str),
    "step": ("step", _integer, str),
    "sample": ("uid", str, str),
    "token": ("token", _integer, str),
    "metric": ("metric", str, str),
    "curves": ("curves", _names, _write_names),
    "log": ("log_curves", _names, _write_names),
    "search": ("search", str, str),
    "filter": ("filter", str, str),
    "scope": ("scope", _scope, str),
    "sort": ("sort", str, str),
    "over": ("over", _runs, _write_runs),
    "beside": ("beside", _runs, _write_runs),
    "align": ("align", _alignment, str),
    "smooth": ("smooth", _smoothing, "{:g}".format),
    "against": ("against", str, str),
    "here_at": ("here_at", _samples_at, str),
    "there_at": ("there_at", _samples_at, str),
    "finding": ("finding", str, str),
    "theme": ("dark", _flag, lambda dark: "dark" if dark else "light"),
}
MAX_QUERY = 8192


def read_query(query: str) -> tuple[dict[str, Any], list[str]]:
    """Parse a query string; return the selection's parameters and messages about ignored values.

    Parameters
    ----------
    query : str
        With or without the leading ``?``.
    """
    values: dict[str, Any] = {}
    problems = []
    if len(query) > MAX_QUERY:
        return {}, [
            tr("the link is longer than {limit:,} characters and was ignored").format(limit=MAX_QUERY)
        ]
    for key, text in parse_qsl(query.lstrip("?"), keep_blank_values=False):
        if key not in KEYS:
            continue
        name, read, _ = KEYS[key]
        try:
            values[name] = read(text)
        except ValueError:
            problems.append(
                tr("{key}={text} in the link is not valid and was ignored").format(key=key, text=text[:40])
            )
    if "step" in values or "uid" in values:
        values["follow"] = False
    return values, problems


def write_query(selection: Selection) -> str:
    """Return the query string of a selection, without default values and without a followed step."""
    pairs = []
    for key, (name, _, write) in KEYS.items():
        value = getattr(selection, name)
        followed = name in ("step", "uid", "token") and selection.follow
        default = selection.preferred_dark if name == "dark" else selection.param[name].default
        if value is not None and value != default and not followed:
            pairs.append((key, write(value)))
    return f"?{urlencode(pairs)}" if pairs else ""
