"""Folders of one step, policy version or sample each, and the files of the runs that write them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath

from rlpanel.sources.adapters.atif import Atif
from rlpanel.sources.adapters.harbor import holds_trial, join_result, repeated_results
from rlpanel.sources.adapters.miles import repeated_columns
from rlpanel.sources.adapters.openpipe_art import OpenPipeArt
from rlpanel.sources.adapters.skyrl import SkyRL, join_steps
from rlpanel.sources.discovery.file_names import is_searchable_name, names_evaluation
from rlpanel.sources.files.decompress import SUFFIXES
from rlpanel.sources.files.file_access import AnyPath, Entry, is_remote, path_of, scan
from rlpanel.sources.inference.aliases import names_model
from rlpanel.sources.prime.prime_rl import PlacedTraces, PrimeRL, place_above, superseded
from rlpanel.sources.prime.prime_rl_stream import discarded, follow_annotations
from rlpanel.sources.prime.prime_rl_tokens import PrimeTokens, join_exports
from rlpanel.sources.readers.containers import DOCUMENT_SUFFIXES
from rlpanel.sources.records.path_numbers import folder_step, names_part
from rlpanel.sources.records.record_types import Adapter
from rlpanel.sources.trajectories.coding_agents import judged, repeated_predictions

# -- task folders --------------------------------------------------------------------------------------
# Recognises folders of one sample each: ``task_3/trajectory.json`` beside ``task_17/trajectory.json``.
#
# Their names differ only in a number or an id, and each holds one document. They are one run together.


#: A name that ends with a number after a word, and an id. An id of digits alone may be a step.
_NUMBERED = re.compile(r"(.*[A-Za-z][_-]?)\d{1,9}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*\d)(?=.*[a-f])[0-9a-f]{12,64}")
#: Words that name runs, not tasks: ``seed_1`` and ``seed_2`` stay two runs.
_RUNS = re.compile(
    r"(?:^|[_-])(?:runs?|exp|experiments?|seeds?|models?|versions?|v|jobs?)[_-]?$", re.IGNORECASE
)
#: Siblings that are looked at, and documents of a task: one is its sample, others may be its settings.
_MAX_SIBLINGS, _MAX_DOCUMENTS = 8, 4
#: Ends of the names of files that hold many samples.
_LOGS = (".jsonl", ".ndjson", ".parquet", ".arrow", ".csv", ".jsonl.gz", ".jsonl.zst")


def shared_name(folder: str) -> str:
    """Return the part of a folder's name that its siblings share; empty if the name counts no samples."""
    if _ID.fullmatch(folder):
        return "*"
    match = _NUMBERED.fullmatch(folder)
    if match is None or names_part(folder) or _RUNS.search(match[1]) or names_model(folder):
        return ""
    return match[1]


def may_be_task(folder: str) -> bool:
    """Return True for a folder with a task's name that holds some documents and no log."""
    return bool(shared_name(os.path.basename(folder))) and not is_remote(folder) and bool(_documents(folder))


def is_task(file: str, root: str) -> bool:
    """Return True if a document is one sample of the run that its folder's parent is."""
    folder, name = os.path.split(file)
    if is_remote(file) or folder == root or not may_be_task(folder):
        return False
    parent, own = os.path.split(folder)
    try:
        siblings = _siblings(parent, os.stat(parent).st_mtime_ns).get(shared_name(own), ())
    except OSError:
        return False
    beside = [each for each in siblings if each != own][:_MAX_SIBLINGS]
    return any(name in _documents(os.path.join(parent, each)) for each in beside)


def _documents(folder: str) -> list[str]:
    """Return the names of a folder's documents; none if it holds a log as well, or many documents."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []
    found = [name for name in names if name.endswith(DOCUMENT_SUFFIXES)]
    has_log = any(name.endswith(_LOGS) for name in names)
    return [] if has_log or len(found) > _MAX_DOCUMENTS else found


@lru_cache(maxsize=64)
def _siblings(parent: str, changed: int) -> dict[str, list[str]]:
    """Return the folders below a parent by the part of their names that they share."""
    found: dict[str, list[str]] = {}
    with os.scandir(parent) as entries:
        for entry in entries:
            if (shared := shared_name(entry.name)) and entry.is_dir(follow_symlinks=False):
                found.setdefault(shared, []).append(entry.name)
    return found


# -- step folders --------------------------------------------------------------------------------------
# Finds the files of runs that write one subfolder per step or per policy version.
#
# The adapter of a trainer's files has ``path_in_run``, a pattern that matches the end of their path: the part
# below the run's folder. Other files belong to the folder above all those that are named after a step or a
# rank (``step_1/rank_0``). Such a folder may hold one folder per split.


#: Names of subfolders that may be part of the run that contains them.
_PARTS = re.compile(
    r"\d+|step_\d+|rollouts|token_exports|train|eval|all|effective"  # AReaL, prime-rl, NeMo Gym
    r"|monitors|file|traces|stream"  # prime-rl
    r"|episodes|[a-z]+_step_\d+_epoch_\d+"  # rLLM
    r"|dumped_evals|global_step_\d+_evals|eval_only"  # SkyRL
    r"|iteration_\d+"  # tinker-cookbook
    r"|trajectory|dashboard_columns"  # miles
    r"|trajectories"  # ART
    r"|agent|steps|metadata"  # Harbor
    r"|simulations"  # tau2-bench
    r"|live|non_live|multi_turn|agentic|memory|format_sensitivity"  # BFCL
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|subagents"  # Claude Code
)
#: Name of a folder all of whose subfolders are parts: ART names them after the user's splits.
_WHOLE = "trajectories"
_MAX_DEPTH = 5
_TRAIN = frozenset({"train", "training"})

Place = tuple[str, list[Entry]]


def run_folder(path: str, adapter: Adapter, root: str) -> str:
    """Return the folder of the run that a file belongs to; never a folder above the root."""
    pattern = getattr(adapter, "path_in_run", None)
    if pattern is None:
        return run_of(os.path.dirname(path), root)
    folder = path_of(path).parent
    match = pattern.search(_plain_name(path))
    for _ in range(match.group().count("/") if match else 0):
        if str(folder) == root:
            break
        folder = folder.parent
    return _above_parts(folder, root) if getattr(adapter, "lacks_steps", False) else str(folder)


def _above_parts(folder: AnyPath, root: str) -> str:
    """Return the run's folder: the first above folders of a step, a rank or a split."""
    is_split = _names_split(folder.name) and names_part(folder.parent.name)
    if is_split and root not in (str(folder), str(folder.parent)):
        folder = folder.parent
    for _ in range(_MAX_DEPTH):
        if str(folder) == root or not names_part(folder.name):
            break
        folder = folder.parent
    return str(folder)


