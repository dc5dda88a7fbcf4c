"""Steps that all curves shade: those that the opened finding affects."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MarkedSteps:
    """The affected steps of a finding.

    Attributes
    ----------
    steps : tuple of int
        Ascending; empty if the finding is about the whole run.
    color : str
        Name of the theme colour of the finding's severity.
    column : str
        Column of the finding's own curve; empty if it has none.
    text : str
        What the finding says, for whoever wonders what is shaded.
    sentence, advice : str
        What happened, and what to check next.
    evidence : tuple of str
        Its measured numbers, one sentence each.
    tool : str
        The tool that it is about; empty if it is about none.
    compared : (int, int) and (int, int), optional
        First and last step of those that its evidence compares, and of those before.
    """

    steps: tuple[int, ...]
    color: str
    column: str = ""
    text: str = ""
    sentence: str = ""
    advice: str = ""
    evidence: tuple[str, ...] = ()
    tool: str = ""
    compared: tuple[tuple[int, int], tuple[int, int]] | None = None
