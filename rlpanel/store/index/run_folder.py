"""A run's folder: its rollout files, its settings, and why parts of it cannot be read."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from rlpanel.settings import Reading
from rlpanel.sources.config.config_values import is_secret
from rlpanel.sources.config.run_config import OF_RECORDING, read_run_config
from rlpanel.sources.discovery.directory import Directory, RolloutFileInfo
from rlpanel.sources.discovery.file_names import split_of_folder
from rlpanel.sources.files.file_access import AnyPath, Unread, is_remote, reason_of
from rlpanel.sources.inference.inference import Inference, inference_of
from rlpanel.sources.records.record_types import BesideFile, files_beside
from rlpanel.store.snapshot.remarks import GUESS, Remark
from rlpanel.store.snapshot.sample_places import BadLineAt

# -- run folder ----------------------------------------------------------------------------------------
# Lists the rollout files of a run's folder, and tells why the folder or parts of it cannot be read.


class RunFolder:
    """The folder of a run, and the files found in it.

    Parameters
    ----------
    path : path
    root : path
        Linked files are found only below this folder.
    reading : Reading
        Settings of the reader.

    Attributes
    ----------
    problem : str
        Reason why the folder cannot be read at the moment; empty if it can.
    inaccessible : list of Unread
        Unreadable files and folders that may belong to the run.
    config_problem : str
        Error in the folder's ``rlpanel.toml``; empty if it was applied or does not exist.
    ignored : tuple of Unread
        Files of the run's configuration, and files beside its own, that cannot be read.
    newer_writers : tuple of str
        Says which files were written by a newer version of their trainer than the tested one.
    remarks : tuple of Remark
        What the folder says about the run's samples, and what was guessed about its files.
    inferences : tuple of Inference
        What was inferred about files that no format describes, each once.
    bad_lines : tuple of BadLineAt
        The first bad lines of the files beside its own.
    bad_count : int
    """

    def __init__(self, path: AnyPath, root: str | os.PathLike[str], reading: Reading) -> None:
        self._path = path
        self._real = "" if is_remote(path) else os.path.realpath(path)
        self._directory = Directory(root, reading)
        self.problem = ""
        self.inaccessible: list[Unread] = []
        self.config_problem = ""
        self.ignored: tuple[Unread, ...] = ()
        self.newer_writers: tuple[str, ...] = ()
        self.remarks: tuple[Remark, ...] = ()
        self.inferences: tuple[Inference, ...] = ()
        self.bad_lines: tuple[BadLineAt, ...] = ()
        self.bad_count = 0

    def list_files(self) -> dict[str, RolloutFileInfo] | None:
        """Return the rollout files by name; None if the folder cannot be read, and `problem` says why."""
        if self._real and os.path.realpath(self._path) != self._real:
            self.problem = "the path of the run's folder leads elsewhere now; its last state is shown"
            return None
        try:
            listed, self.inaccessible = self._directory.find_files(self._path)
        except FileNotFoundError:
            self.problem = "the run's folder is gone; its last state is shown"
            return None
        except OSError as error:
            self.problem = f"the run's folder cannot be read: {reason_of(error)}; its last state is shown"
            return None
        self.problem = ""
        config = self._directory.folder_configs.for_folder(self._path)
        self.config_problem, self.ignored = config.problem, config.unread
        self.newer_writers = tuple(sorted({found.newer for found in listed if found.newer}))
        self.inferences = tuple(
            {found.adapter.name: each for found in listed if (each := inference_of(found.adapter))}.values()
        )
        self.remarks = (*self._split_remarks(listed), *self._guess_remarks())
        self._note_beside(listed)
        return {found.name: found for found in listed}

    def _split_remarks(self, listed: list[RolloutFileInfo]) -> Iterator[Remark]:
        """Yield a remark on the split that the folder's name gives the samples."""
        split, name = split_of_folder(self._path.name, (found.adapter for found in listed)), self._path.name
        if split:
            sentence = f"Split {split} from the folder's name {name!r}: the samples name no split."
            yield Remark("split", sentence, split=split)

    def _guess_remarks(self) -> Iterator[Remark]:
        """Yield a remark on what was inferred about files that no format describes."""
        sentences = dict.fromkeys(inference.sentence() for inference in self.inferences)
        yield from (Remark(GUESS, f"{text[0].upper()}{text[1:]}.") for text in sentences if text)

    def _note_beside(self, listed: list[RolloutFileInfo]) -> None:
        """Note bad lines and problems of the files that the adapters read beside the run's own."""
        beside: dict[str, BesideFile] = {}
        for found in listed:
            beside |= files_beside(found.adapter)
        self.bad_count = sum(file.bad_count for file in beside.values())
        self.bad_lines = tuple(
            BadLineAt(name, bad.line, bad.offset, bad.reason)
            for name, file in sorted(beside.items())
            for bad in file.bad
        )
        problems = (Unread(name, file.problem) for name, file in sorted(beside.items()) if file.problem)
        self.ignored = *self.ignored, *problems

    def hides(self, name: str) -> bool:
        """Return True if a file of this name may exist, but cannot be listed or read at the moment."""
        return any(item.covers(name) for item in self.inaccessible)


# -- folder settings -----------------------------------------------------------------------------------
# Settings of a run: the numbers, switches and short texts of the configuration files in its folder.


#: Seconds until the files are looked at again.
AGAIN = 60.0
#: Most settings of a run that are kept, and most characters of a name or value; longer ones are left out.
MAX_SETTINGS, MAX_SETTING = 256, 64

#: A value of a run's configuration.
Setting: TypeAlias = float | str | bool


def run_settings(logged: Mapping[str, Any], run: AnyPath, root: AnyPath | None) -> dict[str, Setting]:
    """Return the settings of a run without secrets, at most `MAX_SETTINGS`.

    Those of its ``run.json`` come first and win; a folder on another machine adds none of its other files.

    Parameters
    ----------
    logged : mapping
        Content of the ``run.json``.
    run, root : path
        The run's folder, and the highest folder that is shown.
    """
    own = settings_of({name: value for name, value in logged.items() if name not in OF_RECORDING})
    others = settings_of(read_run_config(run, root).values) if isinstance(run, Path) else {}
    return dict(islice({**own, **others, **own}.items(), MAX_SETTINGS))


def settings_of(content: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the numbers, switches and short texts of a ``run.json``; nested ones by their path.

    What may be a secret is left out: a summary is saved, and all viewers of the table of runs see it.
    """
    found: dict[str, Setting] = {}
    queue: list[tuple[str, Any]] = [(str(key), value) for key, value in content.items()]
    while queue and len(found) < MAX_SETTINGS:
        name, value = queue.pop(0)
        if isinstance(value, dict) and name.count(".") < 2:
            queue += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif len(name) <= MAX_SETTING and _is_setting(value) and not is_secret(name, value):
            found[name] = value if isinstance(value, str | bool) else float(value)
    return found


def _is_setting(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_SETTING
    if isinstance(value, int) and abs(value) > 2**53:
        return False
    return isinstance(value, int | float) and math.isfinite(value)
