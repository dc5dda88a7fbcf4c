"""Configuration for a run's files: from the ``rlpanel.toml`` next to them, or from settings for all runs.

    tokenizer = "tokenizer.json"
    step = 0

    [map]
    prompt = "input"
    response = "output"

    [reward_weights]
    format = 0.5

The ``rlpanel.toml`` nearest to the logs is used, searching upwards from their folder to the shown root. It
overrides the settings. If it has no reward weights, those of the trainer's ``run.json`` are used. If the
shown root is the run itself, its parent counts as well: a run has one reward wherever it is opened.

Reads ``run.json``, the recorder's description of the training, next to the rollouts.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rlpanel.errors import RemoteError, SettingError, describe_error
from rlpanel.settings import Reading
from rlpanel.sources.adapters.key_mapping import MappedAdapter, create_mapping, parse_mapping
from rlpanel.sources.discovery.folder_walk import is_below, is_trusted_above, named_target
from rlpanel.sources.files.file_access import (
    AnyPath,
    Stamp,
    Unread,
    is_remote,
    path_of,
    read_small,
    reason_of,
    stamp_of,
    too_many_open,
)
from rlpanel.sources.records.adapter_calls import with_default_step
from rlpanel.sources.records.detokenize import DetokenizingAdapter, load_tokenizer
from rlpanel.sources.records.field_values import STEP_LIMIT
from rlpanel.sources.records.record_types import Adapter

RUN_JSON = "run.json"
#: Larger files are not a run.json and are ignored.
_MAX_RUN_JSON_BYTES = 1 << 20


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
        self._path = folder / RUN_JSON
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
            data = b"{}" if stamp is None else read_small(self._path, _MAX_RUN_JSON_BYTES).data
            self.content, self.problem = _parse(data)
            self._stamp, self.unread = stamp, None
        except OSError as error:
            if isinstance(error, RemoteError) or too_many_open(error):
                return False  # says nothing about the file: keep what was read
            self._stamp, self.content, self.problem = (), {}, ""  # try again, even if nothing changes
            gone = isinstance(error, FileNotFoundError)
            self.unread = None if gone else Unread(RUN_JSON, reason_of(error))
        return self.content != before


def _parse(text: bytes) -> tuple[dict[str, Any], str]:
    """Return the JSON object of a text, or else the reason why it is ignored."""
    try:
        content = json.loads(text)
    except MemoryError:
        raise
    except Exception as error:  # it may be incomplete, nested too deeply or hold numbers that are too long
        return {}, f"{RUN_JSON} is ignored: {describe_error(error)}"
    return (content, "") if isinstance(content, dict) else ({}, f"{RUN_JSON} is ignored: not a JSON object")


NAME = "rlpanel.toml"
_KEYS = {"map", "tokenizer", "reward_weights", "step"}
#: Larger files are not configurations and are ignored.
_MAX_BYTES = 64 << 10
#: Levels above the rollouts at which run.json is searched: rollouts may be in a subfolder of the run.
_RUN_JSON_LEVELS = 1
#: Weights below this bound are finite as floats. Maximum length of a reason, which may quote the file.
_MAX_WEIGHT, _REASON = 1e300, 300

Weights = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class FolderConfig:
    """Configuration of the files in one folder.

    Attributes
    ----------
    mapped : MappedAdapter or None
        Adapter for a user's key mapping; it is tried before all other adapters.
    tokenizer : str
        Path of a ``tokenizer.json``; empty if not configured.
    problem : str
        What is ignored of the folder's ``rlpanel.toml`` and ``run.json``, and why, or what ``run.json`` says
        was not recorded; empty if nothing is.
    weights : tuple of (str, float)
        Weights of reward functions, for logs that contain no total reward.
    unread : tuple of Unread
        Files of the configuration that exist but are ignored.
    step : int or None
        Step of files that give none.
    """

    mapped: MappedAdapter | None = None
    tokenizer: str = ""
    problem: str = ""
    weights: Weights = ()
    unread: tuple[Unread, ...] = ()
    step: int | None = None

    @property
    def at_step(self) -> MappedAdapter | None:
        """Adapter for a file that no other reads since it gives no step; None without a step for it."""
        return None if self.step is None else replace(self.mapped or MappedAdapter(()), step=self.step)

    def apply_to(self, adapter: Adapter) -> Adapter:
        """Return the adapter extended by the configured weights, step and tokenizer."""
        adapter = with_default_step(adapter, self.step)
        if self.weights and hasattr(adapter, "weighted"):
            adapter = adapter.weighted(self.weights)
        return DetokenizingAdapter(adapter, self.tokenizer) if self.tokenizer else adapter


def from_settings(reading: Reading) -> FolderConfig:
    """Return the configuration that the settings give for all runs.

    Raises
    ------
    SettingError
        If a mapping is invalid or a tokenizer cannot be read.
    """
    path = str(Path(reading.tokenizer).resolve()) if reading.tokenizer else ""
    if path:
        load_tokenizer(path)
    return FolderConfig(parse_mapping(reading.map), path, step=reading.step)


class FolderConfigs:
    """Looks up the configuration of a folder; files are read again after they changed.

    Parameters
    ----------
    root : path
        Highest folder that is searched for a file, except for the parent of a run that is the root itself.
    settings : FolderConfig
    opened_with : mapping of str to mapping, optional
        Folder → mapping that a form opened it with, which comes before those of files and settings.
    """

    def __init__(
        self,
        root: AnyPath,
        settings: FolderConfig,
        opened_with: Mapping[str, Mapping[str, str | int]] | None = None,
    ) -> None:
        self._root, self._settings = root, settings
        self._opened_with = {} if opened_with is None else opened_with
        self._cache: dict[str, tuple[Stamp, FolderConfig]] = {}
        self._run_files: dict[AnyPath, RunJson] = {}

    def for_folder(self, folder: str | os.PathLike[str], run: str | os.PathLike[str] = "") -> FolderConfig:
        """Return the configuration for the files of a folder; OSError if too many files are open.

        Parameters
        ----------
        folder : path
        run : path, optional
            Folder of the run that the files belong to; the folder itself by default.
        """
        folders = self._upwards(path_of(folder))
        bound = str(folders[-1])
        # A remote one would cost a request at each look.
        if path_of(run or folder) == self._root and not is_remote(self._root):
            folders.append(self._root.parent)
        configs = (self._load(parent / NAME, bound) for parent in folders)
        config = next((loaded for loaded in configs if loaded), self._settings)
        opened = next((keys for each in folders if (keys := self._opened_with.get(str(each)))), None)
        if opened is not None:
            config = replace(config, mapped=create_mapping(opened))
        weights, problem, unread = self._trainer_weights(folders[: _RUN_JSON_LEVELS + 1])
        problems = "; ".join(filter(None, (config.problem, problem)))
        return replace(
            config, weights=config.weights or weights, problem=problems, unread=config.unread + unread
        )

    def _is_trusted(self, path: AnyPath) -> bool:
        """Return True if a file may be read: it is below the root, or its owner could write there anyway."""
        return path.parent != self._root.parent or is_trusted_above(path, self._root)

    def _upwards(self, folder: AnyPath) -> list[AnyPath]:
        """Return the folder and its parents, up to the root."""
        folders = [folder, *folder.parents]
        return folders[: folders.index(self._root) + 1] if self._root in folders else [folder]

    def _trainer_weights(self, folders: list[AnyPath]) -> tuple[Weights, str, tuple[Unread, ...]]:
        """Return the weights in the first ``run.json`` that has some, what is ignored, and files not read."""
        problem, unread = "", list[Unread]()
        for folder in folders:
            if not self._is_trusted(folder / RUN_JSON):
                unread.append(_foreign(RUN_JSON))
                continue
            file = self._run_files.setdefault(folder, RunJson(folder))
            file.refresh()
            problem = problem or file.problem or _not_recorded(file.content)
            unread += [file.unread] if file.unread else []
            weights = file.content.get("reward_weights")
            if isinstance(weights, dict):
                usable = {name: weight for name, weight in weights.items() if _is_number(weight)}
                wrong = next((name for name in weights if name not in usable), "")
                if wrong:
                    problem = f"{RUN_JSON}: the weight of {wrong[:40]!r} is not a finite number; ignored"
                return tuple((name, float(weight)) for name, weight in usable.items()), problem, tuple(unread)
        return (), problem, tuple(unread)

    def _load(self, path: AnyPath, bound: str) -> FolderConfig | None:
        stamp = stamp_of(path)
        if stamp is None:
            return None
        if not self._is_trusted(path):
            return replace(self._settings, unread=(_foreign(NAME),))
        cached = self._cache.get(str(path))
        if cached is None or cached[0] != stamp:
            cached = self._cache[str(path)] = stamp, _read(path, bound, self._settings)
        return cached[1]


def _foreign(name: str) -> Unread:
    return Unread(f"../{name}", "belongs to another user, and is outside of the shown folder")


def _not_recorded(facts: Mapping[str, Any]) -> str:
    """Return what the recorder could not record of its trainer; empty if it says nothing."""
    lacking = facts.get("not_recorded")
    return f"{RUN_JSON}: not recorded: {lacking[:_REASON]}" if lacking and isinstance(lacking, str) else ""


def _read(path: AnyPath, bound: str, settings: FolderConfig) -> FolderConfig:
    """Return the settings, overridden by a file's content."""
    try:
        file = read_small(path, _MAX_BYTES)
        content = tomllib.loads(file.data.decode("utf-8"))
        return _override(settings, content, partial(_tokenizer_path, str(path.parent), bound, own=file.own))
    except OSError as error:
        if too_many_open(error):
            raise
        return replace(settings, unread=(Unread(NAME, reason_of(error)),))
    except ValueError as error:  # SettingError and TOMLDecodeError are ValueErrors
        return replace(settings, problem=f"{NAME} is ignored: {str(error)[:_REASON]}")
    except MemoryError:
        raise
    except Exception as error:  # such as RecursionError for deeply nested lists
        return replace(settings, problem=f"{NAME} is ignored: {describe_error(error)}")


