"""What a rule found: a sentence, the evidence for it, and where the samples behind it are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.findings.engine.step_series import stretches

Severity = Literal["alarm", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing worth a look; it claims no more than its evidence shows.

    Attributes
    ----------
    rule : str
        The rule that made it.
    subject : str
        What tells it from others of its rule, and stays while it goes on: a column, a rank; may be empty.
    severity : str
        ``alarm``: training can hardly go on like this; ``warning``: look at it.
    sentence : str
        What was found, in words.
    evidence : tuple of str
        The numbers behind it, a line each.
    steps : tuple of int
        The steps it holds for, ascending; empty where it is about the run as a whole.
    column : str
        The curve that shows it; empty where none does.
    where : str
        A filter expression for the samples behind it; empty for all of its steps.
    uid : str
        A sample to look at; empty where any of them will do.
    """

    rule: str
    severity: Severity
    sentence: str
    evidence: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    column: str = ""
    where: str = ""
    uid: str = ""
    subject: str = ""

    @property
    def key(self) -> str:
        """The same for the same trouble at a later look."""
        return f"{self.rule}:{self.subject}"


def span(steps: np.ndarray, mask: np.ndarray, most: int = 4) -> str:
    """Steps in words: ``step 3``, ``steps 3–5 and 9``; neighbours on the axis run together.

    Parameters
    ----------
    steps : ndarray of int, shape (S,)
        Ascending.
    mask : ndarray of bool, shape (S,)
        Which of them are meant.
    most : int
        How many runs are told before "and N more".
    """
    found = stretches(mask)
    runs = [f"{steps[a]:,}" if b - a == 1 else f"{steps[a]:,}–{steps[b - 1]:,}" for a, b in found.tolist()]
    noun = "step" if mask.sum() == 1 else "steps"
    if len(runs) > most:
        left = int(mask.sum()) - int(mask[: found[most - 1, 1]].sum())
        return f"{noun} {', '.join(runs[:most])} and {left:,} more"
    return f"{noun} {' and '.join([', '.join(runs[:-1]), runs[-1]]) if len(runs) > 1 else ''.join(runs)}"
