"""Texts of samples: read once for all pages, in the session's style, and as HTML with folded parts."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.errors import RLPanelError
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_texts
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import Texts, cached_on
from rlpanel.texts.prompt_parts import (
    BEFORE,
    MIN_IN_CELLS,
    PADDING,
    SHARED,
    SYSTEM,
    Part,
    Place,
    TextStyle,
    content_of,
    parts_of,
    prompt_cell,
    question_of,
    shared_beginnings,
    unpadded,
    without_pad,
)
from rlpanel.texts.shorten import LINE_CHARS, one_line, spaced

# -- sample texts --------------------------------------------------------------------------------------
# Texts of samples, read from the log files once for all pages: the run's index caches them.
#
# If the lines of many rows are long, only those of the first page are read at once, and the rest on a thread.


#: Bytes of log that are read on the event loop; more is read on a thread while the numbers are shown.
READ_NOW = 2 << 20
#: Columns that together identify a row's text: its locator in the file and its hashes.
_LOCATOR = ("offset", "length", "part", "hash", "prompt_hash", "response_hash")
#: Number of tables and texts cached per snapshot: sessions that follow a run show the same step.
MAX_CACHED = 2


def read_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[Texts]:
    """Return the texts of each row by name; if a row cannot be read, its prompt holds the error."""
    keys = _keys(index, snapshot, rows)
    found = {place: texts for place, key in enumerate(keys) if (texts := index.texts.get(key)) is not None}
    missing = [place for place in range(len(rows)) if place not in found]
    for place, texts in zip(missing, fetch_all_texts(index, snapshot, rows[missing]), strict=True):
        if texts is None:
            found[place] = _texts_or_error(index, snapshot, int(rows[place]))
        else:
            found[place] = texts
            index.texts.put(keys[place], texts)
    return [found[place] for place in range(len(rows))]


def unread_bytes(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> int:
    """Return the bytes of log that `read_texts` would have to read."""
    unread = [key not in index.texts for key in _keys(index, snapshot, rows)]
    return int(snapshot.metadata("length")[rows][np.array(unread, bool)].sum())


def _keys(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[Hashable]:
    """Return a cache key per row. It includes hashes, so a rewritten line is never served from the cache."""
    columns = [snapshot.metadata(name)[rows].tolist() for name in _LOCATOR]
    return [
        (index.path, snapshot.file(row), *locator)
        for row, *locator in zip(rows.tolist(), *columns, strict=True)
    ]


def _texts_or_error(index: RunIndex, snapshot: Snapshot, row: int) -> Texts:
    """Read a row once more, for the reason why it cannot be read: the next snapshot will replace it."""
    try:
        return fetch_texts(index, snapshot, row)
    except (RLPanelError, IndexError) as error:
        return {"prompt": f"({error})"}


class RowTexts:
    """Texts of the grid's rows, as far as they have been read.

    Attributes
    ----------
    texts : dict of int to dict
        Row → its texts by name; rows that have not been read are missing.
    whole : bool
        Whether the texts of all rows have been read.
    """

    def __init__(self) -> None:
        self.texts: dict[int, Texts] = {}
        self.whole = True
        self._lock = threading.Lock()
        self._reading: Future[None] | None = None

    def read_rest(
        self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray, pool: Executor
    ) -> Future[None]:
        """Read all texts on a thread, once for all callers. Thread-safe."""
        with self._lock:
            if self._reading is None:
                self._reading = pool.submit(self._read, index, snapshot, rows)
            return self._reading

    def _read(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> None:
        self.texts = dict(zip(rows.tolist(), read_texts(index, snapshot, rows), strict=True))
        self.whole = True

    def _read_first(self, index: RunIndex, snapshot: Snapshot, rows: np.ndarray, first: int) -> None:
        """Read all texts if they are short, else the first ones unless they are too long as well."""
        for part in (rows, rows[:first]):
            if unread_bytes(index, snapshot, part) <= READ_NOW:
                self._read(index, snapshot, part)
                break
        self.whole = len(self.texts) == len(rows)


def texts_of(index: RunIndex | None, view: RunView, rows: np.ndarray, first: int) -> RowTexts:
    """Return the texts of rows: at least those of the ``first`` ones, unless their lines are very long."""
    if index is None:
        return RowTexts()

    def read() -> RowTexts:
        texts = RowTexts()
        texts._read_first(index, view.snapshot, rows, first)
        return texts

    return cached_on(view, "texts", (index.path, rows.tobytes()), read, most=MAX_CACHED)


# -- text style ----------------------------------------------------------------------------------------
# How a session shows prompts: its settings, and the beginnings that the run's prompts share.
#
# The beginnings are found in a few of the newest prompts, once for all sessions. They are looked for again
# only when the run has twice as many samples, so that what is folded does not change with every step.


#: Names of the settings that change the style.
STYLE_SETTINGS = ("pad_token", "system_end", "fold_templates")
#: Maximum number of different prompts that are compared, and of the newest rows that they are taken from.
_PROMPTS, _ROWS = 32, 4096
_MAX_BYTES = READ_NOW // 4


class _Found:
    """Styles with the beginnings found so far in a run, by settings, with the number of samples then."""

    def __init__(self) -> None:
        self.styles: dict[TextStyle, tuple[int, TextStyle]] = {}


def text_style(context: Context) -> TextStyle:
    """Return the style of the session's prompts."""
    if context.index is None:
        return settings_style(context.display)
    return style_of(context.index, context.snapshot, context.display)


