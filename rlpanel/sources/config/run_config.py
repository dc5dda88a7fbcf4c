"""Reads the configuration of a run from the files in its folder: bounded, without secrets, without links.

Files are looked for under the names that trainers, launchers and trackers give them, in the run's folder and
in the folder above as far as that lies below the root. Values are flattened to dotted names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.config.config_text import MAX_BYTES, parse_config
from rlpanel.sources.config.config_values import (
    MAX_SETTINGS,
    ConfigValue,
    flat_settings,
    holds_secret,
    is_secret,
    shown_value,
)
from rlpanel.sources.files.file_access import AnyPath, read_in, read_small, reason_of, stamp_of

#: Names below a run's folder, in order of precedence. Of folders with a star, the newest is read.
NAMES = (
    *("run.json", "config.yaml", "config.yml", "config.json", "config.toml", "resolved_config.yaml"),
    *("training_args.json", "args.json", "args.yaml", "hparams.yaml", "hparams.json", "params.json"),
    *(".hydra/config.yaml", ".hydra/overrides.yaml", "configs/*.toml", "configs/*.yaml", "configs/*.json"),
    *("*.toml", "trainer_state.json", "checkpoint-*/trainer_state.json", "wandb/*/files/config.yaml"),
    *("wandb/*/files/wandb-metadata.json", "wandb-metadata.json"),
    *("run.sh", "launch.sh", "train.sh", "cmd.sh", "cmd.txt", "command.txt", "launch_command.txt"),
)
#: Files of rlpanel itself, which do not configure the training.
_OWN = frozenset(("rlpanel.toml",))
#: Names in ``run.json`` that the recorder writes about itself: each recording has another session.
OF_RECORDING = frozenset(("session", "not_recorded"))
#: Files that hold settings as pickles: these are named, and never read.
PICKLES = ("training_args.bin", "args.pkl", "config.pkl", "hparams.pkl")
#: Most files, and entries of a folder that are looked at.
MAX_FILES, MAX_ENTRIES = 24, 500


@dataclass(frozen=True)
class ConfigSetting:
    """A setting of a run.

    Attributes
    ----------
    name : str
        Dotted name.
    value : bool, int, float, str or None
        None if it is null or hidden; lists are written as JSON.
    file : str
        The file that it comes from, relative to the run's folder.
    hidden : bool
        True if it may be a secret.
    """

    name: str
    value: ConfigValue
    file: str
    hidden: bool = False


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a run.

    Attributes
    ----------
    settings : tuple of ConfigSetting
        In the order of the files; a name occurs once for each file that gives it another value.
    files : tuple of str
        Files that were read.
    skipped : tuple of (str, str)
        Files that were not read, with reasons.
    left_out : int
        Settings beyond the limits: too many, or nested too deeply.
    """

    settings: tuple[ConfigSetting, ...] = ()
    files: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    left_out: int = 0

    @property
    def values(self) -> dict[str, ConfigValue]:
        """Value of each setting by name, without hidden ones; of several files, the first counts."""
        found: dict[str, ConfigValue] = {}
        for each in self.settings:
            if not each.hidden:
                found.setdefault(each.name, each.value)
        return found

    @property
    def hidden(self) -> int:
        """Number of hidden settings."""
        return sum(each.hidden for each in self.settings)


@dataclass(frozen=True)
class SettingPair:
    """A setting that differs between two runs.

    Attributes
    ----------
    name : str
    here, there : bool, int, float, str or None
        Values in both runs; None if the run lacks it.
    in_here, in_there : bool
        Whether the run has it.
    file : str
        The file of the first run that has it.
    """

    name: str
    here: ConfigValue
    there: ConfigValue
    in_here: bool
    in_there: bool
    file: str


def compare_configs(here: RunConfig, there: RunConfig) -> list[SettingPair]:
    """Return the settings that differ, those of both runs first; hidden ones are not compared."""
    mine, theirs = here.values, there.values
    hidden = {each.name for config in (here, there) for each in config.settings if each.hidden}
    files = {each.name: each.file for config in (there, here) for each in reversed(config.settings)}
    found = [
        SettingPair(name, mine.get(name), theirs.get(name), name in mine, name in theirs, files[name])
        for name in dict.fromkeys((*mine, *theirs))
        if name not in hidden and not (name in mine and name in theirs and _equal(mine[name], theirs[name]))
    ]
    return sorted(found, key=lambda pair: not (pair.in_here and pair.in_there))


