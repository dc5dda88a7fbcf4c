"""The value of a claim as the run has it now, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlpanel.investigations.report_entry import ReportEntry


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
