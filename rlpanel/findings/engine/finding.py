"""The result of a rule: a sentence, its evidence, and a reference to the samples behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.findings.engine.step_series import stretches

Severity = Literal["alarm", "warning"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One observation of a rule; it must claim no more than its evidence shows.

    Attributes
    ----------
    severity : str
        ``alarm``: training will probably fail; ``warning``: worth a look.
    sentence : str
        Title and observation in one sentence.
    evidence : tuple of str
        Measured numbers, one sentence each.
    steps : tuple of int
        The affected steps, ascending; empty if the finding is about the whole run.
    column : str
        The curve that shows the problem; may be empty.
    where : str
        Filter expression for the affected samples; empty for all samples of the steps.
    uid : str
        An example sample; may be empty.
    subject : str
        Distinguishes findings of the same rule and stays the same while the problem lasts, for example a
        column or a rank; may be empty.
    rule : str
        Name of the rule; `rlpanel.findings.engine.rule.rule` fills it in.
    """

    severity: Severity
    sentence: str
    evidence: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    column: str = ""
    where: str = ""
    uid: str = ""
    subject: str = ""
    rule: str = ""

    @property
    def key(self) -> str:
        """Identifier that stays the same while the problem lasts."""
        return f"{self.rule}:{self.subject}"


def span(steps: np.ndarray, mask: np.ndarray, most: int = 4) -> str:
    """Format steps as text, such as ``step 3`` or ``steps 3–5 and 9``; consecutive steps form a range.

    Parameters
    ----------
    steps : ndarray of int, shape (S,)
        Ascending.
    mask : ndarray of bool, shape (S,)
        Selects the steps to format.
    most : int
        Maximum number of ranges; the rest is abbreviated to "and N more".
    """
    bounds = stretches(mask)
    ranges = [f"{steps[a]:,}" if b - a == 1 else f"{steps[a]:,}–{steps[b - 1]:,}" for a, b in bounds.tolist()]
    noun = "step" if mask.sum() == 1 else "steps"
    if len(ranges) > most:
        left = int(mask.sum()) - int(mask[: bounds[most - 1, 1]].sum())
        return f"{noun} {', '.join(ranges[:most])} and {left:,} more"
    text = f"{', '.join(ranges[:-1])} and {ranges[-1]}" if len(ranges) > 1 else "".join(ranges)
    return f"{noun} {text}"