def _equal(a: ConfigValue, b: ConfigValue) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def read_run_config(run: AnyPath, root: AnyPath | None = None) -> RunConfig:
    """Read the configuration of a run from its folder, and from the one above if that lies below the root.

    Parameters
    ----------
    run : path
        The run's folder; on another machine, only files with plain names are read.
    root : path, optional
        Highest folder that is shown; without it, only the run's folder is read.
    """
    reading = _Reading()
    reading.folder(run, "")
    if root is not None and run != root and root in run.parents and run.parent != root:
        reading.folder(run.parent, "../")
    return reading.result()


@dataclass
class _Reading:
    """Collects the settings of the files that are found."""

    settings: list[ConfigSetting] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    left_out: int = 0

    def result(self) -> RunConfig:
        return RunConfig(tuple(self.settings), tuple(self.files), tuple(self.skipped), self.left_out)

    def folder(self, folder: AnyPath, prefix: str) -> None:
        """Read the configuration files of a folder."""
        if not isinstance(folder, Path):
            return self._remote(folder, prefix)
        for name in _found(folder):
            if len(self.files) >= MAX_FILES:
                self.skipped.append((prefix + name, f"more than {MAX_FILES} files"))
                continue
            try:
                with _parent(folder, name) as parent:
                    data = read_in(parent, name.rpartition("/")[2], _most_bytes(name)).data
                self._add(prefix + name, parse_config(name, data))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.skipped.append((prefix + name, reason_of(error)))
            except SettingError as error:
                self.skipped.append((prefix + name, str(error)))
        for name in PICKLES:
            if stamp_of(folder / name) is not None:
                self.skipped.append((prefix + name, "is a pickle, which could run code; it is never read"))

    def _remote(self, folder: AnyPath, prefix: str) -> None:
        for name in (each for each in NAMES if "*" not in each):
            try:
                self._add(
                    prefix + name, parse_config(name, read_small(folder / name, _most_bytes(name)).data)
                )
            except FileNotFoundError:
                continue
            except OSError as error:
                self.skipped.append((prefix + name, reason_of(error)))
            except SettingError as error:
                self.skipped.append((prefix + name, str(error)))

    def _add(self, file: str, content: dict[str, Any]) -> None:
        self.files.append(file)
        known = {(each.name, repr(each.value)) for each in self.settings}
        is_run_json = file.rpartition("/")[2] == "run.json"
        for name, value, is_left_out in flat_settings(content):
            if is_run_json and name in OF_RECORDING:
                continue
            if is_left_out or len(self.settings) >= MAX_SETTINGS:
                self.left_out += 1
                continue
            text = json.dumps(value, default=str) if isinstance(value, list | tuple) else value
            hidden = is_secret(name, text)
            shown = None if hidden else shown_value(value)
            if holds_secret(name):
                name, shown, hidden = "(hidden name)", None, True
            if (name, repr(shown)) not in known:
                self.settings.append(ConfigSetting(name, shown, file, hidden))


def _most_bytes(name: str) -> int:
    return MAX_BYTES.get("." + name.rpartition(".")[2], 64 << 10)


def _parent(folder: Path, name: str) -> SafeFolder:
    """Open the folder of a file; links on the way from the run's folder are not followed."""
    return SafeFolder.open(folder / name.rpartition("/")[0])


def _found(folder: Path) -> Iterator[str]:
    """Yield the names of configuration files below a folder, each once."""
    seen: set[str] = set()
    for pattern in NAMES:
        for name in _matches(folder, pattern):
            if name not in seen and name.rpartition("/")[2] not in _OWN:
                seen.add(name)
                yield name


def _matches(folder: Path, pattern: str) -> list[str]:
    """Return the names of files that fit a pattern; of folders with a star, the newest is entered."""
    head, slash, rest = pattern.partition("/")
    if "*" not in head:
        if not slash:
            return [head] if stamp_of(folder / head) is not None else []
        return (
            [f"{head}/{name}" for name in _matches(folder / head, rest)] if _is_folder(folder / head) else []
        )
    fits = re.compile(re.escape(head).replace(r"\*", "[^/]*"))
    entries = _listed(folder, fits)
    if not slash:
        return sorted(name for name, is_folder, _ in entries if not is_folder)
    folders = sorted((time, name) for name, is_folder, time in entries if is_folder)
    for _, name in reversed(folders):
        if inside := _matches(folder / name, rest):
            return [f"{name}/{each}" for each in inside]
    return []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _listed(folder: Path, fits: re.Pattern[str]) -> list[tuple[str, bool, float]]:
    """Return name, kind and time of the first entries of a folder that fit; links are left out."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_ENTRIES:
                    break
                if fits.fullmatch(entry.name) and not entry.is_symlink():
                    found.append((entry.name, entry.is_dir(follow_symlinks=False), entry.stat().st_mtime))
    except OSError:
        return found
    return found
