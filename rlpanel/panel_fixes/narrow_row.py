"""A row that may be narrower than its children, which break onto further lines.

Upstream: docs/upstream/panel-row-width.md
Needed by: Panel 1.9 to 1.10
Delete when: a layout takes its minimum width from its parameter, or not from its children.
"""

from __future__ import annotations

from typing import Any

import panel as pn


class NarrowRow(pn.Row):
    """A row without a minimum width.

    Panel would derive one from the children and pass it on to all layouts around the row.
    """

    def _compute_sizing_mode(self, children: list[Any], props: dict[str, Any]) -> dict[str, Any]:
        computed = super()._compute_sizing_mode(children, props)
        return {name: value for name, value in computed.items() if name != "min_width"}
