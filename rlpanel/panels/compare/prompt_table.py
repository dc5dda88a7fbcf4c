"""Table of the prompts that two runs have in common, with the reward in both and the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import panel as pn

from rlpanel.analysis.run_comparison import RunComparison
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.samples.sample_table import PICK, SampleTable
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.table_click import click_field
from rlpanel.texts.prompt_parts import TextStyle, prompt_line

PAGE = 5
_NUMBERS = ("here", "there", "difference", "n here", "n there", "step here", "step there")
#: Column that marks the prompts of the win rate; shown if a best step was chosen by the other prompts.
_USED = "used"
_TITLES = {"difference": "Δ", "n here": "n", "n there": "n", "step here": "step", "step there": "step"}
#: Width of a column in pixels, by the first word of its name.
_WIDTHS = {"n": 46, "step": 66, _USED: 66}
_TIPS = {
    "here": marked("Mean of the compared reward over the prompt's samples in this run."),
    "there": marked("Mean of the compared reward over the prompt's samples in the other run."),
    "difference": marked("This run's mean minus the other run's."),
    "n here": marked("Number of samples in this run."),
    "n there": marked("Number of samples in the other run."),
    "step here": marked("Step of this run's samples."),
    "step there": marked("Step of the other run's samples."),
    _USED: marked(
        "✓: counted in the win rate, the mean difference and the chart. The best step was chosen on "
        "the other prompts."
    ),
}


class PromptTable:
    """Sortable table of the prompts in both runs.

    Parameters
    ----------
    choose : callable
        Called with the index of the clicked prompt among the pairs.
    """

    def __init__(self, choose: Callable[[int], None]) -> None:
        self._choose = choose
        self._picked = click_field(self._pick)
        self._table = SampleTable(
            _frame([], {name: np.empty(0) for name in _NUMBERS}),
            show_index=False,
            disabled=True,
            selectable=1,
            pagination="remote",
            page_size=PAGE,
            sizing_mode="stretch_width",
            height=PAGE * 27 + 62,
            margin=(4, 8),
            layout="fit_columns",
            stylesheets=[read_assets("panels/ui/table.css")],
            css_classes=["rl-pairs"],
            hidden_columns=["uid", _USED],
            formatters={name: {"type": "plaintext"} for name in ("prompt", _USED, *_NUMBERS)},
            text_align=dict.fromkeys(_NUMBERS, "right") | {_USED: "center"},
            header_align=dict.fromkeys(_NUMBERS, "right"),
            titles=_TITLES,
            header_tooltips={name: tr(text) for name, text in _TIPS.items()},
            widths={name: _WIDTHS.get(name.partition(" ")[0], 70) for name in (*_NUMBERS, _USED)},
            row_height=27,
            configuration={"placeholder": tr("The runs have no prompt in common"), "renderVertical": "basic"},
        )
        self._table.jscallback(args={"picked": self._picked}, **{"event:cell-click": PICK})
        self.view = pn.Column(self._table, self._picked, sizing_mode="stretch_width", margin=0)

    def draw(self, comparison: RunComparison, style: TextStyle) -> None:
        """Show the prompts of a comparison."""
        pairs, listed = comparison.pairs, comparison.listed
        here, there = pairs.here.take(listed), pairs.there.take(listed)
        columns = [here.reward, there.reward, here.reward - there.reward]
        columns += [here.samples, there.samples, here.step, there.step]
        prompts = [prompt_line(text, style) for text in comparison.prompts]
        frame = _frame(prompts, dict(zip(_NUMBERS, columns, strict=True)))
        frame["uid"] = listed.astype(str)
        frame[_USED] = np.where(pairs.held_out[listed], "✓", "")
        self._table.hidden_columns = ["uid"] if not pairs.held_out.all() else ["uid", _USED]
        if not frame.equals(self._table.value):
            self._table.value = frame

    def _pick(self, event: Any) -> None:
        pair = event.new.partition("\n")[0]
        if pair.isdecimal():
            self._choose(int(pair))


def _frame(prompts: list[str], numbers: dict[str, np.ndarray]) -> pd.DataFrame:
    data: dict[str, Any] = {"prompt": pd.Series(prompts, dtype=str), **numbers}
    texts = pd.Series([""] * len(prompts), dtype=str)
    return pd.DataFrame({**data, _USED: texts, "uid": texts})
