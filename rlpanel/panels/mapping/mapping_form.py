"""The form that maps keys to fields: filled in by the inference, with a preview through the real adapter."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import param

from rlpanel import schema
from rlpanel.errors import SettingError
from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.sources.files.file_access import AnyPath, is_remote, path_of
from rlpanel.sources.mapping.first_records import (
    LIKELY,
    MORE,
    SURE,
    TEXTS,
    FoundFile,
    Preview,
    Proposal,
    preview,
    propose,
    propose_for_folder,
    read_first,
)
from rlpanel.sources.mapping.mapping_text import Keys, TreeLine, explicit, option_text, save, toml_text
from rlpanel.sources.records.record_types import Record
from rlpanel.texts.shorten import shorten

#: Opens the files below a folder with a mapping; an empty mapping forgets the one before.
Open = Callable[[AnyPath, Keys], None]

_KINDS = {
    "text": marked("text"),
    "number": marked("number"),
    "true or false": marked("true or false"),
    "null": marked("null"),
    "list": marked("list"),
    "object": marked("object"),
}
#: Most characters of a text in the preview, and most columns beside the texts.
_TEXT_CHARS, _MAX_FACTS = 600, 8
#: Largest step that the browser holds exactly.
_MAX_STEP = 2**53


@dataclass
class _Work:
    """State of the form for a folder: its files, a file's proposal, and the current mapping."""

    folder: AnyPath
    is_root: bool = False
    files: list[FoundFile] = field(default_factory=list)
    proposal: Proposal | None = None
    keys: dict[str, str | int] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)


