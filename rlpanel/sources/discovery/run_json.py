"""Reads ``run.json``, the recorder's description of the training, next to the rollouts."""

from __future__ import annotations

import json
from typing import Any

from rlpanel.errors import describe_error
from rlpanel.sources.files.file_access import AnyPath

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
        Reason why the file is ignored; empty if it is not.
    """

    def __init__(self, folder: AnyPath) -> None:
        self._path = folder / NAME
        self._stamp: tuple[int, int] | None = None
        self.content: dict[str, Any] = {}
        self.problem = ""

    def refresh(self) -> bool:
        """Read the file if it was modified; return True if its content is different now."""
        before = self.content
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return False
            if status.st_size > _MAX_BYTES:
                self.content, self.problem = {}, f"{NAME} is ignored: larger than {_MAX_BYTES:,} bytes"
            else:
                self.content, self.problem = _parse(self._path.read_bytes())
            self._stamp = stamp
        except OSError:
            self._stamp, self.content, self.problem = None, {}, ""
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
