"""One way to name steps everywhere: ``12``, ``(10, 20)``, ``slice(10, 20)``, ``range(10, 21)``, ``"10..20"``.

Both ends are included, but for a `range`, which excludes its end as everywhere in Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from rlpanel.errors import SettingError

if TYPE_CHECKING:
    import numpy as np

    from rlpanel.store.snapshot.run_view import RunView

#: A step, or the first and the last of several; None stands for an open end of a slice or a text.
Steps: TypeAlias = int | str | slice | range | tuple[int, int]
#: The same as numbers.
Span: TypeAlias = tuple[int | None, int | None]

_FORMS = "a step, (first, last), slice(first, last), range(first, end) or '10..20'"
#: What is meant as steps, even if it is not valid: no filter begins like this.
_LIKE_STEPS = re.compile(r"\s*(-?\d+\s*)?(\.\.|:)")
_STEPS = re.compile(r"\s*(-?\d*)\s*(?:\.\.|:)\s*(-?\d*)\s*|\s*(-?\d+)\s*")


def is_like_steps(text: str) -> bool:
    """Return whether a text is meant as steps: a number or a range, valid or not."""
    return bool(_STEPS.fullmatch(text) and text.strip()) or bool(_LIKE_STEPS.match(text))


def span_of(steps: Any) -> Span:
    """Return the first and the last step that are named; None for an open end.

    Raises
    ------
    SettingError
        If it names no steps, or the first step is after the last one.
    """
    found = span_or_none(steps)
    if found is None:
        said = "write 12, 10..20, 10.. or ..20" if isinstance(steps, str) else f"give {_FORMS}"
        raise SettingError(f"{steps!r} is no range of steps: {said}")
    first, last = found
    if first is not None and last is not None and first > last:
        raise SettingError(f"steps {first}–{last} are no range: the first one is after the last one")
    return found


def closed_span_of(text: str) -> tuple[int, int]:
    """Return the first and the last step that a text names: ``12`` or ``10..20``.

    Raises
    ------
    SettingError
        As `span_of`, and if an end is missing.
    """
    first, last = span_of(text)
    if first is None or last is None:
        raise SettingError(f"{text!r} is no range of steps: write 12 or 10..20")
    return first, last


def _text_span(text: str) -> Span | None:
    match = _STEPS.fullmatch(text)
    if match is None or match.group(0).strip() in ("", "..", ":"):
        return None
    if match.group(3) is not None:
        return int(match.group(3)), int(match.group(3))
    first, last = (int(end) if end else None for end in match.group(1, 2))
    return first, last


def span_or_none(steps: Any) -> Span | None:
    """Return the first and the last step that are named, in this order or not; None if none are named."""
    if isinstance(steps, str):
        return _text_span(steps)
    if isinstance(steps, slice):
        ends = (steps.start, steps.stop)
        fits = steps.step in (None, 1) and all(end is None or is_step(end) for end in ends)
        return (_number(ends[0]), _number(ends[1])) if fits else None
    if isinstance(steps, range):
        return (steps.start, steps[-1]) if len(steps) and steps.step == 1 else None
    if isinstance(steps, tuple) and len(steps) == 2 and all(map(is_step, steps)):
        return int(steps[0]), int(steps[1])
    return (int(steps), int(steps)) if is_step(steps) else None


def _number(end: Any) -> int | None:
    return None if end is None else int(end)


def is_step(value: object) -> TypeGuard[int]:
    """Return whether a value is one step: a whole number, also of numpy."""
    return not isinstance(value, bool) and hasattr(value, "__index__")


def in_run(view: RunView, steps: Any) -> int | tuple[int, int]:
    """Return the steps that are named, as the run has them: one step, or the first and the last one.

    Raises
    ------
    SettingError
        If it names no steps, or the run has none of them; the message names the nearest step.
    """
    from rlpanel.queries.run_columns import checked_step

    first, last = span_of(steps)
    if first is not None and first == last:
        return checked_step(view, first)
    known: np.ndarray = view.snapshot.steps.values
    if not len(known):
        raise SettingError(f"run {view.snapshot.name!r} has no samples yet")
    first, last = (known[0] if first is None else first), (known[-1] if last is None else last)
    if not ((known >= first) & (known <= last)).any():
        raise SettingError(
            f"steps {first}–{last}: run {view.snapshot.name!r} has none of them; "
            f"it has steps {known[0]}–{known[-1]}"
        )
    return int(first), int(last)


def steps_text(steps: int | tuple[int, int]) -> str:
    """Return steps as `span_of` reads them: ``12`` or ``10..20``."""
    first, last = steps if isinstance(steps, tuple) else (steps, steps)
    return str(first) if first == last else f"{first}..{last}"


def step_facts(steps: int | tuple[int, int] | None) -> dict[str, object]:
    """Return the facts ``step`` and ``steps`` of a table."""
    return {
        "step": None if isinstance(steps, tuple) else steps,
        "steps": steps_text(steps) if isinstance(steps, tuple) else None,
    }
