"""The widgets of a run's screen: a curve, the line of the filter, findings, and the table of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import DataTable, Input, OptionList, Static
from textual.widgets.option_list import Option

from rlpanel.number_text import number
from rlpanel.queries.table import Table
from rlpanel.terminal_ui.cell_texts import MARKS, SEVERITY_COLORS
from rlpanel.terminal_ui.token_colors import block, number_cell, text_cell
from rlpanel.texts.shorten import printable

# -- curve view ----------------------------------------------------------------------------------------
# A widget: one curve with its name, its last value and its range, drawn in braille characters.
#
# Each character holds two columns of four dots.


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


# -- filter line ---------------------------------------------------------------------------------------
# A widget: the line in which a filter is typed; it is hidden until it is asked for.


class FilterLine(Input):
    """A line at the lower edge. Enter applies it, Escape leaves it as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]
    DEFAULT_CSS = "FilterLine { dock: bottom; display: none; height: 3; }"

    class Applied(Message):
        """The filter was typed.

        Attributes
        ----------
        text : str
        """

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder=placeholder)
        self._applied = ""

    def open(self) -> None:
        """Show the line with the filter that applies."""
        self.value = self._applied
        self.display = True
        self.focus()

    def set(self, text: str) -> None:
        """Note a filter that was chosen elsewhere."""
        self._applied = text

    def action_leave(self) -> None:
        """Hide the line; the filter stays."""
        self.display = False
        self.screen.focus_next()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the filter."""
        event.stop()
        self._applied = event.value.strip()
        self.display = False
        self.screen.focus_next()
        self.post_message(self.Applied(self._applied))


# -- findings view -------------------------------------------------------------------------------------
# A widget: the findings of a run, each with evidence and advice; Enter shows its samples.


class FindingsView(OptionList):
    """The findings; an option has the place of its finding in `findings` as its index."""

    DEFAULT_CSS = """
    FindingsView { height: 1fr; border: none; padding: 0; background: $background; }
    FindingsView:focus { border: none; background-tint: $background 0%; }
    FindingsView > .option-list--option-highlighted,
    FindingsView:focus > .option-list--option-highlighted {
        background: $boost; color: $text; text-style: none;
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.findings: Sequence[Mapping[str, Any]] = ()

    def show(self, findings: Sequence[Mapping[str, Any]], *, is_read: bool) -> None:
        """Show findings; the highlighted one stays."""
        if findings == self.findings and self.option_count:
            return
        at = self.highlighted
        self.findings = findings
        self.clear_options()
        if not findings:
            text = "No findings in the complete steps" if is_read else "The run is still being read"
            self.add_option(Option(Text(text, "dim"), disabled=True))
            return
        for finding in findings:
            self.add_options([Option(finding_text(finding)), None])
        self.highlighted = min(at or 0, len(findings) - 1)


def finding_text(finding: Mapping[str, Any]) -> Text:
    """Return a finding: title, sentence, evidence, advice and what else was seen."""
    severity = str(finding["severity"])
    found = Text(overflow="fold")
    mark = MARKS.get(severity) or "·"
    found.append(f"{mark} {severity.upper()}  ", f"bold {SEVERITY_COLORS.get(severity, '')}".strip())
    found.append_text(block(str(finding["title"]), "bold"))
    found.append("\n")
    found.append_text(block(str(finding["sentence"])))
    for sentence in finding["evidence"]:
        found.append("\n")
        found.append_text(block(str(sentence), "dim"))
    if finding["advice"]:
        found.append("\n")
        found.append_text(block(f"Check next: {finding['advice']}", "italic"))
    for symptom in finding["symptoms"]:
        found.append("\n")
        found.append_text(block(f"Also seen: {symptom['sentence']}", "dim"))
    return found


# -- samples view --------------------------------------------------------------------------------------
# A widget: the samples of a step or of a filter as a table, in a chosen order.


#: Columns that are not shown: the uid is the row's key.
_HIDDEN = frozenset({"uid", "rank", "cut", "prompt", "ground_truth", "ref_response", "note"})


class SamplesView(DataTable[Text]):
    """The samples; the key of a row is the uid."""

    DEFAULT_CSS = "SamplesView { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True)
        self.uids: list[str] = []

    def show(self, table: Table) -> None:
        """Show a table of samples; the cursor stays on its sample."""
        before = self.uids[self.cursor_row] if 0 <= self.cursor_row < len(self.uids) else ""
        rows = table.rows
        names = [
            column.name
            for column in table.columns
            if column.name not in _HIDDEN and any(row[column.name] not in (None, "", []) for row in rows)
        ]
        names.sort(key=lambda name: name == "response")  # the text is the last
        self.clear(columns=True)
        for name in names:
            self.add_column(text_cell(name), key=name)
        self.uids = [row["uid"] for row in rows]
        for row in rows:
            cells = [
                text_cell(row[name], most=160) if name == "response" else number_cell(row[name])
                for name in names
            ]
            self.add_row(*cells, key=row["uid"])
        if before in self.uids:
            self.move_cursor(row=self.uids.index(before), animate=False)
