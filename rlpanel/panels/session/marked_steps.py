"""Steps that stand out on all curves: those of the opened finding, and those of a chain of changes."""

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


@dataclass(frozen=True)
class ChainMark:
    """A change of the chain that leads to a bad step.

    Attributes
    ----------
    step : int
        First step after it.
    text : str
        Its name and place with the levels before and after.
    effect : str
        Both levels alone.
    column : str
        The column that changed, or the name of the trainer's scalar.
    """

    step: int
    text: str
    effect: str
    column: str = ""
