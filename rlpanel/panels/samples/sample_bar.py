"""The bar above the grid: number of samples, search, new samples, and chips of what narrows the grid down."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import tr
from rlpanel.panels.samples.query_bar import QueryBar
from rlpanel.panels.session.context import Selection
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script
from rlpanel.store.query.filter_syntax import conditions_of
from rlpanel.store.query.query import parse_order

#: Key of the chip that takes off all others.
ALL = "all"


def chips_of(selection: Selection, missing: Collection[str] = ()) -> list[list[str]]:
    """Return a chip for each condition of the filter, the search, the filters of columns, and the sort.

    Each is its key for `without`, and its label. Filters of ``missing`` columns say that they do nothing.
    """
    chips = [[f"filter:{at}", text] for at, text in enumerate(conditions_of(selection.filter))]
    if selection.search.strip():
        chips.append(["search", tr("contains “{search}”", search=selection.search.strip())])
    for name, text in selection.columns.items():
        label = f"{name}: {text}"
        idle = tr("{condition} does not filter: there is no such column here", condition=label)
        chips.append([f"column:{name}", idle if name in missing else label])
    order = parse_order(selection.sort)
    if order:
        way = tr("highest {column} first") if order.falling else tr("lowest {column} first")
        chips.append(["sort", way.format(column=order.name)])
    return chips


def without(selection: Selection, key: str) -> dict[str, Any]:
    """Return the changes of the selection that take off a chip; none for a chip that is gone."""
    kind, _, name = key.partition(":")
    conditions = conditions_of(selection.filter)
    if kind == ALL:
        return {"filter": "", "search": "", "sort": "", "columns": {}}
    if kind == "filter" and name.isdecimal() and int(name) < len(conditions):
        return {"filter": " and ".join(text for at, text in enumerate(conditions) if at != int(name))}
    if kind in ("search", "sort"):
        return {kind: ""}
    if kind == "column":
        kept = {column: text for column, text in selection.columns.items() if column != name}
        return {"columns": kept}
    return {}


class GridHead(Component):
    """Number of samples, a field that searches texts, and a button that loads new samples, by a message."""

    html = param.String(default="", doc="The grid's title and the number of samples, as HTML.")
    search = param.String(default="", doc="The search, as written.")
    new = param.String(default="", doc="Label of the button; empty without new samples.")

    SET_IN_BROWSER = frozenset({"search"})
    _esm = read_assets("panels/ui/dom.js", "panels/samples/grid_head.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/samples/grid_head.css")]


class SampleBar(Region):
    """The grid's head above its query bar."""

    head = param.String()
    query = param.String()

    _esm = region_script(head=GridHead, query=QueryBar)
    _stylesheets: ClassVar[list[str]] = [
        read_assets("panels/ui/region.css", "panels/samples/sample_bar.css"),
    ]

    def __init__(self, head: GridHead, query: QueryBar, **params: Any) -> None:
        super().__init__({"head": head, "query": query}, sizing_mode="stretch_width", margin=0, **params)
