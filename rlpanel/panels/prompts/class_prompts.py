"""The prompts of a class: a bar of classes with their counts, words on the class, and a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from rlpanel.board_url import PROMPT_CLASSES
from rlpanel.number_text import number
from rlpanel.panels.inputs.input_fields import TabBar
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.prompts.pass_grid import BAND_TITLES
from rlpanel.panels.prompts.prompt_results import BELOW, PromptResults
from rlpanel.panels.session.context import Context
from rlpanel.panels.tables.data_table import DataColumn, DataTable, cells_of
from rlpanel.panels.texts.sample_texts import read_texts, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.snapshot.prompt_classes import (
    ALWAYS,
    CLASSES,
    FLICKERS,
    FORGOTTEN,
    LEARNT,
    NEVER,
    SELDOM,
    STEADY,
)
from rlpanel.texts.prompt_parts import prompt_line

#: Rows of a page, and points of a trend.
PAGE_ROWS, TREND_POINTS = 50, 32
#: Classes in the order in which they are looked at.
_FIRST = (NEVER, FORGOTTEN, FLICKERS, LEARNT, STEADY, ALWAYS, SELDOM)
_WORDS = {
    LEARNT: marked("The pass rate moved up once and stayed there."),
    NEVER: marked("At most 5 % of the samples passed, and no change is shown."),
    FORGOTTEN: marked("The pass rate was higher before, and has not come back."),
    FLICKERS: marked("The pass rate moves up and down, more than chance explains."),
    ALWAYS: marked("At least 95 % of the samples passed, and no change is shown."),
    STEADY: marked("Some samples pass. Chance explains how the pass rate varies."),
    SELDOM: marked("Seen at too few steps for a class."),
    BELOW: marked("At no step was the mean reward above that of the reference's responses."),
    "": marked("All prompts, by class."),
}
_TITLES = {**BAND_TITLES, BELOW: marked("below the reference"), "": marked("all")}
_MOVE = marked(
    "A change must exceed binomial noise between visits (99.9 %). A move is at least 30 points and three "
    "standard errors, but need not exceed 75 points."
)
_ORIGINS = {
    "run.json": marked("A sample passes from reward {reward} on (run.json)."),
    "setting": marked("A sample passes from reward {reward} on (setting)."),
    "usual": marked("A sample passes from reward {reward} on (usual value, not logged)."),
    "range": marked(
        "A sample passes from reward {reward} on: 90 % of the rewards' range, since no threshold is given. "
        "Set the pass threshold in the side panel."
    ),
}
_TREND_CSS = """
.tabulator-cell img { width: 120px; max-width: 100%; height: 18px; object-fit: fill; }
[tabulator-field="c_prompt"] { min-width: 170px !important; }
"""


class ClassPrompts:
    """Prompts of the chosen class with their visits, pass rates, tokens, cost and trend.

    Parameters
    ----------
    context : Context
    pick : callable
        Takes the unique name of a prompt's newest sample when its row is clicked.

    Attributes
    ----------
    bar : TabBar
    note : Html
    table : DataTable
    """

    def __init__(self, context: Context, pick: Callable[[str], None]) -> None:
        self._context = context
        self._found: PromptResults | None = None
        self.bar = TabBar(css_classes=["rl-courses"], label=tr("Classes of the prompts"), margin=(6, 8, 0, 8))
        self.bar.on_message(self._choose)
        self.note = Html(stylesheets=[theme.CSS], margin=(2, 14), css_classes=["rl-courses-note"])
        self.table = DataTable(
            [
                DataColumn("prompt", tr("prompt")),
                DataColumn("class", tr("class"), width=84),
                DataColumn("visits", tr("steps"), tr("Steps with this prompt"), 76, align="right"),
                DataColumn("samples", tr("samples"), width=94, align="right"),
                DataColumn("first", tr("first"), tr("Pass rate at its first step"), 72, align="right"),
                DataColumn("last", tr("last"), tr("Pass rate at its last step"), 72, align="right"),
                DataColumn("tokens", tr("tokens"), tr("Response tokens of its samples"), 84, align="right"),
                DataColumn(
                    "hours", tr("GPU-hours"), tr("Its part of the GPU-hours, by tokens"), 104, align="right"
                ),
                DataColumn("signal", tr("signal"), tr("Sum of the absolute advantages"), 70, align="right"),
                DataColumn("trend", tr("trend"), tr("Pass rate over its steps"), 140, image=True),
            ],
            page_size=PAGE_ROWS,
            pick=lambda uid, _: pick(uid),
            cells=self._cells,
            sizing_mode="stretch_width",
            margin=(4, 8),
            stylesheets=[_TREND_CSS],
            css_classes=["rl-prompts-table"],
        )

    def draw(self, found: PromptResults, prompts: np.ndarray) -> tuple[str, np.ndarray]:
        """Draw the prompts of the chosen class, and return the class and its prompts.

        Parameters
        ----------
        found : PromptResults
        prompts : numpy.ndarray
            Prompts of the chosen category.
        """
        self._found = found
        counts = {name: len(found.of_class(name, prompts)) for name in _TITLES}
        chosen = self._context.selection.prompt_class or next((each for each in _FIRST if counts[each]), "")
        chosen = "" if chosen == "all" else chosen
        shown = [name for name in _TITLES if name not in (BELOW, SELDOM) or counts[name] or name == chosen]
        self.bar.param.update(
            tabs=[{"key": name or "all", "title": f"{tr(_TITLES[name])} {counts[name]:,}"} for name in shown],
            value=chosen or "all",
        )
        listed = found.of_class(chosen, prompts)
        self.table.draw(_rows(found, listed))
        for column, hidden in (
            ("class", chosen in CLASSES),
            ("tokens", not found.costs.grid.has_tokens),
            ("hours", not np.isfinite(found.costs.gpu_hours).any()),
        ):
            self.table.hide(column, hidden=hidden)
        rule = found.costs.grid.rule
        words = [
            tr(_WORDS[chosen]),
            tr(_MOVE),
            tr(_ORIGINS[rule.origin], reward=number(rule.reward)),
            _seen(found, max(self._context.display.stuck_steps, 2)),
        ]
        self.note.html = note_html(" ".join(words))
        return chosen, listed

    def _cells(self, page: pd.DataFrame, name: str) -> Sequence[str | None]:
        """Return the texts of a column; prompts are read for the rows of a page only."""
        if name == "prompt":
            return self._texts(np.array(page["prompt"].tolist(), int))
        if name == "class":
            return [tr(BAND_TITLES[CLASSES[code]]) for code in page["class"].tolist()]
        if name == "trend":
            color = theme.palette(self._context.selection.dark)["policy"]
            return [trend_image(self._rates(prompt), color) for prompt in page["prompt"].tolist()]
        if name in ("first", "last"):
            return [f"{value:.0%}" if np.isfinite(value) else "–" for value in page[name].tolist()]
        if name in ("tokens", "hours", "signal"):
            return [number(value) for value in page[name].tolist()]
        return cells_of(page, name)

    def _rates(self, prompt: int) -> np.ndarray:
        """Return the pass rates of a prompt's visits."""
        assert self._found is not None
        grid = self._found.costs.grid
        is_last = prompt + 1 == len(grid.firsts)
        cells = slice(grid.firsts[prompt], len(grid.prompt) if is_last else grid.firsts[prompt + 1])
        samples, passed = grid.samples[cells], grid.passed[cells]
        return passed[samples > 0] / samples[samples > 0]

    def _texts(self, prompts: np.ndarray) -> list[str]:
        index, found = self._context.index, self._found
        if index is None or found is None:
            return [""] * len(prompts)
        style, rows = text_style(self._context), found.costs.grid.newest[prompts]
        return [prompt_line(texts.get("prompt"), style) for texts in read_texts(index, found.snapshot, rows)]

    def _choose(self, key: Any) -> None:
        if isinstance(key, str) and key in {tab["key"] for tab in self.bar.tabs} and key in PROMPT_CLASSES:
            self._context.selection.prompt_class = key