class MappingForm(Component):
    """Form over the views, shown for a folder without runs, and for a run whose fields were guessed.

    The browser names a file by its number in the list, and keys by those in the first records: it can name
    nothing else.

    Parameters
    ----------
    context : Context
    open_with : callable
    """

    found = param.Dict(default={}, doc="The folder, its files, and the first record of one of them.")
    draft = param.Dict(default={}, doc="The mapping as it is now, its preview, and its texts.")

    _esm = read_assets("panels/ui/dom.js", "panels/export/download.js", "panels/mapping/mapping_form.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/mapping/mapping_form.css")]

    def __init__(self, context: Context, open_with: Open) -> None:
        super().__init__(sizing_mode="stretch_width", margin=0, css_classes=["rl-mapping"], visible=False)
        self.context, self._open_with = context, open_with
        self._work: _Work | None = None
        self._answered = 0
        pool = context.threads.views
        self._reading: BackgroundTask[_Work] = BackgroundTask(self._take, pool)
        self._previewing: BackgroundTask[Preview] = BackgroundTask(self._show_preview, pool)
        context.param.watch(self._look, ["runs", "root", "root_diagnosis", "mapping_form", "index"])
        self._look()

    # -- the folder ------------------------------------------------------------------------------

    def _folder(self) -> AnyPath | None:
        """Return the folder that is mapped now: a run's, or the root without runs; None for none."""
        context = self.context
        if context.read_only or not context.root:
            return None
        if context.runs:
            return context.index.path if context.index and context.mapping_form == "open" else None
        return path_of(context.root).resolve()

    def _look(self, *_: Any) -> None:
        """Read the folder if it has to be mapped, unless the form already shows it."""
        if self.context.runs and self._work is not None and self._work.is_root:
            self._work = None
            self.context.mapping_form = "auto"  # a run has appeared: it is what the page is for
        folder, shown = self._folder(), self._work
        if folder is None:
            self._work, self.visible = None, False
            self._reading.stop()
        elif shown is None or shown.folder != folder or shown.proposal is None:
            self._work = _Work(folder, is_root=not self.context.runs)
            self._reading.start(_read_folder(self._work))
        else:
            self._show()

    def _take(self, work: _Work) -> None:
        if self._work is not None and self._work.folder == work.folder:
            self._work = work
            self._show()

    def _show(self) -> None:
        """Show the form if it was asked for, or if a file looks like rollouts."""
        work = self._work
        likely = work is not None and work.proposal is not None and work.proposal.is_likely
        asked = self.context.mapping_form
        self.visible = asked == "open" or (asked == "auto" and likely)
        if work is not None and self.visible:
            self.found = _found(work, self._name(work), closed=not self.context.runs)
            self._redraw()

    def _name(self, work: _Work) -> str:
        """Return the folder as the user wrote it, or a run's path."""
        return str(work.folder) if self.context.runs else self.context.root

    # -- messages of the browser -----------------------------------------------------------------

    def receive(self, message: Any) -> None:
        """Take a change or a click: its name, its values and its number. It comes from the browser."""
        if not (isinstance(message, list) and len(message) >= 2 and type(message[-1]) is int):
            return
        self._answered = max(self._answered, min(message[-1], 2**31))
        work = self._work
        if work is None or self.context.read_only or not self.visible:
            return
        match message[:-1]:
            case ["file", int(at)] if 0 <= at < len(work.files):
                self.context.mapping_form = "open"  # also if the file does not look like rollouts
                self._reading.start(_read_file(work, at))
            case ["field", str(name), str(key)]:
                self._choose(work, name, key)
            case ["step", step] if type(step) is int and abs(step) < _MAX_STEP:
                self._change(work, work.keys | {"step": step})
            case ["add", str(name)] if name in MORE and name not in work.keys:
                work.added.append(name)
                self._redraw()
            case ["open"]:
                self._apply(work, write=False)
            case ["save"]:
                self._apply(work, write=True)
            case ["close"]:
                self.context.mapping_form = "closed"

    def _choose(self, work: _Work, name: str, key: str) -> None:
        """Map a field to a key of the first records, or to none."""
        if name not in _names(work):
            return
        keys = {each: value for each, value in work.keys.items() if each != name}
        if key:
            if key not in _keys(work):
                return
            keys[name] = key
        self._change(work, keys)

    def _change(self, work: _Work, keys: dict[str, str | int]) -> None:
        work.keys = keys
        self._redraw()

    def _apply(self, work: _Work, *, write: bool) -> None:
        """Open the folder with the mapping; with ``write`` save it first, which opens it as well."""
        try:
            if write:
                save(work.folder, explicit(work.keys))
            self._open_with(work.folder, {} if write else work.keys)
        except SettingError as error:
            self._say(failure=tr("cannot be saved: {strerror}", strerror=error))
        except OSError as error:
            self._say(failure=tr("cannot be saved: {strerror}", strerror=error.strerror or error))
        else:
            self._say(said=tr("Reading …"))
            self.context.mapping_form = "auto"

    # -- what is shown ---------------------------------------------------------------------------

    def _say(self, **texts: str) -> None:
        self.draft = self.draft | {"answered": self._answered, "said": "", "failure": ""} | texts

    def _redraw(self) -> None:
        """Show the fields at once, and the preview when it was read."""
        work = self._work
        if work is None or work.proposal is None:
            self.draft = {"answered": self._answered, "closes": True}
            return
        keys, shown = work.keys, self._name(work)
        written = explicit(keys)
        option = option_text(written)
        before = {name: self.draft[name] for name in ("samples", "problem") if name in self.draft}
        self.draft = before | {
            "answered": self._answered,
            "fields": [_field(work.proposal, keys, name) for name in _names(work)],
            "more": [[name, _label(name)] for name in MORE if name not in _names(work)],
            "option": f"rlpanel serve {shlex.quote(shown)} --map {shlex.quote(option)}" if option else "",
            "toml": toml_text(written),
            "saves": not is_remote(work.folder),
            "closes": True,
            "opens": False,
            "reading": True,
        }
        self._previewing.start(_preview(work.proposal, dict(keys)))

    def _show_preview(self, shown: Preview) -> None:
        keys = self._work.keys if self._work is not None else {}
        self.draft = self.draft | {
            "samples": [_sample(at, record, keys) for at, record in enumerate(shown.samples)],
            "problem": shown.problem,
            "opens": bool(shown.samples),
            "reading": False,
        }


def _read_folder(work: _Work) -> Iterator[_Work]:
    files, proposal = propose_for_folder(work.folder)
    yield replace(work, files=files, proposal=proposal, keys=dict(proposal.keys) if proposal else {})


def _read_file(work: _Work, at: int) -> Iterator[_Work]:
    proposal = propose(read_first(work.files[at]))
    yield replace(work, proposal=proposal, keys=dict(proposal.keys), added=[])


