"""Reads ``run.json``, the recorder's description of the training, next to the rollouts."""

from __future__ import annotations

import json
from typing import Any

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
    """

    def __init__(self, folder: AnyPath) -> None:
        self._path = folder / NAME
        self._stamp: tuple[int, int] | None = None
        self.content: dict[str, Any] = {}

    def refresh(self) -> bool:
        """Read the file if it was modified; return True if its content is different now."""
        before = self.content
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return False
            self.content = _parse(self._path) if status.st_size <= _MAX_BYTES else {}
            self._stamp = stamp
        except OSError:
            self._stamp, self.content = None, {}
        return self.content != before


def _parse(path: AnyPath) -> dict[str, Any]:
    """Return the JSON object in the file; {} if the file is incomplete or holds something else."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
