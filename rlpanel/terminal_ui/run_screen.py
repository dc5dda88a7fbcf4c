"""One run, followed: curves, findings, and the samples of a step or of a filter."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, OptionList, Static, TabbedContent, TabPane

from rlpanel.errors import RLPanelError
from rlpanel.terminal_ui.cell_texts import SEVERITY_COLORS
from rlpanel.terminal_ui.run_feed import RunFeed, RunPicture
from rlpanel.terminal_ui.sample_screen import SampleScreen
from rlpanel.terminal_ui.token_colors import text_cell
from rlpanel.terminal_ui.widgets import CurveView, FilterLine, FindingsView, SamplesView

#: Orders of the samples that a key chooses from; a finding may bring another one.
ORDERS = ("", "-reward", "reward", "-kl_k3_mean", "-response_tokens")
_TABS = ("curves", "findings", "samples")
#: Fewest characters of a curve's width, and most curves in a row.
_CURVE, _MAX_BESIDE = 38, 4
#: Lines of a curve.
_LOWEST, _HIGHEST = 6, 24


class RunScreen(Screen[None]):
    """A run; it is drawn again when the reader has found new lines.

    Parameters
    ----------
    path, name : str
        Folder and name of the run.
    pause : float
        Seconds between two drawings while lines arrive.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('curves')", "Tabs", key_display="1 2 3"),
        Binding("2", "tab('findings')", "Findings", show=False),
        Binding("3", "tab('samples')", "Samples", show=False),
        Binding("left_square_bracket", "step(-1)", "Step", key_display="[ ]"),
        Binding("right_square_bracket", "step(1)", "Next step", show=False),
        ("f", "follow", "Follow"),
        Binding("a", "all_steps", "All steps", show=False),
        ("s", "order", "Order"),
        ("slash", "filter", "Filter"),
        ("escape", "app.pop_screen", "Back"),
        ("question_mark", "app.help", "Keys"),
        ("q", "app.quit", "Quit"),
    ]
    DEFAULT_CSS = """
    RunScreen #title, RunScreen #chosen { height: 1; padding: 0 1; }
    RunScreen TabPane { padding: 0; }
    RunScreen TabbedContent { height: 1fr; }
    RunScreen ContentSwitcher { height: 1fr; }
    RunScreen #grid { height: auto; grid-rows: 7; grid-gutter: 0 1; }
    """

    class Changed(Message):
        """The reader has found something new in the run."""

    def __init__(self, path: str, name: str, pause: float) -> None:
        super().__init__()
        self._path, self._name, self._pause = path, name, pause
        self._feed: RunFeed | None = None
        self._unsubscribe = lambda: None
        self._stale = self._samples_stale = True
        self.picture: RunPicture | None = None
        self.step: int | None = None
        self._follows, self._every_step = True, False
        self._filter, self._order = "", ""

    def compose(self) -> ComposeResult:
        """Lay out the title, three tabs, the filter and the keys."""
        yield Static(text_cell(self._name, "bold"), id="title")
        with TabbedContent(initial="curves"):
            with TabPane("Curves", id="curves"), VerticalScroll():
                yield Grid(id="grid")
            with TabPane("Findings", id="findings"):
                yield FindingsView()
            with TabPane("Samples", id="samples"):
                yield Static("", id="chosen")
                yield SamplesView()
        yield FilterLine("reward < 0 and lang == 'zh'")
        yield Footer()

    def on_mount(self) -> None:
        """Open the run on a thread."""
        self.run_worker(self._start(), group="start")

    async def _start(self) -> None:
        try:
            self._feed = feed = await asyncio.to_thread(RunFeed, self._path)
        except RLPanelError as error:
            self.query_one("#title", Static).update(text_cell(str(error), "red", 300))
            return
        self._unsubscribe = feed.listen(self._announce)
        self.set_interval(max(self._pause, 0.5), self._look_at_newest)
        self._draw_soon()
        if self.query_one(TabbedContent).active == "curves":
            self.action_tab("curves")

    def _announce(self) -> None:
        """Say that the run has changed; the reader calls this on its thread."""
        self.post_message(self.Changed())

    def on_unmount(self) -> None:
        """Stop following the run."""
        self._unsubscribe()
        if self._feed is not None:
            self._feed.close()

    # -- drawing ---------------------------------------------------------------------------------

    def on_run_screen_changed(self) -> None:
        """Draw the run again."""
        self._stale = True
        self._draw_soon()

    def _look_at_newest(self) -> None:
        """Draw again while a step is incomplete: it is complete after some time without new lines."""
        picture = self.picture
        if picture is not None and picture.steps and picture.newest != picture.steps[-1]:
            self.on_run_screen_changed()

    def _draw_soon(self) -> None:
        if not any(worker.group == "draw" and not worker.is_finished for worker in self.workers):
            self.run_worker(self._draw(), group="draw")

    async def _draw(self) -> None:
        feed = self._feed
        while feed is not None and (self._stale or self._samples_stale):
            if self._stale:
                self._stale = False
                self.picture = await asyncio.to_thread(feed.picture)
                await self._show(self.picture)
            if self._samples_stale and self.query_one(TabbedContent).active == "samples":
                await self._show_samples(feed)
            else:
                self._samples_stale = False  # they are read when their tab is opened
            if self._stale and self._pause:
                await asyncio.sleep(self._pause)

    async def _show(self, picture: RunPicture) -> None:
        if self._follows and picture.steps and self.step != picture.steps[-1]:
            self.step = picture.steps[-1]
        if self._follows:
            self._samples_stale = True
        grid, curves = self.query_one(Grid), list(picture.curves.items())
        views = list(self.query(CurveView))
        if len(views) < len(curves):
            await grid.mount(*(CurveView() for _ in range(len(curves) - len(views))))
            views = list(self.query(CurveView))
            self._arrange(*self.size)
        for view, (name, values) in zip(views, curves, strict=False):
            view.draw(name, picture.units.get(name, ""), values, picture.steps)
        self.query_one(FindingsView).show(picture.findings, is_read=picture.read == 1.0)
        self._show_title(picture)

    def _show_title(self, picture: RunPicture) -> None:
        line = text_cell(self._name, "bold")
        newest = picture.steps[-1] if picture.steps else None
        state = "" if picture.newest == newest else " (being written)"
        reading = "" if picture.read == 1.0 else f" · {picture.read:.0%} read"
        step = "no step yet" if newest is None else f"step {newest:,}{state}"
        line.append(f"  {step} · {picture.samples:,} samples · {picture.split}{reading}", "")
        for severity in ("alarm", "warning"):
            count = sum(finding["severity"] == severity for finding in picture.findings)
            if count:
                words = f"{count} {severity}{'s' if count > 1 else ''}"
                line.append(f" · {words}", SEVERITY_COLORS[severity])
        self.query_one("#title", Static).update(line)

    async def _show_samples(self, feed: RunFeed) -> None:
        self._samples_stale = False
        step = None if self._every_step else self.step
        about = self.query_one("#chosen", Static)
        try:
            table = await asyncio.to_thread(feed.samples, step, self._filter, self._order)
        except RLPanelError as error:
            about.update(text_cell(str(error), "red", 300))
            return
        self.query_one(SamplesView).show(table)
        facts = ["all steps" if step is None else f"step {step}{' (follows)' if self._follows else ''}"]
        facts += [self._filter] if self._filter else []
        facts += [f"order {self._order}"] if self._order else []
        shown = f", the first {len(table.rows):,} shown" if len(table.rows) < table.total else ""
        about.update(text_cell(f"{' · '.join(facts)} · {table.total:,} samples{shown}", most=300))

    def on_resize(self, event: events.Resize) -> None:
        """Give the curves the room that there is."""
        self._arrange(event.size.width, event.size.height)

    def _arrange(self, width: int, height: int) -> None:
        """Put as many curves beside each other as fit, and make them higher in a high terminal."""
        beside = max(min(width // _CURVE, _MAX_BESIDE), 1)
        rows = -(-len(self.query(CurveView)) // beside) or 1
        grid = self.query_one(Grid)
        grid.styles.grid_size_columns = beside
        grid.styles.grid_rows = str(min(max((height - 4) // rows, _LOWEST), _HIGHEST))

    # -- keys ------------------------------------------------------------------------------------

    def action_tab(self, name: str) -> None:
        """Show a tab, and give it the keys."""
        self.query_one(TabbedContent).active = name
        targets: dict[str, type[Widget]] = {
            "curves": VerticalScroll,
            "findings": FindingsView,
            "samples": SamplesView,
        }
        self.query_one(f"#{name}", TabPane).query_one(targets[name]).focus()
        if name == "samples":
            self._read_samples()

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Read the samples when their tab is opened."""
        if event.pane.id == "samples":
            self._read_samples()

    def _read_samples(self) -> None:
        self._samples_stale = True
        self._draw_soon()

    def action_step(self, by: int) -> None:
        """Show the samples of the step before or after."""
        steps = self.picture.steps if self.picture else []
        if not steps:
            return
        at = steps.index(self.step) if self.step in steps else len(steps) - 1
        self._follows = self._every_step = False
        self.step = steps[min(max(at + by, 0), len(steps) - 1)]
        self.action_tab("samples")

    def action_follow(self) -> None:
        """Show the samples of the newest step, now and when it changes."""
        self._follows, self._every_step = True, False
        if self.picture and self.picture.steps:
            self.step = self.picture.steps[-1]
        self.action_tab("samples")

    def action_all_steps(self) -> None:
        """Show the samples of all steps."""
        self._follows, self._every_step = False, True
        self.action_tab("samples")

    def action_order(self) -> None:
        """Sort the samples by the next column."""
        at = ORDERS.index(self._order) if self._order in ORDERS else 0
        self._order = ORDERS[(at + 1) % len(ORDERS)]
        self.action_tab("samples")

    def action_filter(self) -> None:
        """Show the line for a filter."""
        self.query_one(FilterLine).open()

    def on_filter_line_applied(self, event: FilterLine.Applied) -> None:
        """Show the samples that pass a filter."""
        self._filter = event.text
        self.action_tab("samples")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show the samples of a finding: its worst step or else its first one, its filter and its order."""
        finding = self.query_one(FindingsView).findings[event.option_index]
        self._filter, self._order = finding["filter"] or "", finding["sort"] or ""
        self.query_one(FilterLine).set(self._filter)
        step = finding["worst"] if finding["worst"] is not None else finding["onset"]
        self._follows, self._every_step = False, step is None
        self.step = step if step is not None else self.step
        self.action_tab("samples")

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open a sample."""
        if self._feed is not None:
            view = self.query_one(SamplesView)
            self.app.push_screen(SampleScreen(self._feed, view.uids, event.cursor_row))
