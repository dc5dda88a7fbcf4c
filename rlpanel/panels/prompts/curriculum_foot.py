"""Waste of the run, and the curriculum file of the listed prompts with what it would have saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import pair_of
from rlpanel.panels.export.card_export import file_name
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.prompts.grid_head import PassGridHead
from rlpanel.panels.prompts.prompt_results import PromptResults
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.curriculum import curriculum_effect, curriculum_lines
from rlpanel.store.snapshot.prompt_costs import PromptCosts

#: Weights of the curriculum file: 0 drops a prompt.
WEIGHTS = (0, 2, 4, 8)
_WASTE = {
    "dead group": marked("dead groups"),
    "discarded": marked("discarded"),
    "failed": marked("failed"),
    "truncated": marked("truncated"),
    "any of these": marked("any of these"),
}


class CurriculumFoot:
    """Facts on waste, and a button that writes a line of JSON for each listed prompt.

    Parameters
    ----------
    context : Context

    Attributes
    ----------
    part : PassGridHead
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._found: PromptResults | None = None
        self._listed, self._class, self._weight = np.empty(0, int), "", WEIGHTS[0]
        self._writing: BackgroundTask[dict[str, Any]] = BackgroundTask(self._send, context.threads.queries)
        self.part = PassGridHead(sizing_mode="stretch_width", margin=(4, 14), css_classes=["rl-grid-foot"])
        self.part.on_message(self._on_message)

    def draw(self, found: PromptResults, listed: np.ndarray, name: str) -> None:
        """Draw the waste of a run, and what a file of the listed prompts would change.

        Parameters
        ----------
        found : PromptResults
        listed : numpy.ndarray
            Prompts of the file.
        name : str
            Their class, for the file's name; empty for all.
        """
        self._found, self._listed, self._class = found, listed, name
        effect = curriculum_effect(found.costs, listed)
        self.part.data = {
            "facts": facts_of(found.costs),
            "weights": [(str(weight), _weight_title(weight)) for weight in WEIGHTS],
            "weight": str(self._weight),
            "effect": effect.sentence(self._weight, tr),
            "labels": {
                "weight": tr("Curriculum"),
                "download": trn("Download {count:,} prompt", "Download {count:,} prompts", effect.prompts),
                "format": tr("A line of JSON for each prompt: key, id, text, class and weight"),
            },
        }

    def _on_message(self, message: Any) -> None:
        """Handle a click. The message comes from the browser."""
        action, value = pair_of(message)
        if self._found is None:
            return
        if action == "weight" and value in map(str, WEIGHTS):
            self._weight = int(value)
            self.draw(self._found, self._listed, self._class)
        elif action == "download":
            self._download(self._found)

    def _download(self, found: PromptResults) -> None:
        index = self._context.index
        if index is None:
            return
        file = f"{file_name(found.snapshot.name)}-{self._class or 'all'}-weight-{self._weight}.jsonl"
        self.part.send({"name": None})
        self._writing.start(_pieces(index, found, self._listed, self._weight, file))

    def _send(self, message: dict[str, Any]) -> None:
        self.part.send(message)


def facts_of(costs: PromptCosts) -> list[str]:
    """Return short texts on waste by its kind, and on what the run does not log."""
    facts = []
    for each in costs.waste:
        if each.rows is None:
            continue
        parts = [tr("{rows:,} samples", rows=each.rows)]
        if each.rows == 0:
            facts.append(tr("{kind}: none", kind=tr(_WASTE[each.kind])))
            continue
        parts += [] if each.share is None else [f"{each.share:.1%}"]
        parts += [] if each.tokens is None else [tr("{tokens} tokens", tokens=number(each.tokens))]
        parts += [] if each.gpu_hours is None else [tr("{hours} GPU-hours", hours=number(each.gpu_hours))]
        facts.append(tr("{kind}: {parts}", kind=tr(_WASTE[each.kind]), parts=", ".join(parts)))
    if facts:
        facts.insert(0, tr("Waste"))
    facts += [tr("not known: {what}", what=tr(what)) for what in costs.missing()]
    if not costs.grid.advantages:
        facts.append(tr("No advantages are logged: the signal is computed from each group's rewards."))
    return facts


def _weight_title(weight: int) -> str:
    return tr("repeat {weight} times", weight=weight) if weight else tr("drop")


def _pieces(
    index: RunIndex, found: PromptResults, prompts: np.ndarray, weight: int, file: str
) -> Iterator[dict[str, Any]]:
    for lines, _ in curriculum_lines(index, found.snapshot, found.costs, prompts, weight):
        yield {"piece": lines}
    yield {"name": file}
