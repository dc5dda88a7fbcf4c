"""Table of the prompts that two runs have in common, with the reward in both and the difference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from rlpanel.analysis.run_comparison import RunComparison
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.tables.data_table import ROW_HEIGHT, DataColumn, DataTable
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
        self.view = DataTable(
            [DataColumn("prompt", "prompt"), *map(_column, (*_NUMBERS, _USED))],
            key="pair",
            page_size=PAGE,
            pick=self._pick,
            empty=tr("The runs have no prompt in common"),
            height=PAGE * ROW_HEIGHT + 62,
            sizing_mode="stretch_width",
            margin=(4, 8),
            css_classes=["rl-pairs"],
        )

    def draw(self, comparison: RunComparison, style: TextStyle) -> None:
        """Show the prompts of a comparison."""
        pairs, listed = comparison.pairs, comparison.listed
        here, there = pairs.here.take(listed), pairs.there.take(listed)
        columns = [here.reward, there.reward, here.reward - there.reward]
        columns += [here.samples, there.samples, here.step, there.step]
        prompts = [prompt_line(text, style) for text in comparison.prompts]
        frame = _frame(prompts, dict(zip(_NUMBERS, columns, strict=True)))
        frame["pair"] = listed.astype(str)
        frame[_USED] = np.where(pairs.held_out[listed], "✓", "")
        self.view.hide(_USED, hidden=bool(pairs.held_out.all()))
        if not frame.equals(self.view.frame):
            self.view.draw(frame)

    def _pick(self, pair: str, _: str) -> None:
        if pair.isdecimal():
            self._choose(int(pair))


def _column(name: str) -> DataColumn:
    return DataColumn(
        name,
        _TITLES.get(name, name),
        tip=tr(_TIPS[name]),
        width=_WIDTHS.get(name.partition(" ")[0], 70),
        align="center" if name == _USED else "right",
    )


def _frame(prompts: list[str], numbers: dict[str, np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({"prompt": pd.Series(prompts, dtype=str), **numbers})
