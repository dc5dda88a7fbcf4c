"""Audio and video of a sample that a browser may be given: found, and in a container that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlpanel.sources.files.unreadable import reason_of
from rlpanel.sources.records.embedded_media import Medium
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.media_container import HEAD, content_type
from rlpanel.store.query.sample_media import MediumTooLarge, MediumUnavailable, OpenMedium, open_medium
from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class PlayableMedium:
    """Audio or video that was checked, and can be opened again.

    Attributes
    ----------
    kind : str
        ``audio`` or ``video``.
    content_type : str
        That of its container.
    find : callable
        Opens the medium anew.
    """

    kind: str
    content_type: str
    find: Callable[[], OpenMedium]

    @contextmanager
    def opened(self) -> Iterator[OpenMedium]:
        """Open the medium, whose container is checked again: a file may have changed.

        Raises
        ------
        MediumUnavailable
            If it is gone, or no longer in a container of this type.
        """
        medium = self.find()
        try:
            if _checked_type(medium, self.kind) != self.content_type:
                raise MediumUnavailable(f"the {self.kind} has changed")
            yield medium
        finally:
            medium.close()


def playable(index: RunIndex, snapshot: Snapshot, uid: str, medium: Medium) -> PlayableMedium:
    """Check that a medium of a sample can be played.

    Raises
    ------
    MediumUnavailable
        If it cannot be read, or its container is not known.
    """
    row, kind = snapshot.row(uid), medium["kind"]
    find = partial(open_medium, index, snapshot.file(row), snapshot.locator(row), medium)
    opened = find()
    try:
        return PlayableMedium(kind, _checked_type(opened, kind), find)
    finally:
        opened.close()


def media_bytes(
    index: RunIndex, snapshot: Snapshot, uid: str, medium: Medium, most: int
) -> tuple[str, bytes]:
    """Return the Content-Type and the bytes of a small medium. The bytes that are returned are checked.

    Raises
    ------
    SourceChanged
        If the file has another line there now.
    MediumTooLarge
        If it has more than ``most`` bytes. No more than its head is read then.
    MediumUnavailable
        If it cannot be read, or its container is not known.
    """
    row, kind = snapshot.row(uid), medium["kind"]
    opened = open_medium(index, snapshot.file(row), snapshot.locator(row), medium)
    try:
        _checked_type(opened, kind)
        if opened.size > most:
            raise MediumTooLarge(f"the {kind} is larger than {most:,} bytes", opened.size)
        data = _read(opened, opened.size, kind)
        return _container(data[:HEAD], kind), data
    finally:
        opened.close()


def _checked_type(opened: OpenMedium, kind: str) -> str:
    return _container(_read(opened, HEAD, kind), kind)


def _read(opened: OpenMedium, length: int, kind: str) -> bytes:
    try:
        return opened.read(length, 0)
    except OSError as error:
        raise MediumUnavailable(f"the {kind} cannot be read: {reason_of(error)}") from error


def _container(head: bytes, kind: str) -> str:
    """Return the Content-Type of a container. Raises MediumUnavailable if it is not known."""
    found = content_type(head, kind)
    if found is None:
        raise MediumUnavailable(f"the {kind} is in none of the containers WAV, MP3, Ogg, FLAC, MP4 and WebM")
    return found


def where_it_is(medium: Mapping[str, Any]) -> str:
    """Return a sentence on where a person finds a medium that is not played."""
    if "url" in medium:
        return f"The log names the file {medium['url'][:200]}."
    return "Its bytes are in the sample's line." if "key" in medium else "The log does not contain it."
