"""Page of the run: its reports, whose claims are evaluated at each load, and a form for new claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.board_url import read_query
from rlpanel.errors import RLPanelError
from rlpanel.investigations.claim_marks import EvaluationProgress, evaluate
from rlpanel.investigations.report_entry import USUAL_REPORT
from rlpanel.investigations.report_file import ReportFile
from rlpanel.number_text import utc_text
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.investigations.report_html import counts_text, report_groups, report_html
from rlpanel.panels.language.finding_sentences import tr_finding
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.queries.findings import findings
from rlpanel.queries.reports.claim_report import add_entry, remove_entry
from rlpanel.queries.reports.claim_source import ClaimSource, askable
from rlpanel.queries.run_data import RunData
from rlpanel.queries.steps import step_curves, trainer_scalars
from rlpanel.texts.display_text import escape_invisible

#: Seconds between two evaluations of a run that grows, as a multiple of the last one's time, and at least.
PAUSES, EVERY = 10.0, 5.0
#: Names of numbers and findings that the form offers.
OFFERED = 500
_KINDS = ("text", "number", "finding", "quotation", "query")
#: Keys of the form's message, with their types.
_PARTS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("kind", "text", "report", "metric", "steps", "rule", "subject"), (str,)),
    **dict.fromkeys(("uid", "field", "quote", "question"), (str,)),
    **dict.fromkeys(("expected", "tolerance"), (int, float)),
    "options": (dict,),
}


@dataclass(frozen=True)
class _Loaded:
    """Evaluated reports; before that, the number of claims that were evaluated so far."""

    progress: EvaluationProgress
    problems: tuple[str, ...] = ()
    groups: list[dict[str, Any]] = field(default_factory=list)
    offered: dict[str, Any] = field(default_factory=dict)
    counts: str = ""
    version: object = None
    seconds: float = 0.0


class InvestigationsView(Component):
    """The reports and the form, drawn by ``investigations.js``; ``act`` gets the viewer's messages."""

    reports = param.List(default=[], doc="As made by `report_groups`.")
    state = param.Dict(default={}, doc="Counts, problems, progress, what the form offers, and the code.")

    LARGE = frozenset({"reports"})
    _esm = read_assets(
        *("panels/ui/dom.js", "panels/export/download.js"),
        *("panels/investigations/claim_form.js", "panels/investigations/investigations.js"),
    )
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/investigations/investigations.css")]

    def __init__(self, act: Callable[[str, Any], None], **params: Any) -> None:
        super().__init__(**params)
        self._act = act

    def receive(self, message: Any) -> None:
        """Pass a message ``[name, value]`` on. It comes from the browser."""
        if isinstance(message, list) and len(message) == 2 and isinstance(message[0], str):
            self._act(message[0], message[1])


