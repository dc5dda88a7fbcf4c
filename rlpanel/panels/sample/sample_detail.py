"""The sample panel: header and actions of the shown sample, above the tabs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.export.python_cell import sample_cell
from rlpanel.panels.inputs.input_fields import LazyView, TabBar
from rlpanel.panels.investigations.claim_writer import ClaimWriter
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr
from rlpanel.panels.report.report import frozen, sample_html
from rlpanel.panels.sample.sample_tabs import TABS, position_of, tab_for
from rlpanel.panels.samples.grid_cells import answer_html
from rlpanel.panels.session.context import SAMPLE, Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tokens.metric_rows import sample_rows
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html, Region, region_script
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.samples_export import sample_line

# -- sample actions ------------------------------------------------------------------------------------
# Actions on a sample: edit its tag and note, copy its uid, texts or link, save it as a file.


#: Most tags that are suggested.
_MAX_USED = 100


class SampleActions(Component):
    """Button that gives the sample the whole page, and a menu with its tag, note, copies and files."""

    place = param.Dict(default={}, doc="Run, step and uid of the sample; empty without a sample.")
    tag = param.String(default="", doc="Tag of the sample.")
    note = param.String(default="", doc="Note on the sample.")
    used = param.List(default=[], item_type=str, doc="Tags used in this run, as suggestions.")
    fixed = param.Boolean(default=False, doc="Whether the tag and note cannot be changed.")
    whole = param.Boolean(default=False, doc="Whether the sample has the whole page.")
    claimed = param.String(default="", doc="What came of the last claim.")
    failure = param.String(default="", doc="Error message if the note could not be saved.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/ui/closing.js",
        "panels/export/download.js",
        "panels/sample/quotation.js",
        "panels/sample/sample_actions.js",
    )
    _stylesheets = [theme.TARGETS, read_assets("panels/sample/sample_actions.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(css_classes=["rl-actions"], fixed=context.read_only)
        self._context = context
        #: Runs and uids of the samples shown last: a field of the one before may be sent late.
        self._shown: deque[tuple[str, str]] = deque(maxlen=2)
        self._task: BackgroundTask[dict[str, Any] | RLPanelError] = BackgroundTask(
            self._on_page, context.threads.views
        )
        self._claims = ClaimWriter(context, lambda said: setattr(self, "claimed", said))
        context.param.watch(self._show, ["sample", "notes_version"])
        context.param.watch(lambda _: self.send({"reveal": True}), "sample_asked")
        context.selection.param.watch(self._show_size, "page")
        self._show_size()
        self._show()

    def _show(self, *_: Any) -> None:
        sample, notes = self._context.sample, self._context.notes
        if sample is None or notes is None:
            self.place = {}
            return
        notes.refresh()
        if (str(notes.run), sample.uid) not in self._shown:
            self._shown.append((str(notes.run), sample.uid))
        annotation = notes.of(sample.uid)
        place = {"run": self._context.selection.run, "step": sample.step, "uid": sample.uid}
        self.param.update(
            place=place, tag=annotation.tag, note=annotation.note, used=notes.tags()[:_MAX_USED]
        )

    def _show_size(self, *_: Any) -> None:
        self.whole = self._context.selection.page == SAMPLE

    def receive(self, message: Any) -> None:
        """Copy, save or open the sample, or keep its tag and note."""
        if not isinstance(message, dict):
            return
        if message.get("do") == "copy":
            self._copy(message.get("what"))
        elif message.get("do") == "save":
            self._save()
        elif message.get("do") == "page":
            self._start_page()
        elif message.get("do") == "resize":
            self._context.toggle_sample()
        elif message.get("do") == "hold":
            self._stop_following(str(message.get("uid", "")))
        elif message.get("do") == "claim":
            self._claim(message.get("uid"), message.get("text"), message.get("sentence"))
        elif message.get("do") == "leave":
            texts = [text for name in ("uid", "tag", "note") if isinstance(text := message.get(name), str)]
            if len(texts) == 3:
                self._save_note(*texts)

    def _claim(self, uid: Any, text: Any, sentence: Any) -> None:
        """Write what was selected in the shown sample into the run's report."""
        sample = self._context.sample
        if sample is not None and uid == sample.uid and isinstance(text, str) and isinstance(sentence, str):
            self.claimed = tr("Writing …")
            self._claims.quotation(sample.uid, text, sentence)

    def _copy(self, field: Any) -> None:
        sample = self._context.sample
        if sample is not None and field == "Python":
            self.send({"text": sample_cell(self._context, sample.uid)})
        elif sample is not None and field in ("uid", "prompt", "response"):
            self.send({"text": getattr(sample, field) or ""})

    def _save(self) -> None:
        sample, notes = self._context.sample, self._context.notes
        if sample is not None and notes is not None:
            name = f"step-{sample.step}-line-{sample.line}.jsonl"
            line = sample_line(sample, notes.of(sample.uid))
            self.send({"file": name, "kind": "application/jsonl", "bytes": line})

    def _start_page(self) -> None:
        """Build the HTML page of the sample on a background thread, as a long response takes a while."""
        sample = self._context.sample
        if sample is not None:
            context, name = frozen(self._context), f"step-{sample.step}-line-{sample.line}.html"
            self._task.start(_page_message(context, sample.uid, name))

    def _on_page(self, page: dict[str, Any] | RLPanelError) -> None:
        if isinstance(page, RLPanelError):
            self.failure = str(page)
        else:
            self.send(page)

    def _stop_following(self, uid: str) -> None:
        """Keep the sample selected while somebody edits its note, even if the board follows the run."""
        if uid and self._context.selection.follow:
            self._context.choose_sample(uid)

    def _save_note(self, uid: str, tag: str, note: str) -> None:
        notes = self._context.notes
        if notes is None or not uid or (notes.of(uid).tag, notes.of(uid).note) == (tag.strip(), note.strip()):
            return
        if self._context.read_only:  # the fields are locked, but any client can send this message
            self.failure = tr("cannot be saved: this board is read-only")
            return
        if (str(notes.run), uid) not in self._shown:  # the fields send no other, but any client can
            self.failure = tr("cannot be saved: this sample is not shown")
            return
        try:
            notes.write(uid, tag, note)
        except SettingError as error:
            self.failure = tr("cannot be saved: {strerror}", strerror=error)
            return
        except OSError as error:
            self.failure = tr("cannot be saved: {strerror}", strerror=error.strerror)
            return
        self.failure = ""
        self._context.notes_version += 1


