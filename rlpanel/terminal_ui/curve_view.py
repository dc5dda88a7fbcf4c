"""A widget: one curve with its name, its last value and its range, drawn in braille characters.

Each character holds two columns of four dots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text
from textual.widgets import Static

from rlpanel.number_text import number
from rlpanel.texts.harmless_text import printable

#: Bit of each dot of a braille character, by its row and its column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800


def braille_lines(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """Return the curve of some values at equal distances; the lowest value touches the lower edge.

    A value that is missing or not finite leaves a gap. Of several values in one column of dots, the lowest
    and the highest are joined by a line, so that no peak is lost.

    Parameters
    ----------
    values : sequence of float or None
    width, height : int
        Size in characters.

    Returns
    -------
    list of str
        ``height`` lines of ``width`` characters each.
    """
    columns, rows = 2 * width, 4 * height
    known = _known(values)
    grid = [[_BLANK] * width for _ in range(height)]
    if known and width > 0 and height > 0:
        low, span = min(known), max(known) - min(known)
        previous: int | None = None
        for column, part in enumerate(_parts(values, columns)):
            found = [_row(value, low, span, rows) for value in _known(part)]
            if not found:
                previous = None  # a gap
                continue
            reach = [*found, found[0] if previous is None else _between(previous, found[0])]
            for row in range(min(reach), max(reach) + 1):
                grid[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
            previous = found[-1]
    return ["".join(map(chr, line)) for line in grid]


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _parts(values: Sequence[float | None], columns: int) -> list[list[float | None]]:
    """Return the values of each column of dots; few values have free columns between them filled by lines."""
    count = len(values)
    if count >= columns:
        edges = [round(at * count / columns) for at in range(columns + 1)]
        return [list(values[begin:end]) for begin, end in pairwise(edges)]
    if count == 1:
        return [[values[0]]]
    parts: list[list[float | None]] = []
    for column in range(columns):
        place = column * (count - 1) / (columns - 1)
        at = min(int(place), count - 2)
        before, after = values[at], values[at + 1]
        if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
            near = values[round(place)] if abs(place - round(place)) < (count - 1) / columns else None
            parts.append([near])
        else:
            parts.append([before + (after - before) * (place - at)])
    return parts


def _row(value: float, low: float, span: float, rows: int) -> int:
    share = 0.5 if not span else (value - low) / span
    return rows - 1 - round(share * (rows - 1))


def _between(previous: int, current: int) -> int:
    """Return the row up to which a column is filled, so that it joins the column before."""
    return previous + (1 if current > previous else -1 if current < previous else 0)


class CurveView(Static):
    """One curve over the steps, drawn in braille; it fills its size."""

    DEFAULT_CSS = "CurveView { height: 100%; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._column, self._unit = "", ""
        self._values: Sequence[float | None] = ()
        self._span = (0, 0)

    def draw(self, name: str, unit: str, values: Sequence[float | None], steps: Sequence[int]) -> None:
        """Show a curve.

        Parameters
        ----------
        name, unit : str
        values : sequence of float or None
        steps : sequence of int
            Step of each value.
        """
        self._column, self._unit, self._values = name, unit, values
        self._span = (steps[0], steps[-1]) if steps else (0, 0)
        self.refresh(layout=False)

    def render(self) -> Text:
        """Return the lines of the curve."""
        width, height = self.content_size.width, self.content_size.height
        known = [value for value in self._values if value is not None and math.isfinite(value)]
        if not known or width < 12:
            return Text(printable(self._column))
        last, first = number(known[-1]), number(known[0])
        unit = f" {self._unit}" if self._unit else ""
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(printable(self._column), "bold")
        head.append(f"  {last}{unit}", "bold cyan")
        head.append(f"  from {first}", "dim")
        head.truncate(width, overflow="ellipsis")
        ends = [number(max(known)), number(min(known))]
        margin = max(map(len, ends))
        plot = braille_lines(self._values, max(width - margin - 1, 4), max(height - 2, 1))
        lines = [head]
        for at, line in enumerate(plot):
            label = ends[0] if at == 0 else ends[1] if at == len(plot) - 1 else ""
            lines.append(Text.assemble((f"{label:>{margin}} ", "dim"), (line, "cyan")))
        begin, end = (f"{step:,}" for step in self._span)
        lines.append(Text(f"{'':>{margin}} {begin:<{max(width - margin - 1 - len(end), 0)}}{end}", "dim"))
        return Text("\n").join(lines)
