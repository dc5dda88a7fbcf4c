"""What a person says about a run's files: ``rlpanel.toml`` beside them, or settings for all runs.

    tokenizer = "tokenizer.json"

    [map]
    prompt = "input"
    response = "output"

    [reward_weights]
    format = 0.5

The file nearest to the logs counts, from their folder up to the root that is shown; it goes before settings.
Weights are taken from the trainer's own ``run.json`` where it says nothing of them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.settings import Reading
from rlpanel.sources.adapters.mapped import Mapped, mapping, parse_mapping
from rlpanel.sources.discovery.run_json import RunJson
from rlpanel.sources.files import files
from rlpanel.sources.files.files import AnyPath, path_of
from rlpanel.sources.records.detokenize import DetokenizingAdapter, tokenizer
from rlpanel.sources.records.record_types import Adapter

NAME = "rlpanel.toml"
_KEYS = {"map", "tokenizer", "reward_weights"}
#: A run's rollouts may lie in a folder of their own, below its run.json.
_RUN_FILE_ABOVE = 1

Weights = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class FolderConfig:
    """What was said.

    Attributes
    ----------
    mapped : Mapped or None
        Asked before all other dialects.
    tokenizer : str
        Path of a ``tokenizer.json``; empty if none.
    problem : str
        Why the file is not followed; empty if it is, or there is none.
    weights : tuple of (str, float)
        Of reward functions, for logs without a total.
    """

    mapped: Mapped | None = None
    tokenizer: str = ""
    problem: str = ""
    weights: Weights = ()

    def apply_to(self, adapter: Adapter) -> Adapter:
        """The dialect with weights and a tokenizer, where they were given."""
        if self.weights and hasattr(adapter, "weighted"):
            adapter = adapter.weighted(self.weights)
        return DetokenizingAdapter(adapter, self.tokenizer) if self.tokenizer else adapter


def from_settings(reading: Reading) -> FolderConfig:
    """What the settings say of all runs.

    Raises
    ------
    SettingError
        If a mapping is not understood, or a tokenizer cannot be read.
    """
    path = str(Path(reading.tokenizer).resolve()) if reading.tokenizer else ""
    if path:
        tokenizer(path)
    return FolderConfig(parse_mapping(reading.map), path)


class FolderConfigs:
    """Looks up what was said for a folder; files are read again when they changed.

    Parameters
    ----------
    root : path
        Folders above it are not looked into.
    settings : FolderConfig
    """

    def __init__(self, root: AnyPath, settings: FolderConfig) -> None:
        self._root, self._settings = root, settings
        self._known: dict[str, tuple[tuple[int, int], FolderConfig]] = {}
        self._run_files: dict[AnyPath, RunJson] = {}

    def of(self, folder: str | os.PathLike[str]) -> FolderConfig:
        """What was said for the files of a folder."""
        near = self._near(path_of(folder))
        found = next((said for place in near if (said := self._in(str(place / NAME)))), self._settings)
        if found.weights:
            return found
        return replace(found, weights=self._weights(near[: _RUN_FILE_ABOVE + 1]))

    def _near(self, folder: AnyPath) -> list[AnyPath]:
        """The folder and those above it, up to the root."""
        places = [folder, *folder.parents]
        return places[: places.index(self._root) + 1] if self._root in places else [folder]

    def _weights(self, near: list[AnyPath]) -> Weights:
        """What the trainer wrote down."""
        for place in near:
            file = self._run_files.setdefault(place, RunJson(place))
            file.changed()
            found = file.content.get("reward_weights")
            if isinstance(found, dict):
                return tuple((name, float(w)) for name, w in found.items() if isinstance(w, (int, float)))
        return ()

    def _in(self, path: str) -> FolderConfig | None:
        try:
            status = files.stat(path)
        except OSError:
            return None
        stamp = status.st_mtime_ns, status.st_size
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = stamp, _read(path_of(path), self._settings)
        return known[1]


def _read(path: AnyPath, settings: FolderConfig) -> FolderConfig:
    """The settings with what a file says in their place."""
    try:
        told = tomllib.loads(path.read_text("utf-8"))
        return _with(told, path.parent, settings)
    except (OSError, ValueError) as error:  # SettingError and TOMLDecodeError are ValueErrors
        return replace(settings, problem=f"{NAME} is not followed: {error}")


def _with(told: Mapping[str, Any], folder: AnyPath, settings: FolderConfig) -> FolderConfig:
    odd = sorted(told.keys() - _KEYS)
    if odd:
        raise SettingError(f"{odd[0]!r} means nothing; it may hold {', '.join(sorted(_KEYS))}")
    found = settings
    if "reward_weights" in told:
        found = replace(found, weights=_as_weights(told["reward_weights"]))
    if "map" in told:
        if not isinstance(told["map"], dict):
            raise SettingError('[map] holds lines such as prompt = "input"')
        found = replace(found, mapped=mapping(told["map"]))
    if "tokenizer" in told:
        if not isinstance(told["tokenizer"], str):
            raise SettingError("tokenizer is the path of a tokenizer.json")
        path = str((folder / told["tokenizer"]).resolve())
        tokenizer(path)
        found = replace(found, tokenizer=path)
    return found


def _as_weights(told: Any) -> Weights:
    if not isinstance(told, dict) or not all(isinstance(weight, (int, float)) for weight in told.values()):
        raise SettingError("[reward_weights] holds lines such as format = 0.5")
    return tuple((name, float(weight)) for name, weight in told.items())
