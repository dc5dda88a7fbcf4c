"""Writes the rows of hooks that a trainer calls as functions or as objects that it makes itself."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rlpanel.recording.output_dir import folder_of_hook
from rlpanel.recording.trainers.patching import Guard
from rlpanel.recording.writer.writer import RolloutWriter

log = logging.getLogger("rlpanel.recording")


class HookRows:
    """Rows of one trainer's hooks: errors are logged once, and the writer is made when it is first needed.

    Attributes
    ----------
    dir : path, optional
        The run's folder; by default `folder_of_hook` of the trainer's output folder.
    """

    def __init__(self, dir: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self.dir = dir
        self._settings = settings
        self._guard = Guard()
        self._writers: dict[Path, RolloutWriter] = {}

    def write(
        self,
        part: str,
        output: str | os.PathLike[str] | None,
        rows: Callable[..., Iterable[dict[str, Any]]],
        *args: Any,
    ) -> None:
        """Write ``rows(*args)``, each with its ``step``; an error ends the recording of this part only.

        Parameters
        ----------
        part : str
            Name of what is recorded, for messages.
        output : path, optional
            The training's output folder.
        rows : callable
        """
        self._guard(part, self._write, output, rows, *args)

    def flush(self) -> None:
        """Wait until all rows so far are on disk."""
        for writer in self._writers.values():
            writer.flush()

    def _write(
        self, output: str | os.PathLike[str] | None, rows: Callable[..., Iterable[dict[str, Any]]], *args: Any
    ) -> None:
        folder = Path(self.dir) if self.dir is not None else folder_of_hook(output)
        if folder is None:
            return
        writer = self._writer(folder)
        for row in rows(*args):
            writer.write(**row)

    def _writer(self, folder: Path) -> RolloutWriter:
        if folder not in self._writers:
            self._writers[folder] = RolloutWriter(folder, **self._settings)
            # A worker's working folder is often a temporary one: the log should say where the rows are.
            log.warning("rlpanel: rollouts are recorded in %s", folder.resolve())
        return self._writers[folder]
