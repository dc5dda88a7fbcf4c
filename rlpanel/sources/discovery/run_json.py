"""Reads ``run.json``, the recorder's description of the training, next to the rollouts."""

from __future__ import annotations

import json
from typing import Any

from rlpanel.errors import RemoteError, describe_error
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.files.small_files import Stamp, read_small, stamp_of
from rlpanel.sources.files.unreadable import Unread, reason_of, too_many_open

NAME = "run.json"
#: Larger files are not a run.json and are ignored.
_MAX_BYTES = 1 << 20


class RunJson:
    """Contents of a run's ``run.json``, read again after it changed.

    Parameters
    ----------
    folder : path
        The run's folder.

    Attributes
    ----------
    content : dict
        Contents of the file; empty if it does not exist or cannot be parsed yet.
    problem : str
        Reason why the content is ignored; empty if it is not.
    unread : Unread or None
        Reason why an existing file is not read; None if it is.
    """

    def __init__(self, folder: AnyPath) -> None:
        self._path = folder / NAME
        self._stamp: Stamp | None = None
        self.content: dict[str, Any] = {}
        self.problem = ""
        self.unread: Unread | None = None

    def refresh(self) -> bool:
        """Read the file if it was modified; return True if its content is different now."""
        before = self.content
        try:
            stamp = stamp_of(self._path)
            if stamp == self._stamp:
                return False
            data = b"{}" if stamp is None else read_small(self._path, _MAX_BYTES).data
            self.content, self.problem = _parse(data)
            self._stamp, self.unread = stamp, None
        except OSError as error:
            if isinstance(error, RemoteError) or too_many_open(error):
                return False  # says nothing about the file: keep what was read
            self._stamp, self.content, self.problem = (), {}, ""  # try again, even if nothing changes
            gone = isinstance(error, FileNotFoundError)
            self.unread = None if gone else Unread(NAME, reason_of(error))
        return self.content != before


def _parse(text: bytes) -> tuple[dict[str, Any], str]:
    """Return the JSON object of a text, or else the reason why it is ignored."""
    try:
        content = json.loads(text)
    except MemoryError:
        raise
    except Exception as error:  # it may be incomplete, nested too deeply or hold numbers that are too long
        return {}, f"{NAME} is ignored: {describe_error(error)}"
    return (content, "") if isinstance(content, dict) else ({}, f"{NAME} is ignored: not a JSON object")