class InvestigationsPage(Viewer):
    """The reports of a run, evaluated in the background while the page is open.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is evaluated before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._loaded = _Loaded(EvaluationProgress(0, 0))
        self._index: object = None
        self._begun, self._reads, self._said, self._code = 0.0, False, "", ""
        self._snapshot = -1
        self._work: BackgroundTask[_Loaded] = BackgroundTask(self._show, context.threads.queries)
        self._writing: BackgroundTask[str] = BackgroundTask(self._written, context.threads.queries)
        self._export: BackgroundTask[dict[str, Any]] = BackgroundTask(self._send, context.threads.views)
        self.view = InvestigationsView(
            self._act, sizing_mode="stretch_width", margin=(4, 8), css_classes=["rl-investigations"]
        )
        self._column = pn.Column(self.view, sizing_mode="stretch_both", scroll="y-auto", margin=0)
        context.param.watch(self._draw, ["view", "now"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _send(self, message: dict[str, Any]) -> None:
        self.view.send(message)

    # -- evaluation --------------------------------------------------------------------------------

    def _draw(self, *_: Any) -> None:
        """Evaluate when the page opens, and again when the run or the file has changed."""
        context = self.context
        if not self.active or context.index is None:
            if self._reads:
                self._work.stop()
                self._reads, self._index = False, None
            return
        is_other = context.index is not self._index
        pause = max(EVERY, PAUSES * self._loaded.seconds)
        if not is_other and (self._reads or time.monotonic() - self._begun < pause):
            return
        if is_other:
            self._work.stop()
            self._index, self._said, self._reads, self._begun = context.index, "", False, 0.0
            self._loaded = _Loaded(EvaluationProgress(0, 0))
            self.view.reports = []
        if not self._is_run_read:  # a claim about steps that are still to be read would look broken
            self._tell()
            return
        self._evaluate(self._loaded.version)

    @property
    def _is_run_read(self) -> bool:
        snapshot = self.context.snapshot
        return bool(snapshot.version) and (snapshot.progress.caught_up or snapshot.progress.halted)

    def _evaluate(self, version: object = None) -> None:
        context = self.context
        if context.index is None:
            return
        self._begun, self._reads = time.monotonic(), True
        known = None if context.snapshot.version != self._snapshot else version
        self._snapshot = context.snapshot.version
        self._work.start(_load(RunData(context.index, context.view), known))
        self._tell()

    def _show(self, loaded: _Loaded) -> None:
        if not loaded.progress.is_last:
            self._tell(loaded.progress)
            return
        self._reads = False
        if loaded.version is not None:  # otherwise neither the run nor the file has changed
            self._loaded = loaded
            self.view.reports = loaded.groups
        self._tell()

    def _tell(self, progress: EvaluationProgress | None = None) -> None:
        """Send the counts, the progress and what the form offers."""
        selection, loaded = self.context.selection, self._loaded
        reading = "" if self._is_run_read else tr("The run is being read; its claims are evaluated then …")
        if self._reads and (progress is not None or loaded.version is None):
            done, total = (progress.done, progress.total) if progress is not None else (0, 0)
            reading = tr("Evaluating {done:,} of {total:,} claims …", done=done, total=total)
        self.view.state = {
            "counts": loaded.counts,
            "problems": [escape_invisible(problem) for problem in loaded.problems],
            "reading": reading,
            "said": escape_invisible(self._said),
            "writes": not self.context.read_only,
            "code": self._code,
            "gives": self.context.new_code is not None,
            "step": "" if selection.step is None else str(selection.step),
            "uid": well_formed(self.context.sample.uid if self.context.sample is not None else selection.uid),
            "newest": str(steps[-1]) if len(steps := self.context.snapshot.steps.values) else "",
            **loaded.offered,
        }

    # -- messages ----------------------------------------------------------------------------------

    def _act(self, name: str, value: Any) -> None:
        actions: dict[str, Callable[[Any], None]] = {
            "open": self._on_open,
            "add": self._on_add,
            "remove": self._on_remove,
            "export": self._on_export,
            "again": lambda _: self._evaluate(),
            "stop": self._on_stop,
            "code": self._on_code,
        }
        if name in actions:
            actions[name](value)

    def _on_stop(self, _: Any) -> None:
        self._work.stop()
        self._reads, self._said = False, tr("Stopped. What was evaluated before is shown.")
        self._tell()

    def _on_open(self, identifier: Any) -> None:
        """Show what a claim is about."""
        found = (each for each in self._loaded.progress.entries if each.entry.id == identifier)
        claim = next(found, None)
        if claim is None or not claim.link:
            return
        values = {"page": "", **read_query(claim.link)[0]}
        selection = self.context.selection
        selection.param.update(**{key: value for key, value in values.items() if key in selection.param})

    def _on_add(self, given: Any) -> None:
        if self._refuses():
            return
        if not isinstance(given, dict) or given.get("kind") not in _KINDS:
            return
        if not all(isinstance(value, _PARTS.get(key, ())) for key, value in given.items()):
            return
        self._write(_add(self._data(), given))

    def _on_remove(self, identifier: Any) -> None:
        if not self._refuses() and isinstance(identifier, str):
            self._write(_remove(self._data(), identifier))

    def _data(self) -> RunData | None:
        index = self.context.index
        return None if index is None else RunData(index, self.context.view)

    def _refuses(self) -> bool:
        """Refuse to write on a board that is read-only: any client can send a message."""
        if self.context.read_only:
            self._said = tr("This board is read-only: claims cannot be written here")
            self._tell()
        return self.context.read_only

    def _write(self, results: Iterator[str]) -> None:
        self._said = tr("Writing …")
        self._tell()
        self._writing.start(results)

    def _written(self, said: str) -> None:
        self._said = said
        self._evaluate()

    def _on_export(self, _: Any) -> None:
        self._export.start(_exported(self.context.snapshot.name, self._loaded))

    def _on_code(self, wanted: Any) -> None:
        """Give a code by which an agent may move this page, or end it."""
        give, end = self.context.new_code, self.context.end_code
        if give is None or end is None:
            return
        if wanted:
            self._code = give()
        else:
            self._code = ""
            end()
        self._tell()


def _load(run: RunData, known: object) -> Iterator[_Loaded]:
    """Evaluate the reports of a run, unless their file is the one that is known."""
    begun, stored = time.monotonic(), ReportFile(run.path)
    version = stored.version()
    if known is not None and version == known:
        yield _Loaded(EvaluationProgress(0, 0, is_last=True))
        return
    last = EvaluationProgress(0, 0)
    for last in evaluate(ClaimSource(run), stored.entries()):
        if not last.is_last:
            yield _Loaded(last)
    names = list(dict.fromkeys(each.entry.report for each in last.entries))
    offered = {
        "names": [escape_invisible(name) for name in names] or [USUAL_REPORT],
        "metrics": [*step_curves(run.view), *trainer_scalars(run.view)][:OFFERED],
        "rules": _rules(run),
        "questions": list(askable()),
    }
    groups, seconds = report_groups(last.entries), time.monotonic() - begun
    yield _Loaded(last, stored.problems, groups, offered, counts_text(last), version, seconds)


def _rules(run: RunData) -> list[dict[str, Any]]:
    """Return the present findings for the form."""
    return [
        {
            "rule": row["rule"],
            "subject": well_formed(row["subject"] or ""),
            "title": escape_invisible(f"{row['title']} {row['subject'] or ''}".strip()),
            "words": well_formed(tr_finding(row["sentence"])),
            "severity": row["severity"],
        }
        for row in findings(run).rows[:OFFERED]
    ]


def _add(run: RunData | None, given: dict[str, Any]) -> Iterator[str]:
    if run is None:
        return
    kind = given["kind"]
    keys = {
        "text": (),
        "number": ("metric", "steps", "expected", "tolerance"),
        "finding": ("rule", "subject"),
        "quotation": ("uid", "field"),
        "query": ("question", "options"),
    }[kind]
    claim = {key: given[key] for key in keys if key in given}
    if kind == "quotation":
        claim["text"] = given.get("quote", "")
    split = (
        run.snapshot.split if kind != "text" and run.snapshot.split != run.index.view.snapshot.split else ""
    )
    parts = {"text": given.get("text", ""), "report": given.get("report", ""), "split": split}
    try:
        if kind == "text" and not parts["text"].strip():
            yield tr("Write a text first")
            return
        add_entry(run, kind, claim=claim, author="person", **parts)
        yield tr("Written")
    except RLPanelError as error:
        yield str(error)


def _remove(run: RunData | None, identifier: str) -> Iterator[str]:
    if run is None:
        return
    try:
        remove_entry(run, identifier)
        yield tr("Removed")
    except RLPanelError as error:
        yield str(error)


def _exported(run: str, loaded: _Loaded) -> Iterator[dict[str, Any]]:
    text = report_html(run, loaded.progress, loaded.problems, utc_text(time.time()) or "")
    yield {"file": f"{run.replace('/', '-')}-reports.html", "html": well_formed(text)}
