"""The grid's query bar: filter expression, scope, presets, and export menu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.query.filter_columns import FilterScope

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
