"""Connection status in the header, and notices with buttons while there is something to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import param

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.files.file_access import Unread
from rlpanel.sources.inference.inference import Inference
from rlpanel.store.snapshot.snapshot import Progress, describe
from rlpanel.texts.shorten import shorten

# -- notices -------------------------------------------------------------------------------------------
# Notices with buttons, which appear while there is something to say.
#
# A link of another site whose search and filter wait, fields that were guessed, the progress of the backlog,
# and below the list of runs what is not followed or cannot be listed.


class Notice(Component):
    """Base class of notices, drawn by ``notice.js``. A click sends the name of a button."""

    html = param.String(default="", doc="The HTML. The caller has escaped what comes from a log.")
    buttons = param.Dict(
        default={}, doc="Name of each button, which is its CSS class → its label; empty while it is hidden."
    )

    _esm = read_assets("panels/ui/dom.js", "panels/export/download.js", "panels/status/notice.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/status/notice.css")]

    def __init__(self, **params: Any) -> None:
        super().__init__(visible=False, **params)


#: Parameter of the selection → its name in the notice.
_NAMES = {
    "search": marked("search"),
    "filter": marked("filter"),
    "sort": marked("sort"),
    "overlay_runs": marked("runs over the curves"),
    "compared_run": marked("compared run"),
    "runs_filter": marked("filter of runs"),
}
#: Most characters of a value that are shown.
_MAX_CHARS = 200


class LinkNotice(Notice):
    """Shows what a link asks for, with buttons that run it or leave it out; hidden if nothing waits."""

    def __init__(self, context: Context) -> None:
        super().__init__(buttons={"run": tr("Run"), "leave": tr("Leave out")}, css_classes=["rl-link"])
        self.context = context
        context.param.watch(self._draw, "waiting_values")
        context.selection.param.watch(self._leave_out, "run")
        self._draw()

    def _draw(self, *_: Any) -> None:
        held = self.context.waiting_values
        self.param.update(html=notice_html(held) if held else "", visible=bool(held))

    def receive(self, message: Any) -> None:
        """Run what waits, or leave it out. The message comes from the browser."""
        if message == "run":
            held, self.context.waiting_values = self.context.waiting_values, {}
            self.context.selection.param.update(**held)
        elif message == "leave":
            self._leave_out()

    def _leave_out(self, *_: Any) -> None:
        """Forget what the link asks for; also if another run is chosen, of which it knows nothing."""
        self.context.waiting_values = {}


def notice_html(held: dict[str, Any]) -> str:
    """Return the notice as HTML, with the values that wait."""
    values = "".join(
        f"<span>{tr(name)} <code>{safe_text(_shortened(held[key]))}</code></span>"
        for key, name in _NAMES.items()
        if held.get(key)
    )
    question = tr("This link comes from another site. Run its search and filter?")
    return f'<div class="row asks" role="status"><b>{question}</b>{values}</div>'


def _shortened(value: Any) -> str:
    return shorten(", ".join(value) if isinstance(value, list) else str(value), _MAX_CHARS)


class GuessNotice(Notice):
    """Shows which keys were taken for which fields of a run; a button opens the form that changes them."""

    def __init__(self, context: Context) -> None:
        change = "" if context.read_only else tr("change")
        super().__init__(buttons={"change": change, "hide": tr("hide")}, css_classes=["rl-guess"])
        self.context = context
        self._hidden: set[str] = set()  # names of runs
        context.param.watch(self._draw, "view")
        self._draw()

    def _draw(self, *_: Any) -> None:
        snapshot = self.context.snapshot
        html = "" if snapshot.name in self._hidden else guess_html(snapshot.inferences)
        if html != self.html or bool(html) != self.visible:
            self.param.update(html=html, visible=bool(html))

    def receive(self, message: Any) -> None:
        """Open the form, or hide the notice for this run. The message comes from the browser."""
        if message == "change" and not self.context.read_only:
            self.context.mapping_form = "open"
        elif message == "hide":
            self._hidden.add(self.context.snapshot.name)
            self._draw()


class PageNotice(Notice):
    """Says that a run logs nothing for the page of the address, and which keys the page needs."""

    def __init__(self) -> None:
        super().__init__(buttons={"hide": tr("hide")}, css_classes=["rl-missing-page"])

    def say(self, run: str, page: str, log: str) -> None:
        """Show it for a page of a run; hide it if no page is named."""
        self.param.update(html=missing_html(run, page, log) if page else "", visible=bool(page))

    def receive(self, message: Any) -> None:
        """Hide the notice. The message comes from the browser."""
        if message == "hide":
            self.visible = False


def missing_html(run: str, page: str, log: str) -> str:
    """Return which page a run has nothing for, and the keys to log, as HTML."""
    text = safe_text(tr("{run} logs nothing for the page {page}; the overview is shown", run=run, page=page))
    keys = ", ".join(f"<code>{safe_text(key)}</code>" for key in log.split(", ") if key)
    label = tr("Log:")
    needed = f"<span>{label} {keys}</span>" if keys else ""
    return f'<div class="row asks" role="status"><b>{text}</b>{needed}</div>'


def guess_html(inferences: Sequence[Inference]) -> str:
    """Return the keys that were taken for fields of another name as HTML; empty if there are none."""
    guesses = {(guess.meaning, guess.key): guess for each in inferences for guess in each.guesses}
    renamed = dict.fromkeys(pair for each in inferences for pair in each.renamed)
    pairs = "".join(
        f'<span title="{safe_text(guesses[name, key].reason)}">{safe_text(name)} ← '
        f"<code>{safe_text(shorten(key, _MAX_CHARS))}</code> {guesses[name, key].confidence:.0%}</span>"
        for name, key in renamed
    )
    step = tr("no step: all samples are step 0") if any("step" in each.missing for each in inferences) else ""
    if not pairs and not step:
        return ""
    title = tr("Fields were guessed")
    return f'<div class="row asks" role="status"><b>{title}</b>{pairs}<span>{step}</span></div>'


#: From this fraction on the bar is hidden, so that it does not flicker for short backlogs.
NEARLY = 0.99


class BacklogBar(Notice):
    """Progress bar above the curves, shown while older lines of the run are not read yet."""

    def __init__(self, context: Context) -> None:
        super().__init__(buttons={"halt": tr("pause")}, css_classes=["rl-backlog"])
        self.context = context
        context.param.watch(self._draw, "view")
        self._draw()

    def _draw(self, *_: Any) -> None:
        progress = self.context.snapshot.progress
        if progress.fraction < NEARLY and (progress.halted or not progress.caught_up):
            note = tr("older steps are not read") if progress.halted else tr("newest steps first")
            label = tr("resume") if progress.halted else tr("pause")
            self.param.update(html=bar_html(progress, note), buttons={"halt": label}, visible=True)
        elif self.visible:
            self.visible = False

    def receive(self, message: Any) -> None:
        """Pause or resume reading the backlog, for all sessions that show the run."""
        if message == "halt" and self.context.index is not None:
            self.context.index.pause(not self.context.snapshot.progress.halted)


def bar_html(progress: Progress, note: str = "") -> str:
    """Return the progress bar as HTML, with bytes, throughput and remaining time."""
    share = min(progress.fraction, 1.0)
    text = describe(progress.bytes_read, progress.bytes_total, 0.0 if progress.halted else progress.rate)
    verb = tr("Paused at") if progress.halted else tr("Reading")
    return (
        f'<div class="row"><span class="num">{verb} {text}</span>'
        f'<span class="bar" role="progressbar" '
        f'aria-valuenow="{100 * share:.0f}"><i style="width:{share:.1%}"></i></span>'
        f"<span>{note}</span></div>"
    )


_NAMED = 3


class LeftOut(Html):
    """Lists the folders below the root that are not shown, with reasons; hidden if there are none."""

    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/status/skipped_paths.css")]

    def __init__(self, context: Context) -> None:
        super().__init__(css_classes=["rl-left-out"])
        self.context = context
        context.param.watch(self._draw, ["left_out", "runs"])
        self._draw()

    def _draw(self, *_: Any) -> None:
        # Without runs the empty state explains what the root contains.
        html = left_out_html(self.context.left_out) if self.context.runs else ""
        self.param.update(html=html, visible=bool(html))


def left_out_html(left_out: Sequence[Unread]) -> str:
    """Return the first names with their reasons, and the number of further ones, as HTML."""
    named = left_out[:_NAMED]
    rows = [f"<li><code>{safe_text(entry.file)}</code> {safe_text(entry.reason)}</li>" for entry in named]
    if len(left_out) > _NAMED:
        more = tr("and {count:,} more", count=len(left_out) - _NAMED)
        rows.append(f"<li>{more}</li>")
    title = tr("Not shown: {left_out:,}", left_out=len(left_out))
    return f"<p>{title}</p><ul>{''.join(rows)}</ul>" if rows else ""


# -- connection ----------------------------------------------------------------------------------------
# Connection status in the header: reports a lost server, and reloads the page when the server is back.
#
# A lost connection ends the session on the server, so the page cannot continue. ``connection.js`` polls
# ``./health`` with growing pauses (back-off) and reloads the page; its URL contains the selection. A
# connection can also be silent without being closed, for example after suspend. Therefore the server sends a
# heartbeat.


#: Seconds between two heartbeats; ``connection.js`` reports a problem after three missing ones.
BEAT = 5.0


class Connection(Component):
    """Message about a lost or silent connection; empty while heartbeats arrive."""

    beat = param.Integer(default=0, doc="Changes every `BEAT` seconds while the server draws this page.")

    _esm = read_assets("panels/ui/dom.js", "panels/ui/clock.js", "panels/status/connection.js")
    _stylesheets = [read_assets("panels/status/connection.css")]

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(css_classes=["rl-connection"], **params)
        context.param.watch(self._tick, "now")

    def _tick(self, event: Any) -> None:
        self.beat = int(event.new // BEAT)
