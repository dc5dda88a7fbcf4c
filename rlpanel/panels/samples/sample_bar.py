"""The bar above the grid: query, presets and export menu; counts, search, and chips of filters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Selection
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Region, region_script
from rlpanel.store.query.filter_columns import FilterScope
from rlpanel.store.query.filter_syntax import conditions_of
from rlpanel.store.query.query import parse_order

# -- query bar -----------------------------------------------------------------------------------------
# The grid's query bar: filter expression, scope, presets, and export menu.


#: Preset → (required columns, sort, filter). A preset is only offered if the run has the required columns.
PRESETS: dict[str, tuple[tuple[str, ...], str, str]] = {
    marked("Highest reward"): (("reward",), "-reward", ""),
    marked("Lowest reward"): (("reward",), "reward", ""),
    marked("Below reference"): (("reward_gap",), "reward_gap", "reward_gap < 0"),
    marked("Worst groups"): (("group_reward",), "group_reward", ""),
    marked("Highest KL"): (("{kl}_mean",), "-{kl}_mean", ""),
    marked("Longest responses"): (("response_tokens",), "-response_tokens", ""),
    marked("Truncated"): (("truncated",), "", "truncated == 1"),
    marked("Duplicates"): (("copies",), "-copies", "copies > 1"),
    marked("Tagged"): (("tag",), "", "not missing(tag)"),
    marked("Answer matches, reward 0"): (("reward", "match"), "", "match = yes and reward = 0"),
}
#: Descriptions of columns that the metric registry does not know.
_DESCRIPTIONS = {
    "attempt": marked("newest; older if a restart of the job replaced the sample"),
    "copies": marked("samples of the step with the same prompt and response"),
    "file": marked("log file of the sample"),
    "answer": marked("answer that is read from the response"),
    "match": marked("whether the answer equals the ground truth: yes, no or unclear"),
    "group_reward": marked("mean reward of the group"),
    "note": marked("note of a viewer"),
    "prompt_key": marked("equal for equal prompts"),
    "tag": marked("tag of a viewer"),
}
#: Why a preset is disabled whose column is computed within a step.
ONE_STEP = marked("available for a single step only")


class QueryBar(Component):
    """Filter, scope, presets and export menu; its parameters define everything it shows.

    Parameters
    ----------
    act : callable
        Called with an action (preset, take, off, stop) and its argument.
    """

    filter = param.String(default="", doc="The filter expression, as written.")
    scope = param.Selector(default="step", objects=["step", "run"], doc="This step, or all steps.")
    names = param.List(default=[], doc="Columns for completion: [name, description].")
    presets = param.List(default=[], doc="Presets: [label, key, reason if disabled].")
    takes = param.List(default=[], doc="Entries of the export menu: [label, key, reason if disabled].")
    chips = param.List(default=[], doc="What narrows the grid down: [key, label, samples it finds alone].")
    heads = param.Boolean(default=False, doc="Whether the column heads show their own filters.")
    error = param.String(default="", doc="Error of the query or export; empty if there is none.")
    error_at = param.Integer(default=0, doc="Position of the error in the filter.")
    note = param.String(default="", doc="Status of the query or export.")
    progress = param.Number(default=-1.0, doc="Progress from 0 to 1; below 0 if nothing is running.")

    SET_IN_BROWSER = frozenset({"filter", "scope", "heads"})
    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/export/download.js",
        "panels/ui/closing.js",
        "panels/ui/menu.js",
        "panels/samples/filter_help.js",
        "panels/samples/query_bar.js",
    )
    _stylesheets = [
        read_assets("panels/samples/query_bar.css"),
        read_assets("panels/ui/menu.css", "panels/ui/targets.css"),
    ]

    def __init__(self, act: Callable[[str, str], None]) -> None:
        super().__init__(css_classes=["rl-query"])
        self._act = act

    def receive(self, message: Any) -> None:
        """Do what the viewer chose: a preset, an export, or stop."""
        if isinstance(message, dict) and isinstance(message.get("do"), str):
            self._act(message["do"], str(message.get("what", "")))


def names_of(scope: FilterScope) -> list[list[str]]:
    """Return the columns that a filter may name: [name, description]."""
    return [[name, tr(_DESCRIPTIONS.get(name, "")) or _description(name)] for name in scope.kinds()]


def _description(name: str) -> str:
    column = described(name)
    return f"{column.label}, {column.detail}" if column.detail else column.label


def presets_of(scope: FilterScope, kl: str, *, whole_run: bool) -> list[list[str | None]]:
    """Return the presets for which the run has the columns: [label, key, reason if disabled]."""
    columns = {*scope.kinds()}
    presets: list[list[str | None]] = [[tr("All samples"), "", None]]
    for label, (required, _, _) in PRESETS.items():
        if label == "Duplicates" and whole_run:
            presets.append([tr(label), label, tr(ONE_STEP)])
        elif {name.format(kl=kl) for name in required} <= columns:
            presets.append([tr(label), label, None])
    return presets


# -- sample bar ----------------------------------------------------------------------------------------
# The bar above the grid: number of samples, search, new samples, and chips of what narrows the grid down.


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
