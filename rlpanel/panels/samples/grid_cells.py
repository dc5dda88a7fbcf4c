"""The texts of the grid's cells: states, answers, traces of episodes, and thumbnails of media."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from cachetools import FIFOCache
from markupsafe import Markup

from rlpanel import schema
from rlpanel.display_settings import ANSWER_RULES
from rlpanel.errors import RLPanelError, SampleNotFound
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tables.data_table import cells_of
from rlpanel.panels.ui.safe_image import BadImage, image_url
from rlpanel.schema import Sample
from rlpanel.sources.records.field_values import AgentFields
from rlpanel.sources.records.record_types import Record
from rlpanel.store.columns.related_rows import PLACES, TURN, counters
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.filter_columns import answer_columns
from rlpanel.store.query.sample_media import image_bytes
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.agent_line import agent_line
from rlpanel.texts.final_answers import DIFFERENT, EQUAL, RULES, UNCLEAR, ChosenRule
from rlpanel.texts.shorten import ELLIPSIS, one_line, shorten

# -- answer words --------------------------------------------------------------------------------------
# Answer, ground truth and match of one sample in words, and how the answer is read.


#: Most characters of an answer or a truth in a line.
_MAX_CHARS = 60


def answer_tip(chosen: ChosenRule) -> str:
    """Return how answers are read, and why so, in one paragraph."""
    labels = {key: label for label, key in ANSWER_RULES.items()}
    read = tr("Our reading, not the trainer's reward: {rule}.", rule=tr(labels[chosen.rule.key]))
    why = tr("The side panel sets this rule.")
    if chosen.equal:
        others = [
            f"{RULES[key].key} {count}" for key, count in chosen.equal.items() if key != chosen.rule.key
        ]
        why = tr(
            "Of {samples:,} samples tried, it equals the ground truth in {equal:,} (other rules: {others}).",
            samples=chosen.samples,
            equal=chosen.equal[chosen.rule.key],
            others=", ".join(others),
        )
    return f"{read} {why}"


def answer_html(context: Context, sample: Sample) -> str:
    """Return a line with the sample's answer beside its ground truth; empty if there is no truth."""
    if context.index is None or not (sample.ground_truth or "").strip():
        return ""
    columns = answer_columns(context.index, context.snapshot, context.display.answer_rule)
    if columns.chosen is None:
        return ""
    truth = sample.ground_truth or ""
    read = columns.read({"response": sample.response or "", "ground_truth": truth})
    answer, match = read.get(columns.answer), read.get(columns.match, UNCLEAR)
    words = {
        EQUAL: ("✓", tr("equal")),
        DIFFERENT: ("✗", tr("different")),
        UNCLEAR: ("○", tr("not comparable") if answer else tr("no answer found")),
    }
    return Markup(
        '<div class="answer {match}" title="{tip}"><span>{title} <b>{answer}</b></span>'
        "<span>{truth_title} <b>{truth}</b></span><span>{sign} {words}</span></div>"
    ).format(
        match=match,
        tip=answer_tip(columns.chosen),
        title=tr("answer ({rule})", rule=tr(columns.chosen.rule.key)),
        answer=shorten(one_line(answer), _MAX_CHARS) if answer else "–",
        truth_title=tr("truth"),
        truth=shorten(one_line(truth), _MAX_CHARS),
        sign=words[match][0],
        words=words[match][1],
    )


# -- episode traces ------------------------------------------------------------------------------------
# Episodes of agents in the table of samples: the traces of one rollout, which fold into one row.


