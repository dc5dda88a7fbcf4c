"""Rights of a run's logs, which the index and the notes beside them get: they contain parts of the logs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rlpanel.file_rights import FileRights
from rlpanel.sources.files.file_access import AnyPath

#: By the run's folder. Of the process: notes and caches of a run know its path only.
_rights: dict[str, FileRights] = {}


def note_log_rights(run: AnyPath, logs: Iterable[os.stat_result]) -> None:
    """Note the rights of a run's logs, as of the last listing of its folder; without logs nothing changes."""
    statuses = list(logs)
    if statuses:
        _rights[str(run)] = FileRights.of(statuses)


def log_rights(run: AnyPath) -> FileRights:
    """Return the rights that all logs of a run give; those of a private file if the run was never listed."""
    return _rights.get(str(run), FileRights())
