"""An entry of a report: a passage, or a claim with its value when written and as the run has it now."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from rlpanel.errors import SettingError

# -- report entry --------------------------------------------------------------------------------------
# An entry of a report: a passage of text, or a claim with the value that it had when it was written.
#
# The file has one JSON object a line. ``id`` names the entry; a later line with the same id replaces it, and
# one of the kind ``removed`` deletes it. `docs/investigations.md` lists all keys.


#: Kinds of claims, and of all entries.
CLAIMS = ("query", "number", "finding", "quotation")
KINDS = ("text", *CLAIMS, "removed")
#: Most characters of a passage, of a quoted text, of a name, and of any other text of a claim.
MAX_TEXT, MAX_QUOTE, MAX_NAME, MAX_PART = 20_000, 4_000, 80, 2_000
#: Most bytes of a line.
MAX_LINE = 96 << 10
#: Name of a report that was given none.
USUAL_REPORT = "Report"
_ID = re.compile(r"[0-9a-z]{1,32}")

#: Kind → keys of its claim, with their types. A number has either a metric or a question with a cell.
_TEXTS = {
    "query": ("question", "digest", "excerpt"),
    "number": ("metric", "steps", "question", "column"),
    "finding": ("rule", "subject"),
    "quotation": ("uid", "field", "text"),
}
_INTEGERS = {"query": ("rows",), "number": ("row", "count"), "finding": ("onset",), "quotation": ("start",)}
_NUMBERS = {"number": ("expected", "tolerance")}
_OBJECTS = {"query": ("options",), "number": ("options",)}
_NEEDED = {
    "query": ("question",),
    "number": (),
    "finding": ("rule",),
    "quotation": ("uid", "field", "text"),
    "text": (),
    "removed": (),
}


@dataclass(frozen=True)
class ReportEntry:
    """One entry of a report.

    Attributes
    ----------
    id : str
    report : str
        Name of the report.
    kind : str
        One of `KINDS`.
    text : str
        Markdown; of a claim, the sentence that it supports.
    claim : mapping
        What is claimed, and the value that it had; empty for a passage.
    other_run : str
        Name of another run, below the root; empty for the run in whose folder the report is.
    split : str
        Split of that run; empty for the usual one.
    author : str
        Such as ``agent`` or ``person``.
    time : float
        When it was written, in seconds since the epoch.
    """

    id: str
    report: str
    kind: str
    text: str = ""
    claim: Mapping[str, Any] = field(default_factory=dict)
    other_run: str = ""
    split: str = ""
    author: str = ""
    time: float = 0.0

    @property
    def is_claim(self) -> bool:
        """True for a claim, which is evaluated; False for a passage of text or a removal."""
        return self.kind in CLAIMS

    def line(self) -> bytes:
        """Return its line of the file.

        Raises
        ------
        SettingError
            If it is too long.
        """
        made = json.dumps(asdict(self), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if len(made) > MAX_LINE:
            raise SettingError(f"an entry has at most {MAX_LINE:,} bytes, and this one has {len(made):,}")
        return made


def check_entry(entry: ReportEntry) -> ReportEntry:
    """Return an entry whose parts have the right types and lengths.

    Raises
    ------
    SettingError
        If one does not; the message names it.
    """
    if entry.kind not in KINDS:
        raise SettingError(f"a claim is one of {', '.join(CLAIMS)}; {str(entry.kind)[:40]!r} is none")
    if not _ID.fullmatch(entry.id):
        raise SettingError(f"{entry.id[:40]!r} is no name of an entry: it has letters a to z and digits only")
    if not entry.report.strip() or not entry.report.isprintable():
        raise SettingError("the name of a report has one printable character or more")
    _check_length("a report's name", entry.report, MAX_NAME)
    _check_length("a passage", entry.text, MAX_TEXT)
    for name in ("other_run", "split", "author"):
        _check_length(f"the key {name}", getattr(entry, name), MAX_PART)
    if not math.isfinite(entry.time):
        raise SettingError("the time of an entry is a number")
    if entry.is_claim:
        _check_claim(entry.kind, entry.claim)
    return entry


def _check_claim(kind: str, claim: Mapping[str, Any]) -> None:
    texts, integers = _TEXTS[kind], _INTEGERS[kind]
    numbers, objects = _NUMBERS.get(kind, ()), _OBJECTS.get(kind, ())
    known = {*texts, *integers, *numbers, *objects}
    if unknown := [key for key in claim if key not in known]:
        raise SettingError(f"a {kind} has no key {str(unknown[0])[:80]!r}; it has {', '.join(sorted(known))}")
    for key, value in claim.items():
        if value is None:
            continue
        if key in texts:
            if not isinstance(value, str):
                raise SettingError(f"{key} is a text")
            _check_length(f"the key {key}", value, MAX_QUOTE if key in ("text", "excerpt") else MAX_PART)
        elif key in integers and (isinstance(value, bool) or not isinstance(value, int)):
            raise SettingError(f"{key} is a whole number")
        elif key in integers and abs(value) >= 1 << 53:
            raise SettingError(f"{key} is too large")
        elif key in numbers and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise SettingError(f"{key} is a number")
        elif key in numbers and not (math.isfinite(value) and abs(value) < 1e300):
            raise SettingError(f"{key} is a finite number")
        elif key in objects and not isinstance(value, Mapping):
            raise SettingError(f"{key} are options by name")
    for key in _NEEDED[kind]:
        if not claim.get(key):
            raise SettingError(f"a {kind} needs {key}")
    if kind == "number" and not (claim.get("metric") or (claim.get("question") and claim.get("column"))):
        raise SettingError("a number needs metric and steps, or question and column")
    if (claim.get("tolerance") or 0) < 0:
        raise SettingError("tolerance is at least 0")


def parse_entry(line: bytes) -> ReportEntry:
    """Return the entry of a line.

    Raises
    ------
    SettingError
        If the line holds no valid entry; the message says why.
    """
    if len(line) > MAX_LINE:
        raise SettingError(f"it has more than {MAX_LINE:,} bytes")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SettingError("it is no JSON") from error
    if not isinstance(values, dict):
        raise SettingError("it is no JSON object")
    texts = {
        name: values.get(name, "")
        for name in ("id", "report", "kind", "text", "other_run", "split", "author")
    }
    for name, value in texts.items():
        if not isinstance(value, str):
            raise SettingError(f"{name} is a text")
    claim, time = values.get("claim") or {}, values.get("time", 0.0)
    if not isinstance(claim, dict) or isinstance(time, bool) or not isinstance(time, int | float):
        raise SettingError("claim holds values by name, and time is a number")
    try:
        return check_entry(ReportEntry(**texts, claim=claim, time=float(time)))
    except OverflowError as error:
        raise SettingError("time is too large") from error


def _check_length(what: str, text: str, most: int) -> None:
    if len(text) > most:
        raise SettingError(f"{what} has at most {most:,} characters, and this one has {len(text):,}")


# -- claim value ---------------------------------------------------------------------------------------
# The value of a claim as the run has it now, or the reason why there is none.


class ClaimBroken(Exception):
    """A claim that cannot be evaluated any more; the message says why."""


@dataclass(frozen=True)
class ClaimValue:
    """Present value of a claim in its run, with the evidence for it.

    Attributes
    ----------
    value : mapping
        Keys of the claim that hold its value, such as ``expected`` or ``digest``.
    shown : str
        The value as text.
    place : mapping
        Parameters of the board's address that lead there.
    evidence : tuple of (str, str)
        Kind (``note``, ``quote`` or ``rows``) and text of what supports it.
    """

    value: Mapping[str, Any]
    shown: str
    place: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[tuple[str, str], ...] = ()


class ClaimValues(Protocol):
    """What an evaluation asks: see `rlpanel.queries.reports.claim_source.ClaimSource`."""

    def value(self, entry: ReportEntry) -> ClaimValue:
        """Return the value of a claim; `ClaimBroken` if there is none."""

    def name_of(self, entry: ReportEntry) -> str:
        """Return the name of a claim's run, as the board's address has it."""
