"""A widget: one curve with its name, its last value and its range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from rlpanel.number_text import number
from rlpanel.terminal_ui.braille_plot import braille_lines
from rlpanel.texts.harmless_text import printable


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
