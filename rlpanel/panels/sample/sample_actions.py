"""Actions on a sample: edit its tag and note, copy its uid, texts or link, save it as a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import param

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.export.python_cell import sample_cell
from rlpanel.panels.investigations.claim_writer import ClaimWriter
from rlpanel.panels.language.labels import tr
from rlpanel.panels.report.report import frozen, sample_html
from rlpanel.panels.session.context import SAMPLE, Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.query.samples_export import sample_line

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
