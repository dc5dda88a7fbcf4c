"""Thumbnails of the media of the grid's rows: read and decoded on a thread, for the rows of a page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pandas as pd
from cachetools import FIFOCache

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui.safe_image import BadImage, image_url
from rlpanel.sources.records.field_values import AgentFields
from rlpanel.sources.records.record_types import Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.sample_media import image_bytes
from rlpanel.store.snapshot.snapshot import Snapshot


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
