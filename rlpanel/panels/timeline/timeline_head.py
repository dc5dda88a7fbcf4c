"""The head of the timeline: order, colours, legend, a note, and the slowest rollouts as buttons."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import param

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import tr
from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_colors import colorings_of
from rlpanel.panels.timeline.swim_lanes import orders_of
from rlpanel.panels.timeline.timeline_plot import Timeline
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets

#: Number of the slowest rollouts that have a button.
_SLOWEST = 5


class TimelineHead(Component):
    """Drawn by ``timeline_head.js``.

    It sends pairs: ``["ready", 0]`` once it is drawn, ``["order", name]``, ``["color", name]``,
    ``["pick", position of a rollout]`` and ``["all", 0]``.
    """

    data = param.Dict(default={}, doc="What is shown; see `head_data`.")
    zoomed = param.Boolean(default=False, doc="Whether only a part of the timeline is in view.")

    _esm = read_assets("panels/ui/dom.js", "panels/timeline/timeline_head.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/timeline/timeline_head.css")]


def head_data(timeline: Timeline, order: str, coloring: str) -> dict[str, Any]:
    """Return what the head shows of a timeline.

    Returns
    -------
    dict
        ``note``, ``order``, ``orders``, ``coloring``, ``colorings``; ``entries``: names and colours of the
        legend; ``rollouts``: positions, texts and titles of the slowest.
    """
    times, table = timeline.times, timeline.table
    used = np.unique(table.code[table.code >= 0]).tolist()
    slowest = np.argsort(-times.seconds, kind="stable")[:_SLOWEST].tolist()
    return {
        "note": note_of(times),
        "order": order,
        "orders": orders_of(times),
        "coloring": coloring,
        "colorings": colorings_of(times),
        "entries": [(table.names[code], table.colors[code]) for code in used],
        "rollouts": [
            (
                at,
                f"{number(float(times.seconds[at]))} s",
                tr("Show the sample of rollout {place}", place=place),
            )
            for place, at in enumerate(slowest, 1)
        ],
    }


def note_of(times: RolloutTimes) -> str:
    """Return a sentence on the step's times, and on what is not known of them."""
    if not len(times):
        return tr("No rollout of this step has times.")
    middle, longest = np.quantile(times.seconds, [0.5, 1.0])
    label = tr("{count:,} rollouts: median {median} s, slowest {slowest} s.")
    parts = [label.format(count=len(times), median=number(float(middle)), slowest=number(float(longest)))]
    if not times.exact:
        parts.append(tr("Phases are sums; their order in time was not logged."))
    elif times.exact < len(times):
        label = tr("Phases of {count:,} rollouts are sums; their order in time was not logged.")
        parts.append(label.format(count=len(times) - times.exact))
    return " ".join(parts)