def _tokenizer_path(folder: str, bound: str, name: str, *, own: bool) -> str:
    """Return the real path of the tokenizer that a file in ``folder`` names.

    Whoever writes that file must not learn which other files the board's user can read. Only a file of that
    user (``own``) may therefore name a path outside of ``bound``, or one that leads through a link.

    Raises
    ------
    SettingError
        If the path is not allowed.
    """
    if is_remote(folder):
        raise SettingError("a tokenizer on another machine is not read; name a local one with --tokenizer")
    path = os.path.join(folder, name)
    if not own:
        path = os.path.normpath(path)
        if not is_below(path, bound):
            raise SettingError(
                f"it names a tokenizer outside of {bound}, but another user can write it; "
                "use --tokenizer instead"
            )
        return path
    try:
        return named_target(path)
    except FileNotFoundError:
        return path
    except OSError as error:
        raise SettingError(f"the tokenizer {name!r} {reason_of(error)}") from error


def _override(
    settings: FolderConfig, content: Mapping[str, Any], tokenizer_path: Callable[[str], str]
) -> FolderConfig:
    unknown = sorted(content.keys() - _KEYS)
    if unknown:
        raise SettingError(f"unknown key {unknown[0]!r}; the keys are {', '.join(sorted(_KEYS))}")
    config = settings
    if "reward_weights" in content:
        config = replace(config, weights=_as_weights(content["reward_weights"]))
    if "map" in content:
        if not isinstance(content["map"], dict):
            raise SettingError('[map] must hold lines such as prompt = "input"')
        config = replace(config, mapped=create_mapping(content["map"]))
    if "step" in content:
        if type(content["step"]) is not int or abs(content["step"]) >= STEP_LIMIT:
            raise SettingError("step must be an integer, as in step = 0")
        config = replace(config, step=content["step"])
    if "tokenizer" in content:
        if not isinstance(content["tokenizer"], str):
            raise SettingError("tokenizer must be the path of a tokenizer.json")
        path = tokenizer_path(content["tokenizer"])
        load_tokenizer(path)
        config = replace(config, tokenizer=path)
    return config


def _as_weights(table: Any) -> Weights:
    if not isinstance(table, dict) or not all(map(_is_number, table.values())):
        raise SettingError("[reward_weights] must hold lines such as format = 0.5")
    return tuple((name, float(weight)) for name, weight in table.items())


def _is_number(value: Any) -> bool:
    """Return True for a finite number; integers may have any number of digits."""
    return isinstance(value, (int, float)) and abs(value) < _MAX_WEIGHT