@lru_cache(maxsize=4096)  # a folder may hold thousands of files, and is listed every few seconds
def run_of(folder: str, root: str) -> str:
    """Return the folder of the run that a folder belongs to: the first above those of steps and ranks."""
    return _above_parts(path_of(folder), root)


def place_in_run(path: str, root: str) -> str:
    """Return a file's path below the run that it belongs to if no trainer's format says otherwise."""
    return path[len(run_of(os.path.dirname(path), root).rstrip("/")) + 1 :]


def evaluation_in(name: str, adapter: Adapter) -> str:
    """Return the part of a file's name below its run that says that it holds evaluations; empty if none does.

    Names of files count in folders of steps and ranks only: there, they stand beside those of training.
    """
    *folders, file = name.split("/")
    if not folders or getattr(adapter, "path_in_run", None) is not None:
        return ""
    return next(filter(names_evaluation, (*folders, file.partition(".")[0])), "")


def _names_split(name: str) -> bool:
    return name in _TRAIN or names_evaluation(name)


def candidate_folders(
    folder: str, entries: list[Entry], refuse: Callable[[str, OSError], None], depth: int = _MAX_DEPTH
) -> Iterator[Place]:
    """Yield the folder itself and the subfolders that may be part of its run, with their entries.

    ``refuse`` is called with each subfolder that cannot be listed, and the error.
    """
    yield folder, entries
    name = path_of(folder).name
    for entry in entries if depth else ():
        if entry.is_dir(follow_symlinks=False) and (name == _WHOLE or _is_part(entry, name)):
            try:
                children = scan(entry.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                refuse(entry.path, error)
                continue
            yield from candidate_folders(entry.path, children, refuse, depth - 1)


def _is_part(entry: Entry, above: str) -> bool:
    """Return True if a subfolder may be part of the run; a trial is recognised by what it holds.

    ``above`` is the name of the folder that contains it.
    """
    if _PARTS.fullmatch(entry.name) or names_part(entry.name):
        return True
    if names_part(above) and _names_split(entry.name):
        return True
    return is_searchable_name(entry.name) and (holds_trial(entry.path) or may_be_task(entry.path))


def select_files(folder: AnyPath, found: Mapping[str, Adapter]) -> dict[str, Adapter]:
    """Return a run's files to read, by name; of prime-rl's, some are read together with another file."""
    trajectories = {name for name, adapter in found.items() if isinstance(adapter, Atif)}
    finals = superseded(set(found))
    repeated = repeated_columns(set(found)) | repeated_results(set(found), trajectories)
    repeated |= repeated_predictions(found)
    all_traces = {name for name, adapter in found.items() if isinstance(adapter, PrimeRL)}
    current = {name: adapter for name, adapter in found.items() if name not in finals.keys() | repeated}
    traces = {name for name, adapter in current.items() if isinstance(adapter, PrimeRL)}
    exports = {
        name: folder_step(name) for name, adapter in current.items() if isinstance(adapter, PrimeTokens)
    }
    folders = {step: folder / PurePosixPath(name).parent for name, step in exports.items()}
    joined_steps = {folder_step(name) for name in traces if "/train/" in f"/{name}"}
    arranged = {
        name: adapter
        for name, adapter in current.items()
        if name not in exports or exports[name] not in joined_steps
    }
    for name in traces & arranged.keys():
        if "/train/" in f"/{name}" and folder_step(name) in folders:
            arranged[name] = join_exports(folders[folder_step(name)])
        elif (followed := follow_annotations(folder, name)) is not None:
            arranged[name] = followed
    arranged |= {
        name: adapter.of_file(str(folder / name))
        for name, adapter in arranged.items()
        if isinstance(adapter, OpenPipeArt)
    }
    for name in [name for name, adapter in arranged.items() if isinstance(adapter, SkyRL)]:
        arranged[name] = join_steps(folder / name)
    arranged |= {name: join_result(folder, name) for name in trajectories}
    arranged |= judged(path_of(folder), arranged)
    arranged |= {name: discarded(folder, final) for name, final in finals.items()}
    if above := place_above(str(folder)):
        arranged |= {name: PlacedTraces(arranged[name], above) for name in arranged.keys() & all_traces}
    return arranged


def _plain_name(path: str) -> str:
    """Return a path without the suffix of compression: a compressed file belongs to the same run."""
    return path.rpartition(".")[0] if path.endswith(SUFFIXES) else path
