"""Marks of claims: each *holds*, has *changed*, or is *broken*; in bounded time, with progress."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rlpanel.board_url import write_query
from rlpanel.errors import SettingError
from rlpanel.investigations.report_entry import ClaimBroken, ClaimValue, ClaimValues, ReportEntry

Mark = Literal["holds", "changed", "broken", "not evaluated", ""]
MARKS: tuple[Mark, ...] = ("holds", "changed", "broken", "not evaluated")
#: Most claims that one load evaluates, and seconds after which no further one is begun.
MAX_CLAIMS, MAX_SECONDS = 500, 120.0
#: Relative difference of two numbers that are the same but for the order of a sum.
_SAME = 1e-9


@dataclass(frozen=True)
class MarkedEntry:
    """An entry of a report with the mark of its claim.

    Attributes
    ----------
    entry : ReportEntry
    mark : str
        Empty for a passage of text.
    expected, found : str
        The claimed value, and that of the run now; empty if there is none.
    reason : str
        Why the claim is broken or was not evaluated, or what is different.
    link : str
        Query string of the board's address that leads there; empty for a passage.
    evidence : tuple of (str, str)
        As in `ClaimValue`.
    """

    entry: ReportEntry
    mark: Mark = ""
    expected: str = ""
    found: str = ""
    reason: str = ""
    link: str = ""
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class EvaluationProgress:
    """Claims that were evaluated so far; ``entries`` is filled at the end only."""

    done: int
    total: int
    entries: tuple[MarkedEntry, ...] = ()
    is_last: bool = False
    counts: dict[str, int] = field(default_factory=dict)


def evaluate(
    source: ClaimValues, entries: Sequence[ReportEntry], *, seconds: float = MAX_SECONDS
) -> Iterator[EvaluationProgress]:
    """Evaluate the claims of some entries, and yield the progress; the last one has the marks.

    Parameters
    ----------
    source : ClaimValues
    entries : sequence of ReportEntry
    seconds : float
        Seconds after which no further claim is begun.
    """
    total = sum(entry.is_claim for entry in entries)
    end, done, marked = time.monotonic() + seconds, 0, list[MarkedEntry]()
    yield EvaluationProgress(0, total)
    for entry in entries:
        if not entry.is_claim:
            marked.append(MarkedEntry(entry))
            continue
        if done >= MAX_CLAIMS:
            reason = f"only the first {MAX_CLAIMS:,} claims are evaluated"
            marked.append(_skipped(source, entry, reason))
        elif time.monotonic() > end:
            marked.append(_skipped(source, entry, f"the evaluation ended after {seconds:g} s"))
        else:
            marked.append(mark_of(source, entry))
            done += 1
            yield EvaluationProgress(done, total)
    counts: dict[str, int] = {mark: sum(each.mark == mark for each in marked) for mark in MARKS}
    yield EvaluationProgress(done, total, tuple(marked), True, counts)


def mark_of(source: ClaimValues, entry: ReportEntry) -> MarkedEntry:
    """Return a claim with its mark."""
    link = write_query({"run": source.name_of(entry), "split": entry.split})
    expected = expected_text(entry)
    try:
        value = source.value(entry)
    except ClaimBroken as error:
        return MarkedEntry(entry, "broken", expected, "", str(error), link)
    link = write_query(value.place)
    reason = _difference(entry, value)
    mark: Mark = "changed" if reason else "holds"
    return MarkedEntry(entry, mark, expected, value.shown, reason, link, value.evidence)


def _skipped(source: ClaimValues, entry: ReportEntry, reason: str) -> MarkedEntry:
    link = write_query({"run": source.name_of(entry), "split": entry.split})
    return MarkedEntry(entry, "not evaluated", expected_text(entry), "", reason, link)


def _difference(entry: ReportEntry, value: ClaimValue) -> str:
    """Return what is different from the claim; empty if it holds."""
    claim, now = entry.claim, value.value
    if entry.kind == "query":
        if claim.get("digest") == now["digest"]:
            return ""
        same = claim.get("rows") == now["rows"]
        return "the rows have other values" if same else "the table has another number of rows"
    if entry.kind == "number":
        expected, tolerance = float(claim.get("expected", math.nan)), float(claim.get("tolerance") or 0.0)
        least = _SAME * max(abs(expected), abs(now["expected"]))
        away = abs(now["expected"] - expected)
        return "" if away <= max(tolerance, least) else f"the difference is {away:.6g}"
    if entry.kind == "finding":
        if now.get("absent"):
            return "the rule finds nothing now"
        same = claim.get("onset") == now["onset"]
        return "" if same else "it begins at another step"
    return "" if claim.get("start") == now["start"] else "the text stands at another place"


def expected_text(entry: ReportEntry) -> str:
    """Return the claimed value as text."""
    claim = entry.claim
    if entry.kind == "query":
        return f"{claim.get('rows') or 0:,} rows, digest {claim.get('digest', '')}"
    if entry.kind == "number":
        tolerance = claim.get("tolerance")
        within = f" ± {tolerance:.6g}" if tolerance else ""
        expected = claim.get("expected")
        return "" if expected is None else f"{expected:.6g}{within}"
    if entry.kind == "finding":
        onset = claim.get("onset")
        return "found" if onset is None else f"found from step {onset:,}"
    if entry.kind == "quotation":
        start = claim.get("start") or 0
        return f"characters {start:,} to {start + len(claim['text']):,}"
    return ""


def about_text(entry: ReportEntry) -> str:
    """Return what a claim is about, on one line."""
    claim = entry.claim
    run = f" of {entry.other_run}" if entry.other_run else ""
    if entry.kind == "quotation":
        return f"{claim['field']} of {claim['uid']}{run}"
    if entry.kind == "finding":
        return f"{claim['rule']}{': ' + claim['subject'] if claim.get('subject') else ''}{run}"
    if entry.kind == "number" and claim.get("metric"):
        return f"{claim['metric']} at step {claim.get('steps', '')}{run}"
    if entry.is_claim:
        options = ", ".join(f"{name}={value}" for name, value in (claim.get("options") or {}).items())
        cell = f", row {claim.get('row') or 0:,}, {claim['column']}" if entry.kind == "number" else ""
        return f"{claim['question']}({options}){cell}{run}"
    return ""


def settle(source: ClaimValues, entry: ReportEntry) -> ReportEntry:
    """Return a new claim with the value of the run, where none was given; a false one is refused.

    Raises
    ------
    SettingError
        If the claim cannot be evaluated, or does not hold; the message says what the run has.
    """
    if not entry.is_claim:
        return entry
    try:
        value = source.value(entry)
    except ClaimBroken as error:
        raise SettingError(f"the claim cannot be evaluated: {error}") from error
    if value.value.get("absent"):
        raise SettingError(f"the claim does not hold: the rule {entry.claim['rule']} finds nothing")
    missing: dict[str, Any] = {
        key: it for key, it in value.value.items() if entry.claim.get(key) is None and it is not None
    }
    settled = replace(entry, claim={**entry.claim, **missing})
    if reason := _difference(settled, value):
        raise SettingError(
            f"the claim does not hold: {reason}; claimed {expected_text(settled)}, the run has {value.shown}"
        )
    return settled