def style_of(index: RunIndex, snapshot: Snapshot, display: Display) -> TextStyle:
    """Return the style of a run's prompts with these settings; reads a few prompts if it is not known."""
    style = settings_style(display)
    if not style.fold or style.system_end or not snapshot.samples:
        return style
    found = cached_on(index, "beginnings", snapshot.split, _Found).styles
    samples, folding = found.get(style, (0, style))
    if snapshot.samples >= 2 * samples:
        questions = _questions(index, snapshot, style)
        folding = replace(
            style,
            beginnings=shared_beginnings(questions),
            cell_beginnings=shared_beginnings(questions, MIN_IN_CELLS),
        )
        found[style] = snapshot.samples, folding
    return folding


def settings_style(display: Display) -> TextStyle:
    """Return the style that the settings describe, which is all that responses need."""
    return TextStyle(display.pad_token, display.system_end, display.fold_templates)


def _questions(index: RunIndex, snapshot: Snapshot, style: TextStyle) -> list[str]:
    """Return the questions of some different prompts among the newest rows."""
    newest = snapshot.alive_rows[-_ROWS:]
    _, first = np.unique(snapshot.metadata("prompt_hash")[newest], return_index=True)
    rows = newest[np.sort(first)][-_PROMPTS:]
    while len(rows) and unread_bytes(index, snapshot, rows) > _MAX_BYTES:
        rows = rows[len(rows) // 2 + 1 :]
    texts = read_texts(index, snapshot, rows)
    return [question_of(each["prompt"], style) for each in texts if "prompt" in each]


# -- prompt text ---------------------------------------------------------------------------------------
# Texts of a log as HTML: without padding, with the parts around the question folded.


#: Characters shown after a found place.
_AFTER = 60
#: Characters that may stand before a found place without being folded: some lines.
_MAX_BEFORE = 300
#: Parts that are never put into a fold with others, and the number of turns that need none.
_OF_THEIR_OWN, _FEW_TURNS = (PADDING, SHARED, SYSTEM, "system", "developer"), 2


def answer_html(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return a response or another answer as HTML, without padding and with the found places marked."""
    start, end = unpadded(text, style.pad_token, common=style.fold)
    return _marked(text, start, end, style, places)


def prompt_html(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return a prompt as HTML: the question and what the response continues open, the rest folded.

    A folded part with a found place is open, and its summary shows the place. Except for tokens that the
    settings remove, the HTML contains the prompt as it was logged.
    """
    return "".join(
        _turns_html(text, [*parts], style, places)
        if is_turn
        else "".join(_part_html(text, part, style, places) for part in parts)
        for is_turn, parts in groupby(parts_of(text, style), _is_earlier_turn)
    )


def _is_earlier_turn(part: Part) -> bool:
    return part.folded and part.name not in _OF_THEIR_OWN


def _turns_html(text: str, turns: Sequence[Part], style: TextStyle, places: Sequence[Place]) -> str:
    """Return adjacent folded turns as HTML: many of them in one fold, as the question must stay in view."""
    inner = "".join(_part_html(text, turn, style, places) for turn in turns)
    if len(turns) <= _FEW_TURNS:
        return inner
    is_open = any(turns[0].start <= place[0] < turns[-1].end for place in places)
    summary = tr(
        "{turns} earlier turns · {size}",
        turns=len(turns),
        size=_size(sum(turn.finish - turn.begin for turn in turns)),
    )
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>{inner}</details>"


def _part_html(text: str, part: Part, style: TextStyle, places: Sequence[Place]) -> str:
    pieces = (
        _markup(text, part.start, part.begin, places),
        _content_html(text, part, style, places),
        _markup(text, part.finish, part.end, places),
    )
    if part.name == PADDING:
        summary = f"{part.name} · {_size(part.end - part.start)}"
        return f"<details><summary>{summary}</summary>{_markup(text, part.start, part.end)}</details>"
    if not part.folded:
        return f"<div>{''.join(pieces)}</div>"
    inside = [place for place in places if part.start <= place[0] < part.end]
    found = ""
    if inside:
        pieces_around = _surroundings(text, inside[0], content_of(part, inside[0]))
        before, hit, after = map(safe_text, pieces_around)
        found = f" · <span>{before}<mark>{hit}</mark>{after}</span>"
    summary = f"{safe_text(part.name)} · {_size(part.finish - part.begin)}{found}"
    return f"<details{' open' if inside else ''}><summary>{summary}</summary>{''.join(pieces)}</details>"


def _content_html(text: str, part: Part, style: TextStyle, places: Sequence[Place]) -> str:
    """Return the content of a part. If a place is far from its beginning, what comes before is folded."""
    first = next((start for start, _ in places if part.begin <= start < part.finish), part.begin)
    cut = max(text.rfind("\n", part.begin, first) + 1, first - _MAX_BEFORE, part.begin)
    if cut - part.begin <= _MAX_BEFORE:
        return _marked(text, part.begin, part.finish, style, places)
    before = _marked(text, part.begin, cut, style, places)
    size = tr("{size} before", size=_size(cut - part.begin))
    marked = _marked(text, cut, part.finish, style, places)
    return f"<details><summary>{size}</summary>{before}</details>{marked}"


def _markup(text: str, start: int, end: int, places: Sequence[Place] = ()) -> str:
    """Return markup of a template as HTML, exactly as it was logged."""
    return (
        f'<span class="markup">{_marked(text, start, end, TextStyle(), places)}</span>' if end > start else ""
    )


def _marked(text: str, start: int, end: int, style: TextStyle, places: Sequence[Place]) -> str:
    """Return a part of a text as HTML with the found places in it marked, as far as they are in it."""
    inside = [(max(one, start), min(two, end)) for one, two in places if one < end and two > start]
    cuts = [start, *(cut for place in inside for cut in place), end]
    pieces = (safe_text(without_pad(text[one:two], style)) for one, two in pairwise(cuts))
    return "".join(
        f"<mark>{piece}</mark>" if number % 2 else piece for number, piece in enumerate(pieces) if piece
    )


def _surroundings(text: str, place: Place, around: Place) -> Iterator[str]:
    """Yield what stands before a place, the place, and what stands after it, as pieces of one line.

    Parameters
    ----------
    around : Place
        What may be shown.
    """
    start, end = place
    first, last = max(start - BEFORE, around[0]), min(end + _AFTER, max(around[1], end))
    yield f"{'…' if first > around[0] else ''}{spaced(text[first:start])}"
    yield spaced(text[start : min(end, start + LINE_CHARS)])
    yield f"{spaced(text[end:last])}{'…' if last < around[1] else ''}"


def _size(chars: int) -> str:
    return f"{chars:,} character{'s' if chars != 1 else ''}"


def text_pane(css_class: str) -> Html:
    """An empty pane in the style of a sample's texts."""
    return Html(
        stylesheets=[theme.CSS, read_assets("panels/texts/prompt.css", "panels/texts/sample_text.css")],
        sizing_mode="stretch_width",
        margin=(8, 14, 4, 14),
        css_classes=[css_class],
    )


def prompt_block(sample: Sample | None, style: TextStyle, tests: Sequence[TextPredicate] = ()) -> str:
    """The prompt as one line that opens; empty where no prompt is logged.

    Parameters
    ----------
    tests : sequence of TextPredicate
        Conditions on texts. If they find something in the prompt, it is open and shows the place.
    """
    if sample is None or sample.prompt is None:
        return ""
    text = sample.prompt
    places = PlaceFinder(tests).places("prompt", text)
    line = one_line(prompt_cell(text, style, places))
    return (
        f'<details class="prompt"{" open" if places else ""}><summary><span class="caption">Prompt</span>'
        f"<span>{safe_text(line)}</span></summary>"
        f'<div class="parts">{prompt_html(text, style, places)}</div></details>'
    )


def extra_html(sample: Sample) -> str:
    """The keys of the sample's line that rlpanel gives no meaning, as plain text."""
    if not sample.extra:
        return ""
    rows = "".join(
        f"<tr><td>{safe_text(key)}</td><td>{safe_text(_brief(value))}</td></tr>"
        for key, value in sample.extra.items()
    )
    summary = tr("{extra} further keys of the line", extra=len(sample.extra))
    return f'<details class="extra"><summary>{summary}</summary><table>{rows}</table></details>'


def _brief(value: object) -> str:
    try:
        return str(value)[:2000]
    except RecursionError:
        return tr("nested too deeply to be shown")