def fold_episodes(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the rows without further traces of an episode of which a row came before; order is kept."""
    keys = _episode_keys(snapshot, rows)
    if keys is None:
        return rows
    first = np.zeros(len(rows), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return rows[first | (keys < 0)]


def trace_column(snapshot: Snapshot, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the grid column with the number of traces of each row's episode; empty without episodes."""
    keys = _episode_keys(snapshot, rows)
    every = _episode_keys(snapshot, snapshot.alive_rows)
    if keys is None or every is None or not len(every):
        return {}
    known, counts = np.unique(every, return_counts=True)
    position = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found = (known[position] == keys) & (keys >= 0)
    return {"traces": np.where(found, counts[position], 1)}


def traces_of(snapshot: Snapshot, uid: str) -> list[tuple[str, str]]:
    """Return uid and name of each trace of a sample's episode, in the order of the log.

    The name is the agent's, or the trace's number. A sample that the snapshot does not have, because another
    run was opened or its file was rewritten, has no traces.
    """
    try:
        row = snapshot.row(uid)
    except SampleNotFound:
        return []
    rows = snapshot.rows_of(int(snapshot.metadata("step")[row]))
    keys, own = _episode_keys(snapshot, rows), _episode_keys(snapshot, np.array([row]))
    if keys is None or own is None or own[0] < 0:
        return []
    traces = rows[keys == own[0]]
    agents = snapshot.label("agent", traces) if "agent" in snapshot.labels else [None] * len(traces)
    names = [agent or f"trace {number}" for number, agent in enumerate(agents, 1)]
    return list(zip(snapshot.uids(traces), names, strict=True))


def _episode_keys(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray | None:
    """Return the number of each row's episode and step, shape (N,).

    It is negative and different for each row without an episode; None if the run has no episodes.
    """
    if "episode" not in snapshot.labels:
        return None
    every, names = snapshot.label_codes("episode")
    codes = every[rows]
    labels = [snapshot.label_codes(name)[0][rows] for name in PLACES if name in snapshot.labels]
    turns = snapshot.number(TURN)[rows] if snapshot.has_number(TURN) else None
    codes = np.where(counters(codes, names, labels, turns), -1, codes)
    step = snapshot.metadata("step")[rows].astype(np.int64)
    keys: np.ndarray = step * len(names) + codes
    return np.where(codes < 0, -1 - np.arange(len(rows)), keys)


# -- thumbnails ----------------------------------------------------------------------------------------
# Thumbnails of the media of the grid's rows: read and decoded on a thread, for the rows of a page.


def _sign(path: str) -> str:
    """Return an image of one grey shape, which can be seen in both themes."""
    shape = f'<path d="{path}" fill="#8b93a1"/>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="96" height="72">{shape}</svg>'
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


#: Name of the grid's column.
COLUMN = "thumbnail"
#: A transparent image, for rows without one.
NONE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
#: Signs in our own SVG for samples that have audio or video, but no image.
SIGNS = {
    "video": _sign("M32 14 L66 36 L32 58 Z"),
    "audio": _sign("M38 14 L60 8 L60 46 A8 8 0 1 1 54 39 L54 22 L44 25 L44 54 A8 8 0 1 1 38 47 Z"),
}
#: Most thumbnails that are kept, and the longest side of one in pixels.
_MAX_KEPT, _MAX_SIDE = 2_000, 96


class Thumbnails:
    """The first image of each sample, or a sign that it has audio or video, for one grid.

    Parameters
    ----------
    context : Context
    show : callable
        Called when further thumbnails can be shown.
    """

    def __init__(self, context: Context, show: Callable[[], None]) -> None:
        self._context, self._show = context, show
        self._urls: FIFOCache[tuple[str, str], str] = FIFOCache(_MAX_KEPT)
        self._task: BackgroundTask[dict[tuple[str, str], str]] = BackgroundTask(
            self._on_read, context.threads.views
        )

    @property
    def exist(self) -> bool:
        """True if the run logs images, audio or video."""
        return any(map(self._context.snapshot.has_number, schema.MEDIA))

    def add_to(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with a column of thumbnails as data URLs; without media as they are."""
        if not self.exist or not len(frame):
            return frame
        urls = [self._urls.get((self._run, uid), NONE) for uid in frame["uid"]]
        extended = frame.copy(deep=False)
        extended.insert(1, COLUMN, urls)
        return extended

    def load(self, uids: Sequence[str]) -> None:
        """Read the thumbnails of these samples that were not read yet."""
        index, snapshot = self._context.index, self._context.snapshot
        missing = [uid for uid in uids if (self._run, uid) not in self._urls]
        if index is not None and missing and self.exist:
            self._task.start(_read(index, snapshot, missing))

    @property
    def _run(self) -> str:
        return self._context.snapshot.name

    def _on_read(self, urls: dict[tuple[str, str], str]) -> None:
        self._urls.update(urls)
        self._show()


def _read(index: RunIndex, snapshot: Snapshot, uids: Sequence[str]) -> Iterator[dict[tuple[str, str], str]]:
    """Yield the thumbnails of all these samples at once: each result draws the table again.

    Samples of different runs may have the same uid, so the key names the run as well.
    """
    yield {(snapshot.name, uid): thumbnail_of(index, snapshot, uid) for uid in uids}


def thumbnail_of(index: RunIndex, snapshot: Snapshot, uid: str) -> str:
    """Return the first image of a sample as a data URL, else a sign of its audio or video."""
    try:
        row = snapshot.row(uid)
        reader, locator = index.reader(snapshot.file(row)), snapshot.locator(row)
        line = reader.raw(locator)
        record = reader.sample_of(line, locator)
    except (RLPanelError, IndexError):  # the sample panel says what is wrong
        return NONE
    agent = record.agent or AgentFields()
    try:
        for image in [*_of_messages(record, "images"), *agent.images][:1]:
            return image_url(image_bytes(index, snapshot, uid, image, line), longest=_MAX_SIDE)
    except (RLPanelError, BadImage):  # the conversation says why an image cannot be shown
        return NONE
    kinds = {medium["kind"] for medium in [*_of_messages(record, "media"), *agent.media]}
    return next((sign for kind, sign in SIGNS.items() if kind in kinds), NONE)


def _of_messages(record: Record, key: Literal["images", "media"]) -> list[Any]:
    return [medium for message in record.messages for medium in message.get(key, ())]


# -- grid cells ----------------------------------------------------------------------------------------
# The texts of the grid's cells: what many rows share is left out, and states have a sign and words.


#: Maximum characters that a cell shows: about as many as fit into a column as wide as a large screen.
CELL_CHARS = 400
#: Attributes of a frame: True if its responses are shown in short, and the name of the column of matches.
AGENT_LINES, MATCH = "agent_lines", "match"
#: Cell of a prompt that is the same as that of the row above.
DITTO = "″"
#: Least texts whose beginnings are compared, least characters of one, and the share of texts that begin so.
_FEW, _BEGINNING, _SHARE = 3, 10, 0.75
#: Sign by the text of a state; the words stay beside it.
_SIGNS = {
    **dict.fromkeys(("ok", "stop", "completed", "success", "succeeded", EQUAL), "✓"),
    **dict.fromkeys(("truncated", "length", "max_tokens", "discarded", "aborted", "abort", UNCLEAR), "○"),
    **dict.fromkeys(("failed", "error", "environment_error", "tool_error", "timeout", DIFFERENT), "✗"),
}
_STATES = ("status", "finish_reason")


def sample_cells(page: pd.DataFrame, name: str) -> Sequence[str | None]:
    """Return the cells of a column of the grid's page."""
    if name == COLUMN or pd.api.types.is_numeric_dtype(page[name]):
        return cells_of(page, name)
    cells = cells_of(page, name)
    if name in (*_STATES, page.attrs.get(MATCH)):
        cells = [f"{sign} {cell}" if cell and (sign := _SIGNS.get(cell.lower())) else cell for cell in cells]
    elif name == "prompt":
        cells = _once(cells)
    elif name == "response" and page.attrs.get(AGENT_LINES):
        errors = page["tool_errors"].tolist() if "tool_errors" in page else [0] * len(page)
        lines = zip(cells, errors, strict=True)
        cells = without_shared_beginning([agent_line(cell or "", failed=count > 0) for cell, count in lines])
    return [cell and shorten(cell, CELL_CHARS) for cell in cells]


def _once(cells: Sequence[str | None]) -> list[str | None]:
    """Return the prompts; one that follows the same prompt is a ditto mark."""
    pairs = zip(cells, [None, *cells], strict=False)
    return [DITTO if cell and cell == before else cell for cell, before in pairs]


def without_shared_beginning(texts: Sequence[str]) -> list[str]:
    """Return responses from the first word on in which they differ, with an ellipsis before it.

    A beginning is left out if at least three quarters of the texts have it. A text that is no longer stays.
    """
    several = sorted({*texts})
    if len(several) < _FEW:
        return [*texts]
    # In sorted texts, those with the same beginning follow each other.
    pairs = zip(several, several[math.ceil(len(several) * _SHARE) - 1 :], strict=False)
    shared = max((_common(*pair) for pair in pairs), key=len)
    shared = shared[: len(shared.rstrip()) and max(shared.rfind(" "), shared.rfind("\n")) + 1]
    if len(shared) < _BEGINNING:
        return [*texts]
    return [
        ELLIPSIS + rest if text.startswith(shared) and (rest := text[len(shared) :].strip()) else text
        for text in texts
    ]


def _common(first: str, second: str) -> str:
    """Return the beginning that two texts share."""
    least = min(len(first), len(second))
    at = next((at for at in range(least) if first[at] != second[at]), least)
    return first[:at]