def _preview(proposal: Proposal, keys: Keys) -> Iterator[Preview]:
    if proposal.first.problem:
        yield Preview()  # the problem stands in the place of the record
    elif not keys.keys() & TEXTS:
        yield Preview(problem=tr("Choose the key of the prompt, of the response or of the messages."))
    else:
        try:
            yield preview(proposal.first, keys)
        except SettingError as error:
            yield Preview(problem=str(error))


def _names(work: _Work) -> list[str]:
    """Return the fields that have a row."""
    proposed = work.proposal.keys if work.proposal else {}
    shown = dict.fromkeys([*proposed, *work.keys, *work.added])
    return work.proposal.names(shown) if work.proposal else []


def _keys(work: _Work) -> dict[str, str]:
    """Return the keys that a field may be mapped to, with the type of their values."""
    if work.proposal is None:
        return {}
    found = {line.key: line.kind for line in work.proposal.tree if line.key}
    for guess in work.proposal.inference.guesses:
        for key in work.proposal.likely_keys(guess.meaning):
            found.setdefault(key, "")
    return found


def _found(work: _Work, folder: str, *, closed: bool) -> dict[str, Any]:
    proposal = work.proposal
    if proposal is None:
        return {"title": tr("No records to map"), "folder": folder, "files": []}
    names, reason = [file.name for file in work.files], proposal.inference.problem
    return {
        "title": tr("Which field is what?"),
        "why": tr("Not opened by itself: {reason}.", reason=reason) if reason and closed else "",
        "sentence": tr(
            "The fields are proposed from the names and values of the records. Compare them with the samples "
            "below, then open the folder."
        ),
        "folder": folder,
        "files": names,
        "file": work.files.index(proposal.first.file) if proposal.first.file in work.files else 0,
        "problem": proposal.first.problem,
        "tree": [_line(line) for line in proposal.tree],
        "keys": [[key, tr(_KINDS[kind]) if kind else ""] for key, kind in _keys(work).items()],
    }


def _line(line: TreeLine) -> dict[str, Any]:
    kind = tr(_KINDS[line.kind])
    if line.kind == "list":
        kind = trn("list of {count:,}", "list of {count:,}", line.count)
    return {"depth": line.depth, "name": line.name, "kind": kind, "value": line.value, "key": line.key}


def _label(name: str) -> str:
    """Return the name of a field as the board shows it."""
    return schema.BY_NAME[name].label if name in schema.BY_NAME else name


def _field(proposal: Proposal, keys: Keys, name: str) -> dict[str, Any]:
    """Return the row of a field: its key, and how sure that is."""
    key, guess = keys.get(name, ""), proposal.guess(name)
    level, sure, reason = "", "", ""
    if guess is not None and key == guess.key:
        level = "high" if guess.confidence >= SURE else "middle" if guess.confidence >= LIKELY else "low"
        sure, reason = f"{guess.confidence:.0%}", guess.reason
    elif key != proposal.keys.get(name, ""):
        level, sure = "own", tr("yours")
    elif isinstance(key, int):
        reason = tr("no key holds a step; an evaluation has one")
    return {
        "name": name,
        "label": _label(name),
        "help": schema.BY_NAME[name].help if name in schema.BY_NAME else "",
        "key": key if isinstance(key, str) else "",
        "constant": key if isinstance(key, int) else None,
        "likely": proposal.likely_keys(name),
        "level": level,
        "sure": sure,
        "reason": reason,
    }


def _sample(at: int, record: Record, keys: Keys) -> dict[str, Any]:
    """Return a sample of the preview, with shortened texts, and the columns that the mapping names."""
    facts = [[tr("step"), f"{record.step}"]]
    if record.messages:
        facts.append([tr("messages"), f"{len(record.messages):,}"])
    columns: dict[str, float | str] = {**record.numbers, **record.labels}
    for name, value in columns.items():
        if name in ("reward", *keys) or name.startswith("rewards/"):
            facts.append([name, shorten(value, 60) if isinstance(value, str) else number(value)])
    texts = [(name, record.texts.get(name)) for name in ("prompt", "response", "ground_truth")]
    return {
        "title": tr("Sample {number}", number=at + 1),
        "facts": facts[:_MAX_FACTS],
        "texts": [[_label(name), shorten(text, _TEXT_CHARS), _chars(text)] for name, text in texts if text],
        "notes": record.notes[:3],
    }


def _chars(text: str) -> str:
    return tr("{count:,} characters", count=len(text)) if len(text) > _TEXT_CHARS else ""
