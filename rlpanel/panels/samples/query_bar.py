"""The grid's query as a person writes it: filter, scope, presets, and what to take away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

from rlpanel.metrics.engine import column_info
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.query.filter_columns import Scope

#: Preset → (needed columns, sort, filter); a needed column that the run lacks takes the preset away.
PRESETS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "highest reward": (("reward",), "-reward", ""),
    "lowest reward": (("reward",), "reward", ""),
    "below reference": (("reward_gap",), "reward_gap", "reward_gap < 0"),
    "worst groups": (("group_reward",), "group_reward", ""),
    "highest KL": (("{kl}_mean",), "-{kl}_mean", ""),
    "longest": (("response_tokens",), "-response_tokens", ""),
    "truncated": (("truncated",), "", "truncated == 1"),
    "duplicates": (("copies",), "-copies", "copies > 1"),
    "tagged": (("tag",), "", "not missing(tag)"),
}
#: What columns are that the registry does not know.
_OWN = {
    "attempt": "newest, or older where the job was restarted",
    "copies": "same prompt and response in the step",
    "file": "where it stands",
    "group_reward": "mean reward of the group",
    "note": "what a reader left",
    "prompt_key": "the same where the prompt is the same",
    "tag": "what a reader left",
}
#: Stated where the column is known, but only of one step at a time.
ONE_STEP = "known for one step at a time"


class QueryBar(JSComponent):
    """Filter, scope, presets and files; everything it shows is told by its parameters."""

    filter = param.String(default="", doc="The filter expression, as written.")
    scope = param.Selector(default="step", objects=["step", "run"], doc="This step, or all steps.")
    names = param.List(default=[], doc="Columns that may be named: [name, what it is].")
    presets = param.List(default=[], doc="[label, key, why not] of what can be found at a click.")
    takes = param.List(default=[], doc="[label, key, why not] of what can be taken away.")
    error = param.String(default="", doc="What is wrong with the query, in words.")
    error_at = param.Integer(default=0, doc="Where in the filter.")
    note = param.String(default="", doc="What there is to say about what was found.")
    progress = param.Number(default=-1.0, doc="How much of it is done, 0 to 1; below 0 if nothing is.")
    act = param.Callable(doc="Called with what to do and with what: preset, take, stop.", precedence=-1)

    _esm = read_assets(
        "panels/ui/dom.js", "panels/export/download.js", "panels/ui/menu.js", "panels/samples/query_bar.js"
    )
    _stylesheets = [read_assets("panels/samples/query_bar.css"), read_assets("panels/ui/menu.css")]
    _rename = {"act": None}

    def __init__(self, act: Callable[[str, str], None], **params: Any) -> None:
        super().__init__(act=act, sizing_mode="stretch_width", css_classes=["rl-query"], **params)

    def _handle_msg(self, msg: Any) -> None:
        if isinstance(msg, dict) and isinstance(msg.get("do"), str):
            self.act(msg["do"], str(msg.get("what", "")))

    def send(self, message: dict[str, Any]) -> None:
        """A message to the browser: a piece of a file, or its end."""
        self._send_msg(message)


def names_of(scope: Scope) -> list[list[str]]:
    """What may be named in a filter: [name, what it is]."""
    return [[name, _OWN.get(name) or _said(name)] for name in scope.kinds()]


def _said(name: str) -> str:
    column = column_info.describe(name)
    return f"{column.label}, {column.detail}" if column.detail else column.label


def presets_of(scope: Scope, kl: str, *, whole_run: bool) -> list[list[str | None]]:
    """The presets that the run's columns allow: [label, key, why not]."""
    known = {*scope.kinds()}
    offered: list[list[str | None]] = [["everything", "", None]]
    for label, (needed, _, _) in PRESETS.items():
        if label == "duplicates" and whole_run:
            offered.append([label, label, ONE_STEP])
        elif {name.format(kl=kl) for name in needed} <= known:
            offered.append([label, label, None])
    return offered