def _rows(found: PromptResults, prompts: np.ndarray) -> pd.DataFrame:
    """Return the rows of the table."""
    costs, grid = found.costs, found.costs.grid
    first, last = costs.first_and_last
    return pd.DataFrame(
        {
            "prompt": prompts,
            "class": costs.classes[prompts],
            "visits": grid.visits[prompts],
            "samples": grid.samples_of_prompts[prompts],
            "first": first[prompts],
            "last": last[prompts],
            "tokens": costs.tokens[prompts],
            "hours": costs.gpu_hours[prompts],
            "signal": costs.signal[prompts],
            "trend": last[prompts] - first[prompts],
            "uid": found.snapshot.uids(grid.newest[prompts]),
        }
    )


def _seen(found: PromptResults, least: int) -> str:
    """Return how many prompts were seen often enough to have a class, and what has no reward."""
    visits = found.costs.grid.visits
    seen, known = int(np.count_nonzero(visits)), int(np.count_nonzero(visits >= least))
    words = tr(
        "{count:,} of {seen:,} prompts were seen at {least:,} steps or more",
        count=known,
        seen=seen,
        least=least,
    )
    if not known and seen:
        words = tr("{words}; at most at {most:,}.", words=words, most=int(visits.max()))
    else:
        words += "."
    unrewarded = int(found.costs.grid.unrewarded.sum())
    if unrewarded:
        words += " " + tr("{count:,} samples without a finite reward are left out.", count=unrewarded)
    return words


def trend_image(rates: np.ndarray, color: str) -> str:
    """Return a line through a prompt's pass rates as the data URL of an image; empty without a visit."""
    if not len(rates):
        return ""
    count = min(len(rates), TREND_POINTS)
    sizes = np.full(count, len(rates) // count)
    sizes[: len(rates) % count] += 1
    parts = (np.add.reduceat(rates, np.cumsum(sizes) - sizes) / sizes).tolist()
    points = " ".join(
        f"{120 * at / max(1, len(parts) - 1):.1f},{16 - 14 * value:.1f}" for at, value in enumerate(parts)
    )
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 18" preserveAspectRatio="none">'
        f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/></svg>'
    )
    return f"data:image/svg+xml,{quote(svg)}"
