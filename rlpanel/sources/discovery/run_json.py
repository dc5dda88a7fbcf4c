"""What the recorder wrote down of the training itself: ``run.json`` beside the rows."""

from __future__ import annotations

import json
from typing import Any

from rlpanel.sources.files.files import AnyPath

NAME = "run.json"
#: A file larger than this is something else.
_LARGEST = 1 << 20


class RunJson:
    """Reads a run's ``run.json`` again when it changed.

    Parameters
    ----------
    folder : path
        The run's folder.

    Attributes
    ----------
    content : dict
        What it holds; empty while there is none or it cannot be parsed yet.
    """

    def __init__(self, folder: AnyPath) -> None:
        self._path = folder / NAME
        self._seen: tuple[int, int] | None = None
        self.content: dict[str, Any] = {}

    def changed(self) -> bool:
        """Look again; True where the content is another one now."""
        before = self.content
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
            if seen == self._seen:
                return False
            self.content = _parse(self._path) if stat.st_size <= _LARGEST else {}
            self._seen = seen
        except OSError:
            self._seen, self.content = None, {}
        return self.content != before


def _parse(path: AnyPath) -> dict[str, Any]:
    """The object in the file; nothing where it is half written or something else."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
