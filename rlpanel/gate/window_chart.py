"""A number over the windows as an SVG: the new run, its baselines, and the spread for one more run."""

from __future__ import annotations

import math

from markupsafe import Markup

from rlpanel.gate.gate_result import NumberResult
from rlpanel.number_text import number as text

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 220, 64, 12, 12, 28
#: Most of the plotted height that a limit of the spread may lie outside of the runs' values.
_BEYOND = 0.75


def window_chart(result: NumberResult, run: str) -> Markup:
    """Return the chart; limits far outside of the values are cut at its edge."""
    windows = result.windows
    values = [[each.new for each in windows]]
    values += [list(each) for each in zip(*(each.baselines for each in windows), strict=True)]
    known = [value for line in values for value in line if math.isfinite(value)]
    if not known:
        return Markup("")
    low, high = min(known), max(known)
    room = (high - low) or abs(high) * 0.1 or 1.0
    limits = [each for one in windows for each in (one.low, one.high) if math.isfinite(each)]
    low = max(min([low, *limits]), low - _BEYOND * room) - 0.05 * room
    high = min(max([high, *limits]), high + _BEYOND * room) + 0.05 * room

    def x(at: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at + 0.5) / len(windows)

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)

    def line(points: list[float], kind: str) -> Markup:
        places = " ".join(
            f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(points) if math.isfinite(value)
        )
        return Markup('<polyline class="{}" points="{}"/>').format(kind, places)

    parts = []
    if all(math.isfinite(each.low) for each in windows):
        edge = [(x(at), y(each.high)) for at, each in enumerate(windows)]
        edge += [(x(at), y(each.low)) for at, each in reversed(list(enumerate(windows)))]
        points = " ".join(f"{left:.1f},{top:.1f}" for left, top in edge)
        parts.append(Markup('<polygon class="spread" points="{}"/>').format(points))
    is_log = result.number.scale == "log"
    for value in [low + (high - low) * at / 4 for at in range(5)] if is_log else round_ticks(low, high):
        parts.append(
            Markup('<line class="rule" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                _LEFT, _WIDTH - _RIGHT, f"{y(value):.1f}", f"{y(value):.1f}"
            )
        )
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
                _LEFT - 6, f"{y(value) + 4:.1f}", text(result.number.natural(value))
            )
        )
    parts += [line(each, "baseline") for each in values[1:]]
    parts.append(line(values[0], "new"))
    every = max(1, math.ceil(len(windows) / 10))
    for at, each in enumerate(windows):
        if at % every == 0:
            label = f"{each.first:,}" if each.first == each.last else f"{each.first:,}–{each.last:,}"
            parts.append(
                Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
                    f"{x(at):.1f}", _HEIGHT - 8, label
                )
            )
    if result.first_window:
        left = x(result.first_window - 1)
        parts.append(
            Markup('<line class="begin" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                f"{left:.1f}", _TOP, _HEIGHT - _BOTTOM
            )
        )
    label = f"{result.number.name} by steps of {run}: the new run against its baselines"
    return Markup(
        '<figure><div class="chart"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></div>'
        "<figcaption>"
        '<span class="key new"></span>{} <span class="key baseline"></span>baselines '
        '{}<span class="note">mean of each window by steps of the new run{}</span></figcaption></figure>'
    ).format(
        _WIDTH,
        _HEIGHT,
        label,
        Markup("").join(parts),
        run,
        Markup('<span class="key spread"></span>95 % range for one more run ') if limits else "",
        ", logarithmic" if is_log else "",
    )


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most some multiples of 1, 2 or 5 times a power of ten within a range."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    width = next(power * each for each in (1, 2, 5, 10, 20) if (high - low) / (power * each) <= most - 1)
    return [width * at for at in range(math.ceil(low / width), math.floor(high / width) + 1)]
