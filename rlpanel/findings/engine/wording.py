"""Words for numbers, steps and places in the sentences of findings."""

from __future__ import annotations

import numpy as np

from rlpanel import number_text
from rlpanel.findings.engine.change import Change
from rlpanel.findings.engine.step_series import stretches


def percent(share: float) -> str:
    """Format a share, such as ``3.4%`` or ``67%``."""
    if 0 < share < 0.001:
        return "less than 0.1%"
    return f"{share:.1%}" if share < 0.0995 and share > 0 else f"{share:.0%}"


def number(value: float) -> str:
    """Format a number as the page does, but with the minus sign that every terminal can show."""
    return number_text.number(value).replace("−", "-")


def standard_errors(z: float) -> str:
    """Format a difference in standard errors; beyond 100 its number means nothing."""
    return f"{z:.0f} standard errors" if z <= 100 else "more than 100 standard errors"


def since(steps: np.ndarray, change: Change) -> str:
    """Return the steps of a change as the begin of a sentence, such as ``From step 46 on``."""
    first, last = steps[change.onset], steps[change.last]
    if change.ongoing and first != last:
        return f"From step {first:,} on"
    return f"At step {first:,}" if first == last else f"In steps {first:,}–{last:,}"


def at_place(change: Change) -> str:
    """Return the place of a change, such as `` on rank 1``; empty for the whole run."""
    if not change.place:
        return ""
    return f" on {change.place.text}" if change.place.rank is not None else f" with {change.place.text}"


def compared(before: float, text: str) -> str:
    """Return the level before a change in brackets; empty if there was none."""
    return f" ({text} before)" if np.isfinite(before) else ""


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
