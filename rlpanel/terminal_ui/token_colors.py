"""Texts of a log as Rich text: safe cells, and tokens coloured by one metric with a legend."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from rich.color import Color
from rich.style import Style
from rich.text import Text

from rlpanel.number_text import number
from rlpanel.texts.shorten import printable, printable_lines

# -- token colors --------------------------------------------------------------------------------------
# The tokens of a response as coloured text, by one metric and the run's scale, with a legend.
#
# A background grows stronger with the distance from the neutral value: red above it, blue below it. The scale
# is that of `rlpanel.store.snapshot.token_scales`: equal values have equal colours in all samples of a run.
# Values within 8 % of the neutral one have no colour.


#: Metrics in the order in which one is chosen.
PREFERRED = (
    "log_ratio", "kl_k3", "engine_log_ratio", "surprisal", "token_entropy", "token_advantage", "token_reward",
    "value",
)  # fmt: skip
#: Metrics whose low end is remarkable: an improbable token.
_LOW_IS_STRONG = frozenset({"prob", "ref_prob"})
#: Neutral value of metrics that diverge from one.
_AROUND = {"ratio": 1.0}
#: Share of the scale below which a token has no colour.
_FAINT = 0.08
_STEPS = 8
_RED, _BLUE = (214, 69, 65), (58, 124, 200)
_DARK, _LIGHT = (24, 24, 27), (255, 255, 255)


def chosen_metric(available: Sequence[str], wanted: str = "") -> str:
    """Return the metric to colour by: the wanted one, else the first of `PREFERRED`; empty without any."""
    if wanted in available:
        return wanted
    return next((name for name in PREFERRED if name in available), next(iter(available), ""))


def has_light_background() -> bool:
    """Return whether the terminal says that its background is light, by the variable COLORFGBG."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def share_of(value: float, metric: str, scale: tuple[float, float]) -> float:
    """Return the place of a value on the scale, from -1 to 1; 0 for the neutral value and for NaN.

    Parameters
    ----------
    value : float
    metric : str
    scale : (float, float)
        Ends of the scale, in the unit of the metric.
    """
    low, high = scale
    if not math.isfinite(value):
        return 0.0 if math.isnan(value) else math.copysign(1.0, value)
    if metric in _LOW_IS_STRONG:
        return min(max(1.0 - value, 0.0), 1.0)
    distance = value - _AROUND.get(metric, 0.0)
    bound = abs((high if distance > 0 else low) - _AROUND.get(metric, 0.0))
    return min(max(distance / bound, -1.0), 1.0) if bound else math.copysign(1.0, distance) * (distance != 0)


def style_of(share: float, *, light: bool = False) -> Style:
    """Return the colours of a token at this share of the scale; no colour near the neutral value."""
    size = abs(share)
    if size < _FAINT:
        return Style()
    level = math.ceil(size * _STEPS) / _STEPS
    surface, end = _LIGHT if light else _DARK, _RED if share > 0 else _BLUE
    weight = 0.15 + 0.85 * level
    mixed = tuple(round(s + (e - s) * weight) for s, e in zip(surface, end, strict=True))
    ink = (0, 0, 0) if _luminance(mixed) > 0.18 else (255, 255, 255)
    return Style(bgcolor=Color.from_rgb(*mixed), color=Color.from_rgb(*ink))


def _luminance(rgb: tuple[int, ...]) -> float:
    """Return the relative luminance of WCAG 2.2."""
    parts = [part / 255 for part in rgb]
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def token_text(text: str) -> str:
    """Return a token as it is shown: a line break as ↵ and a new line, other control characters as spaces."""
    return "↵\n".join(printable(part.replace("\t", "→   ")) for part in text.split("\n"))


def colored_tokens(
    texts: Sequence[str],
    values: Sequence[float | None],
    metric: str,
    scale: tuple[float, float],
    *,
    untrained: Sequence[bool] = (),
    light: bool = False,
) -> Text:
    """Return the running text with a background for each token.

    Parameters
    ----------
    texts : sequence of str, length T
    values : sequence of float or None, length T
        The metric of each token; one without a value has no colour.
    metric : str
    scale : (float, float)
    untrained : sequence of bool, length T
        Tokens that the loss leaves out; they are dim.
    light : bool
        Whether the terminal has a light background.
    """
    found = Text(no_wrap=False, overflow="fold")
    for at, text in enumerate(texts):
        value = values[at] if at < len(values) else None
        style = style_of(share_of(math.nan if value is None else value, metric, scale), light=light)
        if at < len(untrained) and untrained[at]:
            style += Style(dim=True, italic=True)
        found.append(token_text(text), style)
    return found


def legend(metric: str, scale: tuple[float, float], unit: str = "", *, light: bool = False) -> Text:
    """Return the scale in one line: its ends, the colours between them, and the unit."""
    low, high = scale
    around = _AROUND.get(metric, 0.0)
    shares = [step / _STEPS for step in range(-_STEPS, _STEPS + 1)]
    if low >= around or metric in _LOW_IS_STRONG:
        shares = [share for share in shares if share >= 0]
    elif high <= around:
        shares = [share for share in shares if share <= 0]
    if metric in _LOW_IS_STRONG:
        shares = shares[::-1]
    found = Text(f"{printable(metric)}  {number(low)} ")
    for share in shares:
        found.append("▪" if abs(share) < _FAINT else " ", style_of(share, light=light))
    found.append(f" {number(high)}{' ' + unit if unit else ''} · the run's scale")
    return found


def strongest(
    texts: Sequence[str], values: Sequence[float | None], metric: str, scale: tuple[float, float], most: int
) -> list[tuple[int, str, float]]:
    """Return position, text and value of the tokens farthest from the neutral value, the farthest first."""
    known = [
        (at, value)
        for at, value in enumerate(values[: len(texts)])
        if value is not None and not math.isnan(value)
    ]
    around = 1.0 if metric in _LOW_IS_STRONG else _AROUND.get(metric, 0.0)
    known.sort(key=lambda each: -abs(each[1] - around))
    return [
        (at, printable(texts[at].replace("\n", "↵")), value) for at, value in known[:most] if value != around
    ]


# -- safe cells ----------------------------------------------------------------------------------------
# Values and texts of a log as Rich text: nothing in them controls the terminal or is read as markup.


def text_cell(value: Any, style: str = "", most: int = 200) -> Text:
    """Return a text in one line of at most ``most`` characters; a dash for None."""
    if value is None:
        return Text("–", style="dim")
    line = " ".join(printable(str(value)[: 4 * most]).split())
    return Text(line if len(line) <= most else f"{line[: most - 1]}…", style=style)


def number_cell(value: Any) -> Text:
    """Return a number aligned to the right; a dash for a missing one."""
    if value is None:
        return Text("–", style="dim", justify="right")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Text(number(value, whole=isinstance(value, int)), justify="right")
    return text_cell(value)


def block(text: str, style: str = "") -> Text:
    """Return a text of several lines."""
    return Text(printable_lines(text), style=style, overflow="fold")
