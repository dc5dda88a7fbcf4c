"""Tab that compares two runs on the same prompts, and the choice of the samples of each."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewable, Viewer

from rlpanel.analysis.run_comparison import ComparedRun, Prompts, RunComparison, compare_runs
from rlpanel.board_url import BEST, FIRST, NEWEST, steps_at
from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.number_text import number
from rlpanel.panels.compare.comparison_summary import (
    comparison_export,
    comparison_notes,
    matched_html,
    notes_html,
    win_rate_html,
)
from rlpanel.panels.compare.response_pair import PromptTable, ResponsePair
from rlpanel.panels.export.card_export import BarCard, CardExport
from rlpanel.panels.inputs.input_fields import FieldRow, integer_field, select_field
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.plots.plain_plots import Layer, bar_plot, tips_of
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.sidebar.run_list import run_labels
from rlpanel.panels.step.reward_distribution import Bins, bins_of
from rlpanel.panels.texts.sample_texts import STYLE_SETTINGS, settings_style, text_style
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html, ReportingHtml
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.index.summary_store import most_shared
from rlpanel.store.snapshot.snapshot import Snapshot

# -- step choice ---------------------------------------------------------------------------------------
# Choice of the compared samples of a run: of each prompt's newest or first step, or of some steps.


_STEP = "step"
#: Names of the choices of samples.
CHOICES = {
    NEWEST: marked("newest step of each prompt"),
    FIRST: marked("first step of each prompt"),
    BEST: marked("best step"),
}


class StepChoice(Viewer):
    """Choice of the samples that represent a run: the newest or first step of each prompt, or some steps."""

    def __init__(self, context: Context, name: str) -> None:
        super().__init__()
        self._selection, self._name = context.selection, name
        css = name.replace("_", "-")
        self._mode = select_field(css, tr("Steps of each prompt"), 220)
        self._mode.options = {
            tr("Newest step of each prompt"): NEWEST,
            tr("First step of each prompt"): FIRST,
            tr("Best step"): BEST,
            tr("Given steps"): _STEP,
        }
        self._first = integer_field(f"{css}-step", tr("First of the steps"), 90, visible=False)
        self._last = integer_field(f"{css}-last", tr("Last of the steps"), 90, visible=False)
        self._steps = np.empty(0, np.int64)
        self._updating = False
        for field in (self._mode, self._first, self._last):
            field.param.watch(self._on_choice, "value")
        context.selection.param.watch(self._show, name)
        self._show()

    def __panel__(self) -> pn.viewable.Viewable:
        return pn.Row(self._mode, self._first, self._last, margin=0)

    def set_steps(self, snapshot: Snapshot) -> None:
        """Take the steps of a run."""
        self._steps = snapshot.steps.values

    def _show(self, *_: Any) -> None:
        chosen = getattr(self._selection, self._name)
        given = chosen not in CHOICES
        self._updating = True
        self._mode.value = _STEP if given else chosen
        self._first.visible = self._last.visible = given
        if given:
            self._first.value, self._last.value = steps_at(chosen)
        self._updating = False

    def _on_choice(self, event: Any) -> None:
        if self._updating:
            return
        if self._mode.value != _STEP:
            setattr(self._selection, self._name, self._mode.value)
        elif event.obj is self._mode:
            newest = int(self._steps[-1]) if len(self._steps) else 0
            setattr(self._selection, self._name, str(newest))
        elif self._first.value is not None and self._last.value is not None:
            first, last = self._first.value, self._last.value
            # The field that was changed takes the other one with it where they would cross.
            first, last = (first, max(first, last)) if event.obj is self._first else (min(first, last), last)
            setattr(self._selection, self._name, str(first) if first == last else f"{first}..{last}")


# -- runs tab ------------------------------------------------------------------------------------------
# Tab that compares two runs on the same prompts: win rate, histogram of differences, prompts, responses.


#: Runs with up to this many samples together are compared on the event loop, larger ones on a thread.
COMPARE_NOW = 20_000
#: Maximum share of the time that is spent on repeating the comparison while runs grow.
_SHARE = 0.05
#: Most runs whose last lines are read to find the one that shares most prompts; the newest ones.
MAX_LOOKED_AT = 20


class RunsTab(Viewer):
    """Tab of the sample panel with the choice of runs, the summary, histogram, prompts and clicked pair."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._comparison: RunComparison | None = None
        self._key: tuple[object, ...] = ()
        self._started, self._duration = 0.0, 0.0
        self._prompts: tuple[tuple[object, ...], Prompts] | None = None
        self._chosen = -1
        self._proposed: str | None = None  # a run that nobody chose
        self._updating = False
        self._work: BackgroundTask[RunComparison] = BackgroundTask(self._show, context.threads.views)
        self._looking: BackgroundTask[str] = BackgroundTask(self._propose, context.threads.views)
        self._against = select_field("against-run", tr("Other run"), 220)
        self._steps = {name: StepChoice(context, name) for name in ("samples_here", "samples_there")}
        self._is_drawn = False  # a browser that still builds the fields fails at a change of them
        self._summary = ReportingHtml(
            stylesheets=[theme.CSS, read_assets("panels/compare/runs_tab.css")],
            sizing_mode="stretch_width",
            margin=(6, 14, 0, 14),
            css_classes=["rl-compare-runs"],
        )
        self._bars = BarCard(
            context,
            self._export,
            "rl-difference",
            head={"title": tr("Difference of mean reward per prompt")},
            styles={"overflow": "visible"},
            sizing_mode="stretch_width",
        )
        self._table = PromptTable(self._choose)
        self._pair = ResponsePair(context)
        self._results = pn.Column(
            self._bars, self._table.view, self._pair.view, sizing_mode="stretch_both", margin=0,
            visible=False,
        )  # fmt: skip
        self._column = pn.Column(
            FieldRow(_caption(tr("This run")), self._steps["samples_here"], margin=(8, 10, 0, 10)),
            FieldRow(
                _caption(tr("Against")), self._against, self._steps["samples_there"], margin=(2, 10, 0, 10)
            ),
            self._summary,
            self._results,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        self._summary.on_message(self._on_drawn)
        self._against.param.watch(self._on_run_choice, "value")
        context.param.watch(self._update_runs, "runs")
        context.selection.param.watch(self._update_runs, ["run", "overlay_runs", "compared_run"])
        context.param.watch(self._draw, ["index", "other_run"])
        context.param.watch(self._draw_again, "now")
        context.selection.param.watch(self._draw, ["samples_here", "samples_there"])
        context.display.param.watch(self._draw, [*STYLE_SETTINGS])
        self.param.watch(self._update_runs, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def insert(self, view: Viewable | Viewer) -> None:
        """Show a further part between the summary and the prompts."""
        self._column.insert(len(self._column) - 1, view)

    # -- choosing --------------------------------------------------------------------------------

    def _update_runs(self, *_: Any) -> None:
        """List the runs; until one is chosen, propose a ticked one, or one that shares prompts."""
        if not self.active:
            return
        context, selection = self.context, self.context.selection
        labels = run_labels(context.runs)
        others = {label: name for name, label in labels.items() if name != selection.run}
        ticked = [name for name in selection.overlay_runs if name in others.values()]
        if selection.compared_run not in (selection.run, *others.values()):
            self._proposed = None
            if ticked or not others:
                self._compare_with(ticked[0] if ticked else selection.run)
                return  # this is called again for that run
        # The proposal has an entry of its own: a select must not change while the browser still builds it.
        options = {tr("Proposed run"): "", tr("This run, at other steps"): selection.run, **others}
        chosen = "" if self._proposed == selection.compared_run else selection.compared_run
        self._updating = True
        self._against.param.update(options=options, value=chosen if chosen in options.values() else "")
        self._updating = False
        if selection.compared_run in options.values() and selection.compared_run:
            self._draw()
        else:
            self._show_note(tr("Looking for the run that shares most prompts …"))
            runs = [info for info in context.runs if info.name in others.values()][:MAX_LOOKED_AT]
            self._looking.start(most_shared(context.snapshot.prompts(context.snapshot.alive_rows), runs))

    def _propose(self, run: str) -> None:
        """Compare with the run that shares most prompts; with this one where none does.

        This one changes a field as well, so it waits until the browser has drawn the fields.
        """
        self._proposed = run or self.context.selection.run
        if run or self._is_drawn:
            self._accept()

    def _on_drawn(self, _: Any) -> None:
        """Note that the browser has drawn the fields. The message comes from the browser."""
        self._is_drawn = True
        self._accept()

    def _accept(self) -> None:
        """Compare with the proposed run, unless a run is compared already."""
        if self.active and self._proposed and not self.context.selection.compared_run:
            self._compare_with(self._proposed)

    def _compare_with(self, run: str) -> None:
        """Compare with a run; this one is compared with the first step of each prompt."""
        selection = self.context.selection
        same = run == selection.run and selection.samples_here == selection.samples_there
        selection.param.update(compared_run=run, **({"samples_there": FIRST} if same else {}))

    def _on_run_choice(self, event: Any) -> None:
        if not self._updating:
            self._proposed = None
            self._looking.stop()
            self._compare_with(event.new or "")

    def _choose(self, pair: int) -> None:
        comparison, self._chosen = self._comparison, pair
        if comparison is not None and pair < len(comparison.pairs):
            self._pair.show(comparison, pair, self._labels())

    def _labels(self) -> tuple[str, str]:
        context = self.context
        names = run_labels(context.runs)
        selection = context.selection
        here, there = (names.get(name, name) for name in (selection.run, selection.compared_run))
        if here != there:
            return here, there
        steps = selection.samples_here, selection.samples_there
        first, second = (f"{here}, {tr(CHOICES.get(at, at))}" for at in steps)
        return first, second

    def _export(self) -> CardExport | None:
        comparison = self._comparison
        if comparison is None or not self._results.visible or self._prompts is None:
            return None
        return comparison_export(comparison, self._prompts[1], self._labels())

    # -- drawing ---------------------------------------------------------------------------------

    def _runs(self) -> tuple[ComparedRun, ComparedRun] | None:
        """Return the two runs to compare, which may be one run twice; None if one of them is missing."""
        context, selection = self.context, self.context.selection
        other = context if selection.compared_run == selection.run else context.other_run
        if context.index is None or other is None or other.index is None:
            return None
        return (
            ComparedRun(context.index, context.view, selection.samples_here),
            ComparedRun(other.index, other.view, selection.samples_there),
        )

    def _draw_again(self, *_: Any) -> None:
        """Repeat the comparison while the runs grow, limited to a share of the time."""
        runs = self._runs() if self.active else None
        due = time.monotonic() - self._started > self._duration / _SHARE
        if runs is not None and due and self._key_of(*runs) != self._key:
            self._draw()

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        runs = self._runs()
        if runs is None:
            self._show_note(tr("Reading …"))
            return
        key = self._key_of(*runs)
        if key == self._key:
            return
        self._key = key
        self._work.stop()
        for name, run in zip(self._steps, runs, strict=True):
            self._steps[name].set_steps(run.snapshot)
        if not all(run.snapshot.version and run.snapshot.progress.caught_up for run in runs):
            self._show_note(tr("Reading …"))
            return
        self._started = time.monotonic()
        results = compare_runs(*runs, self._prompt_cache(runs))
        if sum(run.snapshot.samples for run in runs) <= COMPARE_NOW:
            self._show(next(results))
        else:
            if not self._results.visible:
                self._show_note(tr("Comparing …"))
            self._work.start(results)

    def _key_of(self, here: ComparedRun, there: ComparedRun) -> tuple[object, ...]:
        """Return everything the comparison depends on."""
        sides = tuple(
            (run.index.path, run.snapshot.split, run.snapshot.version, run.snapshot.counts_rows, run.at)
            for run in (here, there)
        )
        return (*sides, text_style(self.context))

    def _prompt_cache(self, runs: tuple[ComparedRun, ComparedRun]) -> Prompts:
        """Return the cache of prompt texts of these runs; new runs get a new cache."""
        style = settings_style(self.context.display)
        key = (*(run.index.path for run in runs), style)
        if self._prompts is None or self._prompts[0] != key:
            self._prompts = key, Prompts(style)
            self._chosen = -1
            self._pair.show(None, 0, ("", ""))
        return self._prompts[1]

    def _show(self, comparison: RunComparison) -> None:
        self._duration = time.monotonic() - self._started
        before, self._comparison = self._comparison, comparison
        labels, pairs = self._labels(), comparison.pairs
        head = matched_html(pairs, *labels, comparison.how)
        if not len(pairs):
            self._show_summary(head + _no_pairs_html(comparison, labels))
            return
        at = comparison.here.at, comparison.there.at
        head += notes_html(comparison_notes(comparison.reward, pairs, at, labels))
        rate = comparison.rate
        self._show_summary(head + (win_rate_html(rate) if rate.prompts else ""), results=True)
        differences = pairs.difference[pairs.held_out]
        lone = lone_difference(differences)
        title = tr("Difference of mean reward per prompt")
        self._bars.param.update(
            head={"title": title, "notes": [[lone, ""]] if lone else []}, plot=difference_plot(differences)
        )
        self._table.draw(comparison, text_style(self.context))
        self._keep_pair(before, comparison)

    def _keep_pair(self, before: RunComparison | None, comparison: RunComparison) -> None:
        """Show the clicked prompt again, whose index may have changed."""
        if before is None or not 0 <= self._chosen < len(before.pairs):
            return
        matches = np.flatnonzero(comparison.pairs.here.keys == before.pairs.here.keys[self._chosen])
        self._chosen = int(matches[0]) if len(matches) else -1
        self._pair.show(comparison if len(matches) else None, self._chosen, self._labels())

    def _show_note(self, text: str) -> None:
        self._show_summary(note_html(text))

    def _show_summary(self, html: str, *, results: bool = False) -> None:
        self._summary.html = html
        self._results.visible = results


def difference_plot(differences: np.ndarray) -> dict[str, Any]:
    """Return the histogram by outcome; bars of won prompts include the ties, drawn on top."""
    bins = _from_zero(bins_of(differences))
    left, right = bins.bars(0, 1)
    won, lost = differences > EQUAL_WITHIN, differences < -EQUAL_WITHIN
    rounded = np.where(won | lost, differences, 0.0)
    layers = [
        Layer.from_zero(color, left, right, bins.count(rounded[chosen]))
        for color, chosen in {"policy": ~lost, "reference": lost, "muted": ~won & ~lost}.items()
    ]
    where = {"from": left, "to": right, "prompts": bins.count(rounded)}
    # A lone value is a thin bar in the middle, as in the distribution of rewards.
    ends = (float(bins.edges[0]), float(bins.edges[-1])) if len(left) == 1 else None
    return bar_plot(layers, x=ends, tips=tips_of(left, right, where), counts=True)


def lone_difference(differences: np.ndarray) -> str:
    """Return words for a histogram with one bar; empty for others."""
    bins = bins_of(differences)
    if bins.values is None or len(bins.values) != 1:
        return ""
    value, count = number(bins.values[0], sign=True), int(np.isfinite(differences).sum())
    return trn("the only one is {value}", "all {count:,} are {value}", count, value=value)


def _from_zero(bins: Bins) -> Bins:
    """Shift the bins so that one starts at 0 and no bin contains both lost and won prompts."""
    if bins.values is not None:
        return bins
    width = bins.edges[1] - bins.edges[0]
    first, last = np.floor(bins.edges[0] / width), np.floor(bins.edges[-1] / width) + 1
    return Bins(np.arange(first, last + 1) * width)


def _no_pairs_html(comparison: RunComparison, labels: tuple[str, str]) -> str:
    """Return HTML that explains why the runs have no prompt to compare."""
    sides = zip((comparison.here, comparison.there), labels, strict=True)
    without_reward = [
        label for run, label in sides if not np.isfinite(comparison.reward.values(run.snapshot)).any()
    ]
    if without_reward:
        return note_html(
            tr("No reward is logged in {without_reward}.", without_reward=" and ".join(without_reward))
        )
    return note_html(tr("The runs have no prompt in common."))


def _caption(text: str) -> Html:
    return Html(
        html=f'<span class="note">{text}</span>',
        stylesheets=[theme.CSS],
        width=62,
        margin=(4, 4),
        align="center",
    )
