"""Other weights of the reward's parts, and a filter of groups, as texts of commands and addresses."""

from __future__ import annotations

from rlpanel.errors import SettingError


def parsed_weights(text: str) -> dict[str, float]:
    """Return weights by part of a text such as ``format=0.5,score=1``; empty of an empty one.

    Raises
    ------
    SettingError
        If an item is not a name and a finite number.
    """
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = item.rpartition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            sign = ""
        if not sign or not abs(found[name.strip()]) < float("inf"):
            raise SettingError(f"{item[:80]!r} is no weight of a reward part: write format=0.5,score=1")
    return found


def parsed_range(text: str) -> tuple[float, float] | None:
    """Return the bounds of a text such as ``0.1..0.9``; None of an empty one.

    Raises
    ------
    SettingError
        If the text is not two ascending numbers.
    """
    if not text.strip():
        return None
    low, sign, high = text.partition("..")
    try:
        found = float(low), float(high)
    except ValueError:
        sign, found = "", (0.0, 0.0)
    if not sign or not found[0] <= found[1]:
        raise SettingError(f"{text[:80]!r} is no range of mean rewards: write 0.1..0.9")
    return found
