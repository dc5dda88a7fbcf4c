"""Two runs on the same prompts: who wins, by how much, and where; RL against SFT, or against a baseline."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewer

from rlpanel.metrics.reward import SAME
from rlpanel.metrics.win_rate import win_rate_of
from rlpanel.panels.compare.prompt_matching import ComparedRun, Prompts, RunComparison, compare_runs
from rlpanel.panels.compare.prompt_pair import PromptPair
from rlpanel.panels.compare.prompt_table import PromptTable
from rlpanel.panels.compare.response_diff import select
from rlpanel.panels.compare.runs_export import comparison_export
from rlpanel.panels.compare.runs_summary import matched_html, win_rate_html
from rlpanel.panels.export.card_export import CardExport
from rlpanel.panels.export.export_menu import ExportMenu, plot_with_menu
from rlpanel.panels.plots.bar_chart import BarChart
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.run_list import unique_label
from rlpanel.panels.step.reward_distribution import Bins, bins_of
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.prompt_pairs import BEST, NEWEST
from rlpanel.store.snapshot.snapshot import Snapshot

#: Samples of both runs that are compared on the event loop; more on a thread.
COMPARE_NOW = 20_000
#: Of the time while runs grow, the share that comparing them again may take.
_SHARE = 0.05
_STEP = "step"
_LAYERS = {"good": 0.95, "bad": 0.95, "muted": 1.0}


class RunsTab(Viewer):
    """The sample's tab: choices, words, a histogram, the prompts, and the pair that was clicked."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found: RunComparison | None = None
        self._seen: tuple[object, ...] = ()
        self._began, self._took = 0.0, 0.0
        self._prompts: tuple[tuple[object, ...], Prompts] | None = None
        self._chosen = -1
        self._quiet = False
        self._work: BackgroundTask[RunComparison] = BackgroundTask(self._put)
        self._against = select("against-run", 190)
        self._at = {name: _SamplesAt(context, name) for name in ("here_at", "there_at")}
        self._words = pn.pane.HTML(
            "",
            stylesheets=[theme.CSS, read_assets("panels/compare/runs_tab.css")],
            sizing_mode="stretch_width",
            margin=(6, 14, 0, 14),
            css_classes=["rl-compare-runs"],
        )
        self._bars = BarChart(_LAYERS, name="difference-")
        self._table = PromptTable(self._choose)
        self._pair = PromptPair(context)
        plot = plot_with_menu(
            "difference of mean rewards, prompt by prompt", self._bars.pane, ExportMenu(context, self._taken)
        )
        self._results = pn.Column(
            plot, self._table.view, self._pair.view, sizing_mode="stretch_width", margin=0,
            visible=False,
        )  # fmt: skip
        self._column = pn.Column(
            pn.Row(_caption("this run at"), self._at["here_at"], margin=(8, 10, 0, 10)),
            pn.Row(_caption("against"), self._against, self._at["there_at"], margin=(2, 10, 0, 10)),
            self._words,
            self._results,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        self._against.param.watch(self._turned, "value")
        context.param.watch(self._offer, "runs")
        context.selection.param.watch(self._offer, ["run", "over", "against"])
        context.param.watch(self._draw, ["index", "against"])
        context.param.watch(self._again, "now")
        context.selection.param.watch(self._draw, ["here_at", "there_at"])
        context.display.param.watch(self._draw, ["pad_token", "system_end"])
        context.selection.param.watch(lambda event: self._bars.restyle(event.new), "dark")
        self.param.watch(self._offer, "active")
        self._bars.restyle(context.selection.dark)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    # -- choosing --------------------------------------------------------------------------------

    def _offer(self, *_: Any) -> None:
        """The other runs; the first that lies over the curves is compared while none was chosen."""
        if not self.active:
            return
        context, selection = self.context, self.context.selection
        others = {
            unique_label(info, context.runs): info.name for info in context.runs if info.name != selection.run
        }
        names = [*(name for name in selection.over if name in others.values()), *others.values()]
        wish = selection.against if selection.against in names else next(iter(names), "")
        self._quiet = True
        self._against.param.update(options=others, value=wish or None)
        self._quiet = False
        if wish != selection.against:
            selection.against = wish
        self._draw()

    def _turned(self, event: Any) -> None:
        if not self._quiet and event.new:
            self.context.selection.against = event.new

    def _choose(self, place: int) -> None:
        found, self._chosen = self._found, place
        if found is not None and place < len(found.pairs):
            self._pair.show(found, place, self._labels())

    def _labels(self) -> tuple[str, str]:
        context = self.context
        names = {info.name: unique_label(info, context.runs) for info in context.runs}
        here = names.get(context.selection.run, context.selection.run)
        return here, names.get(context.selection.against, context.selection.against)

    def _taken(self) -> CardExport | None:
        found = self._found
        if found is None or not self._results.visible or self._prompts is None:
            return None
        return comparison_export(found, self._prompts[1], self._labels())

    # -- drawing ---------------------------------------------------------------------------------

    def _seats(self) -> tuple[ComparedRun, ComparedRun] | None:
        context, selection = self.context, self.context.selection
        if context.index is None or context.against is None or selection.against == selection.run:
            return None
        other = context.against
        return (
            ComparedRun(context.index, context.view, selection.here_at),
            ComparedRun(other.index, other.view, selection.there_at),
        )

    def _again(self, *_: Any) -> None:
        """While runs grow they are compared again, now and then."""
        seats = self._seats() if self.active else None
        rested = time.monotonic() - self._began > self._took / _SHARE
        if seats is not None and rested and self._key(*seats) != self._seen:
            self._draw()

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        seats = self._seats()
        if seats is None:
            self._say("There is no other run below this root to compare with.")
            return
        key = self._key(*seats)
        if key == self._seen:
            return
        self._seen = key
        self._work.stop()
        for name, seat in zip(self._at, seats, strict=True):
            self._at[name].offer(seat.snapshot)
        if not all(seat.snapshot.version and seat.snapshot.progress.caught_up for seat in seats):
            self._say("reading …")
            return
        self._began = time.monotonic()
        results = compare_runs(*seats, self._reader(seats))
        if sum(seat.snapshot.samples for seat in seats) <= COMPARE_NOW:
            self._put(next(results))
        else:
            if not self._results.visible:
                self._say("comparing …")
            self._work.start(results)

    def _key(self, here: ComparedRun, there: ComparedRun) -> tuple[object, ...]:
        display = self.context.display
        sides = tuple(
            (seat.index.path, seat.snapshot.split, seat.snapshot.version, seat.at) for seat in (here, there)
        )
        return (*sides, display.pad_token, display.system_end)

    def _reader(self, seats: tuple[ComparedRun, ComparedRun]) -> Prompts:
        """What was read of these runs' prompts before."""
        display = self.context.display
        key = (*(seat.index.path for seat in seats), display.pad_token, display.system_end)
        if self._prompts is None or self._prompts[0] != key:
            self._prompts = key, Prompts(display.pad_token, display.system_end)
            self._chosen = -1
            self._pair.show(None, 0, ("", ""))
        return self._prompts[1]

    def _put(self, found: RunComparison) -> None:
        self._took = time.monotonic() - self._began
        before, self._found = self._found, found
        labels, pairs = self._labels(), found.pairs
        words = matched_html(pairs, *labels, found.how)
        if not len(pairs):
            self._say_html(words + _why_not(found, labels))
            return
        self._say_html(words + win_rate_html(win_rate_of(pairs.difference)), results=True)
        self._bars.draw(_layers(pairs.difference))
        self._table.draw(found, self.context.display.pad_token, self.context.display.system_end)
        self._keep(before, found)

    def _keep(self, before: RunComparison | None, found: RunComparison) -> None:
        """The prompt that was clicked stays, wherever it stands now."""
        if before is None or not 0 <= self._chosen < len(before.pairs):
            return
        at = np.flatnonzero(found.pairs.here.keys == before.pairs.here.keys[self._chosen])
        self._chosen = int(at[0]) if len(at) else -1
        self._pair.show(found if len(at) else None, self._chosen, self._labels())

    def _say(self, words: str) -> None:
        self._say_html(f'<p class="note">{safe_text(words)}</p>')

    def _say_html(self, html: str, *, results: bool = False) -> None:
        self._words.object = html
        self._results.visible = results


class _SamplesAt(Viewer):
    """Which of a run's samples are compared: each prompt's newest, those of the best step, or of one."""

    def __init__(self, context: Context, name: str) -> None:
        super().__init__()
        self._selection, self._name = context.selection, name
        self._how = select(name.replace("_", "-"), 190)
        self._how.options = {"each prompt's newest step": NEWEST, "the best step": BEST, "a step": _STEP}
        self._step = pmui.IntInput(
            label="", size="small", width=110, margin=(0, 4), visible=False, sx=theme.FIELD_SX,
            css_classes=[f"rl-{name.replace('_', '-')}-step"],
        )  # fmt: skip
        self._steps = np.empty(0, np.int64)
        self._quiet = False
        self._how.param.watch(self._turned, "value")
        self._step.param.watch(self._turned, "value")
        context.selection.param.watch(self._show, name)
        self._show()

    def __panel__(self) -> pn.viewable.Viewable:
        return pn.Row(self._how, self._step, margin=0)

    def offer(self, snapshot: Snapshot) -> None:
        """The steps of a run."""
        self._steps = snapshot.steps.values

    def _show(self, *_: Any) -> None:
        at = getattr(self._selection, self._name)
        self._quiet = True
        self._how.value = at if at in (NEWEST, BEST) else _STEP
        self._step.visible = at not in (NEWEST, BEST)
        if self._step.visible:
            self._step.value = int(at)
        self._quiet = False

    def _turned(self, event: Any) -> None:
        if self._quiet:
            return
        if self._how.value != _STEP:
            setattr(self._selection, self._name, self._how.value)
        elif event.obj is self._how:
            newest = int(self._steps[-1]) if len(self._steps) else 0
            setattr(self._selection, self._name, str(newest))
        elif self._step.value is not None:
            setattr(self._selection, self._name, str(self._step.value))


def _layers(differences: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The histogram's bars: lost, tied and won prompts in their colours, the tied below the won."""
    bins = _from_zero(bins_of(differences))
    left, right = bins.bars(0, 1)
    won, lost = differences > SAME, differences < -SAME
    which = {"good": ~lost, "muted": ~won & ~lost, "bad": lost}
    rounded = np.where(won | lost, differences, 0.0)
    return {name: (left, right, bins.count(rounded[chosen])) for name, chosen in which.items()}


def _from_zero(bins: Bins) -> Bins:
    """The same bins moved so that one begins at 0: nothing that was lost stands with what was won."""
    if bins.values is not None:
        return bins
    width = bins.edges[1] - bins.edges[0]
    first, last = np.floor(bins.edges[0] / width), np.floor(bins.edges[-1] / width) + 1
    return Bins(np.arange(first, last + 1) * width)


def _why_not(found: RunComparison, labels: tuple[str, str]) -> str:
    """Why two runs have no prompt in common, as HTML."""
    seats = zip((found.here, found.there), labels, strict=True)
    bare = [label for seat, label in seats if not seat.snapshot.has_number("reward")]
    if bare:
        return f'<p class="note">{safe_text(" and ".join(bare))}: no reward is logged.</p>'
    return '<p class="note">No prompt is in both: nothing to compare.</p>'


def _caption(text: str) -> pn.pane.HTML:
    return pn.pane.HTML(
        f'<span class="note">{text}</span>', stylesheets=[theme.CSS], width=62, margin=(4, 4), align="center"
    )