def _page_message(context: Context, uid: str, name: str) -> Iterator[dict[str, Any] | RLPanelError]:
    try:
        yield {"file": name, "kind": "text/html", "bytes": sample_html(context, uid)}
    except RLPanelError as error:  # for example, the file was rewritten in the meantime
        yield error


# -- sample detail -------------------------------------------------------------------------------------


class SampleHead(Html):
    """Place and scores of the shown sample."""

    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/sample/sample_head.css")]

    def __init__(self) -> None:
        super().__init__(css_classes=["rl-sample-head"])


class SampleTop(Region):
    """Header, actions and tabs, below each other."""

    head = param.String()
    actions = param.String()
    tabs = param.String()

    _esm = region_script(head=SampleHead, actions=SampleActions, tabs=TabBar)
    _stylesheets: ClassVar[list[str]] = [read_assets("panels/ui/region.css", "panels/sample/sample_top.css")]

    def __init__(self, **parts: Component) -> None:
        super().__init__(parts, sizing_mode="stretch_width", margin=0)


class SampleDetail(Viewer):
    """The right side of the board: everything about the shown sample."""

    active = param.Boolean(default=True, doc="Whether the sample is in sight; else its views do nothing.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._head = SampleHead()
        self._bar = TabBar(label=tr("Views of the sample"), css_classes=["rl-tabs"])
        self._bar.on_message(self._on_click)
        self._card = pn.Column(
            SampleTop(head=self._head, actions=SampleActions(context), tabs=self._bar),
            styles=theme.CARD,
            sizing_mode="stretch_both",
            margin=0,
            min_height=420,
            css_classes=["rl-card", "rl-sample"],
        )
        self._views: list[LazyView[Any]] = [LazyView(partial(tab.make, context), self._card) for tab in TABS]
        self._shown = -1
        context.param.watch(self._open_tab, ["sample"])
        context.selection.param.watch(self._open_tab, "tab")
        self.param.watch(self._open_tab, "active")
        context.param.watch(self._list_tabs, "view")
        context.param.watch(self._draw, ["sample", "message"])
        context.selection.param.watch(self._draw, ["step", "scope"])
        context.display.param.watch(self._draw, ["kl_estimator", "answer_rule"])
        self._list_tabs()
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._card

    def _list_tabs(self, *_: Any) -> None:
        """List the tabs for which the run logs something."""
        shown = [tab for tab in TABS if tab.applies(self.context.snapshot)]
        listed = [{"key": tab.key, "title": tr(tab.title)} for tab in shown]
        if listed != self._bar.tabs:
            self._bar.tabs = listed
        self._open_tab()

    def _open_tab(self, *_: Any) -> None:
        """Show the tab of the selection, else the sample's own; the views of all other tabs do nothing."""
        listed = [tab["key"] for tab in self._bar.tabs]
        chosen = self.context.selection.tab
        if chosen not in listed and self.context.sample is None and self._bar.value in listed:
            chosen = (
                self._bar.value
            )  # no sample matches the filter: the next one is looked at in the same way
        key = chosen if chosen in listed else tab_for(self.context.sample)
        position = position_of(key)
        shown = position if self.active else -1
        if self._shown == shown:
            return
        self._shown = shown
        with pn.io.hold():
            self._bar.value = TABS[position].key
            for at, view in enumerate(self._views):
                view.set_active(at == shown)

    def _on_click(self, key: Any) -> None:
        if key in {tab.key for tab in TABS}:
            self.context.selection.tab = key

    def show_group(self, *_: Any) -> None:
        """Open the samples of the shown sample's group."""
        self._views[position_of("group")].view.show_group()
        self.context.selection.tab = "group"

    def next_metric(self, by: int) -> None:
        """Colour the tokens by another of the sample's metrics."""
        sample, selection = self.context.sample, self.context.selection
        rows = sample_rows(sample, None, self.context.display.kl_estimator)[0] if sample else []
        names = [row.name for row in rows]
        if names:
            position = names.index(selection.metric) if selection.metric in names else -1
            selection.metric = names[(position + by) % len(names)]

    def _draw(self, *_: Any) -> None:
        self._head.html = self._head_html(self.context.sample)

    def _head_html(self, sample: Sample | None) -> str:
        title = tr("Sample")
        if sample is None:
            words = safe_text(self.context.message or tr("no sample selected"))
            return f'<div class="head"><b>{title}</b><span class="note">{words}</span></div>'
        place = [
            tr("step {step}", step=sample.step),
            tr("rank {rank}", rank=sample.rank) if sample.rank >= 0 else "",
            sample.place,
        ]
        place += [tr("group {group}", group=sample.group)] if sample.group else []
        selection = self.context.selection
        if selection.scope != "step" and selection.step not in (None, sample.step):
            place.append(tr("curves at step {step}", step=selection.step))
        where = " · ".join(part for part in place if part)
        notes = "".join(f'<div class="note kl">{safe_text(note)}</div>' for note in sample.notes)
        uid = safe_text(sample.uid)
        return (
            f'<div class="head" title="{uid}" data-uid="{uid}"><b>{title}</b>'
            f'<span class="note">{safe_text(where)}</span>'
            f'<span class="scores">{self._scores(sample)}</span>'
            f"{answer_html(self.context, sample)}</div>{notes}"
        )

    def _scores(self, sample: Sample) -> str:
        estimator = self.context.display.kl_estimator
        label = described(estimator).label + tr(" sum")
        shown = [
            (tr("reward"), sample.reward, "policy", False),
            (tr("ref"), sample.ref_reward, "reference", False),
            (tr("gap"), sample.columns.get("reward_gap", math.nan), "muted", True),
            (label, sample.columns.get(f"{estimator}_sum", math.nan), "kl", True),
            (tr("advantage"), sample.advantage, "muted", True),
            ("tokens", sample.columns.get("response_tokens", math.nan), "length", False),
            (tr("tool calls"), sample.columns.get("tool_calls", math.nan), "entropy", False),
            (tr("failed"), sample.columns.get("tool_errors", math.nan) or math.nan, "bad", False),
            (tr("lag"), sample.columns.get("lag", math.nan), "muted", False),
        ]
        return "".join(
            f'<span>{safe_text(name)} <b class="{color}">{number(value, sign=sign)}</b></span>'
            for name, value, color, sign in shown
            if not math.isnan(value)
        )
