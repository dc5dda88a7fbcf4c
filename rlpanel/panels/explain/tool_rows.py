"""Calls and errors of each tool in the steps of the opened finding, beside those of the steps before."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpanel.number_text import number
from rlpanel.panels.explain.contrast_sides import ranges_of
from rlpanel.panels.explain.link_rows import LinkRows, link_row, show_samples
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.schema import TOOL_CALLS, TOOL_ERRORS
from rlpanel.store.snapshot.snapshot import Snapshot


class ToolRows(LinkRows):
    """A row for each tool; a click shows its rollouts with an error.

    Attributes
    ----------
    active : bool
        Whether the opened finding is about a tool.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(self._show_failed, "rl-explain-tools")
        self.context = context
        self.visible = False

    @property
    def active(self) -> bool:
        """Whether the rows are shown."""
        return self.visible

    @active.setter
    def active(self, value: bool) -> None:
        self.visible = value
        if value:
            titles = ["", tr("failed"), tr("tool"), tr("before"), tr("calls"), tr("errors"), tr("rollouts")]
            self.param.update(titles=titles, rows=self._tools(), chosen="")

    def _tools(self) -> list[dict[str, Any]]:
        snapshot, found = self.context.snapshot, self.context.shaded_steps
        if found is None:
            return []
        rows = snapshot.alive_rows
        step = snapshot.metadata("step")[rows]
        ranges = ranges_of(found, snapshot)
        now = rows[np.isin(step, found.steps)]
        before = rows[(step >= ranges.before[0]) & (step <= ranges.before[1])] if ranges else rows[:0]
        tools = [name.removeprefix(TOOL_CALLS) for name in snapshot.numbers if name.startswith(TOOL_CALLS)]
        counted = [(tool, _count(snapshot, tool, now), _count(snapshot, tool, before)) for tool in tools]
        counted = [each for each in counted if each[1][0]]
        counted.sort(key=lambda each: -each[1][1] / each[1][0])
        return [_row(tool, later, earlier) for tool, later, earlier in counted]

    def _show_failed(self, tool: str) -> None:
        snapshot, column = self.context.snapshot, f"{TOOL_ERRORS}{tool}"
        if "`" in tool or not snapshot.has_number(column):
            return
        rows = snapshot.rows_of(self.context.selection.step)
        errors = np.nan_to_num(snapshot.number(column)[rows])
        uids = snapshot.uids(rows[np.argsort(-errors, kind="stable")][:1])
        show_samples(self.context, f"`{column}` > 0", uids, self.context.selection.step)
        self.context.selection.param.update(page="samples", tab="conversation")


def _count(snapshot: Snapshot, tool: str, rows: np.ndarray) -> tuple[float, float, int, int]:
    """Return the calls of a tool and its errors, the rollouts that call it, and those with an error."""
    calls = np.nan_to_num(snapshot.number(f"{TOOL_CALLS}{tool}")[rows])
    errors = (
        np.nan_to_num(snapshot.number(f"{TOOL_ERRORS}{tool}")[rows])
        if snapshot.has_number(f"{TOOL_ERRORS}{tool}")
        else np.zeros(len(rows))
    )
    return float(calls.sum()), float(errors.sum()), int((calls > 0).sum()), int((errors > 0).sum())


def _row(
    tool: str, later: tuple[float, float, int, int], earlier: tuple[float, float, int, int]
) -> dict[str, Any]:
    calls, errors, rollouts, with_error = later
    before = f"{earlier[1] / earlier[0]:.0%}" if earlier[0] else "–"
    tip = tr(
        "{with_error:,} of the {rollouts:,} rollouts that call it have an error of {tool}: {share:.0%}. "
        "Click to see them.",
        with_error=with_error,
        rollouts=rollouts,
        tool=tool,
        share=with_error / max(rollouts, 1),
    )
    figures = [before, number(calls), number(errors), f"{with_error:,} / {rollouts:,}"]
    return link_row(tool, tool, f"{errors / calls:.0%}", errors / calls, figures, tip=tip)
