"""Runs whose files lie in folders of their own: a folder a step, a folder a version of the policy.

An adapter with such files has ``path_in_run``, a pattern for the end of their path. What it matches is
the path below the run's folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from rlpanel.sources.adapters.prime_rl import STEP, PrimeRL, superseded
from rlpanel.sources.adapters.prime_rl_tokens import PrimeTokens, joined
from rlpanel.sources.files.files import AnyPath, Entry, path_of, scan
from rlpanel.sources.records.record_types import Adapter

#: Folders that may be a part of the run in which they lie.
_PARTS = re.compile(r"\d+|step_\d+|rollouts|token_exports|train|eval|all|effective")
_DEEPEST = 4

Place = tuple[str, list[Entry]]


def run_folder(path: str, adapter: Adapter, root: str) -> str:
    """The folder of the run that a file belongs to, not above the root."""
    folder = path_of(path).parent
    pattern = getattr(adapter, "path_in_run", None)
    matched = pattern.search(path) if pattern is not None else None
    for _ in range(matched.group().count("/") if matched else 0):
        if str(folder) == root:
            break
        folder = folder.parent
    return str(folder)


def below(
    folder: str, entries: list[Entry], refuse: Callable[[str, OSError], None], depth: int = _DEEPEST
) -> Iterator[Place]:
    """The folder itself and those that may be its parts, with their entries.

    ``refuse`` is told of a part that cannot be listed.
    """
    yield folder, entries
    for entry in entries if depth else ():
        if _PARTS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            try:
                inside = scan(entry.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                refuse(entry.path, error)
                continue
            yield from below(entry.path, inside, refuse, depth - 1)


def arrange(folder: AnyPath, found: Mapping[str, Adapter]) -> dict[str, Adapter]:
    """A run's files that count, by name; those of prime-rl are joined with one another."""
    kept = {name: found[name] for name in found.keys() - superseded(set(found))}
    traces = {name for name, adapter in kept.items() if isinstance(adapter, PrimeRL)}
    exports = {name: _step(name) for name, adapter in kept.items() if isinstance(adapter, PrimeTokens)}
    folders = {step: folder / PurePosixPath(name).parent for name, step in exports.items()}
    told = {_step(name) for name in traces if "/train/" in f"/{name}"}
    arranged = {name: adapter for name, adapter in kept.items() if exports.get(name) not in told}
    for name in traces & arranged.keys():
        if "/train/" in f"/{name}" and _step(name) in folders:
            arranged[name] = joined(folders[_step(name)])
    return arranged


def _step(name: str) -> int:
    matched = STEP.search(name)
    return int(matched[1]) if matched else -1
