"""Reads the first records of a folder's files, and proposes a mapping for them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rlpanel import schema
from rlpanel.errors import LineError, SourceDamaged, SourceUnready
from rlpanel.sources.adapters.key_mapping import create_mapping
from rlpanel.sources.discovery.file_names import (
    is_checkpoint_folder,
    is_rollout_name,
    relative_name,
    without_compressed_copies,
)
from rlpanel.sources.discovery.folder_walk import FolderWalk, is_file
from rlpanel.sources.discovery.format_detection import sniff
from rlpanel.sources.files.file_access import AnyPath, Entry, reason_of
from rlpanel.sources.inference.infer import infer
from rlpanel.sources.inference.inference import Guess, Inference, inference_of
from rlpanel.sources.mapping.mapping_text import MAX_KEY, Keys, TreeLine, tree_lines
from rlpanel.sources.readers.containers import first_lines
from rlpanel.sources.records.adapter_calls import read_samples
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.record_types import MAX_SAMPLES, Record

# -- first records -------------------------------------------------------------------------------------
# Finds the files of a folder that a mapping could read, and reads the first records of one of them.
#
# Everything is bounded: a folder may hold any number of files, and a file any number of bytes.


#: Most folders that are searched, and most files that are listed.
_MAX_FOLDERS, MAX_FILES = 1000, 60
#: Samples of a preview.
PREVIEWED = 3


@dataclass(frozen=True)
class FoundFile:
    """A file that a mapping could read: its path, its name below the folder, and its size in bytes."""

    path: str
    name: str
    size: int

    @property
    def is_document(self) -> bool:
        """True for a file of which many kinds exist, such as a JSON document: it may be a configuration."""
        return not is_rollout_name(os.path.basename(self.path))


@dataclass(frozen=True)
class FirstRecords:
    """The first records of a file.

    Attributes
    ----------
    file : FoundFile
    lines : tuple of bytes
        The lines that hold records.
    records : tuple of dict
        What each line holds.
    problem : str
        Reason why there are none; empty if there are.
    """

    file: FoundFile
    lines: tuple[bytes, ...] = ()
    records: tuple[dict[str, Any], ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Preview:
    """The first samples as a mapping reads them, and why there are none, or what of them is left out."""

    samples: tuple[Record, ...] = ()
    problem: str = ""


def find_files(folder: AnyPath) -> list[FoundFile]:
    """Return the files below a folder that may hold records; JSON documents come last."""
    found = []
    for listed in islice(FolderWalk(str(folder), follow=False).folders([]), _MAX_FOLDERS):
        documents = not is_checkpoint_folder(listed.entries)
        found += [
            FoundFile(entry.path, relative_name(entry.path, str(folder)), _size(entry))
            for entry in without_compressed_copies(listed.entries)
            if is_rollout_name(entry.name, any_document=documents)
            and not entry.is_symlink()
            and is_file(entry)
        ]
    return sorted(found, key=lambda file: (file.is_document, file.name.count("/"), file.name))[:MAX_FILES]


def _size(entry: Entry) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def read_first(file: FoundFile) -> FirstRecords:
    """Read the first records of a file; lines that are not JSON objects are left out."""
    try:
        lines, _ = first_lines(file.path)
    except (LineError, SourceDamaged, SourceUnready) as error:
        return FirstRecords(file, problem=str(error))
    except OSError as error:
        return FirstRecords(file, problem=reason_of(error))
    good, records, problem = [], [], ""
    for line in lines:
        try:
            records.append({key: to_python(value) for key, value in parse(line, MAX_SAMPLES).items()})
            good.append(line)
        except LineError as error:
            problem = problem or f"its first line is {error}"
    if records:
        return FirstRecords(file, tuple(good), tuple(records))
    return FirstRecords(file, problem=problem or "no complete line yet")


def known_format(file: FoundFile) -> str:
    """Return the name of the format whose adapter reads a file without a mapping; empty if none does."""
    try:
        adapter = sniff(file.path, os.path.basename(file.path)).adapter
    except (OSError, LineError, SourceDamaged, SourceUnready):
        return ""
    return "" if adapter is None or inference_of(adapter) is not None else adapter.name


def preview(first: FirstRecords, keys: Keys) -> Preview:
    """Read the first samples of a file through a mapping, exactly as opening it does.

    Raises
    ------
    SettingError
        If the mapping is not valid.
    """
    adapter = create_mapping(keys)
    samples: list[Record] = []
    problem = ""
    for line in first.lines:
        if len(samples) >= PREVIEWED:
            break
        try:
            if not adapter.accepts(first.file.path, document := parse(line, MAX_SAMPLES)):
                problem = problem or _lacking(keys)
                continue
            samples += read_samples(adapter, document, first.file.path, full=True)
        except LineError as error:
            problem = problem or str(error)
    return Preview(tuple(samples[:PREVIEWED]), problem)


def _lacking(keys: Keys) -> str:
    if not keys.keys() & {"prompt", "response", "messages"}:
        return "neither a prompt nor a response nor messages"
    return "no step: neither in the record nor in the file's name" if "step" not in keys else "not all keys"


# -- proposal ------------------------------------------------------------------------------------------
# Proposes a mapping for the first records of a file, with the keys that each field could have.


#: Fields that are always asked for; others only where the inference found them.
ASKED = ("prompt", "response", "messages", "reward", "ground_truth", "step", "group")
#: Further fields that can be added: every name that a mapping takes.
MORE = tuple(
    name for name in (*schema.BY_NAME, "rewards", "prompt_token_ids") if name not in (*ASKED, "rank")
)
TEXTS = frozenset({"prompt", "response", "messages"})
#: From this confidence on a guess is sure, and from this one on likely.
SURE, LIKELY = 0.85, 0.6
#: Most files whose first records are read, and most bytes of documents, which are read whole.
_TRIED, _TRIED_BYTES = 20, 64 << 20


@dataclass(frozen=True)
class Proposal:
    """Proposal of the inference for a file.

    Attributes
    ----------
    first : FirstRecords
    inference : Inference
    tree : tuple of TreeLine
        The first record.
    """

    first: FirstRecords
    inference: Inference
    tree: tuple[TreeLine, ...]

    @property
    def keys(self) -> dict[str, str | int]:
        """The proposed mapping; the step is a number if neither the records nor the path name one."""
        keys: dict[str, str | int] = {
            name: key for name, key in self.inference.keys.items() if len(key) <= MAX_KEY
        }
        step = self.inference.step if "step" in self.inference.missing else None
        return keys if step is None else keys | {"step": step}

    @property
    def is_likely(self) -> bool:
        """True if the records look like samples: there is a text that may be a policy's."""
        return bool(self.keys.keys() & {"response", "messages"})

    @property
    def holds_samples(self) -> bool:
        """True unless it is a single record that looks like something else altogether."""
        return self.is_likely or len(self.first.records) > 1

    def guess(self, name: str) -> Guess | None:
        """Return the guess of a field; None if there is none."""
        return next((guess for guess in self.inference.guesses if guess.meaning == name), None)

    def likely_keys(self, name: str) -> list[str]:
        """Return the keys that a field may have, the likeliest first."""
        guess = self.guess(name)
        keys = [] if guess is None else [guess.key, *(key for key, _ in guess.others)]
        return [key for key in keys if len(key) <= MAX_KEY]

    def names(self, keys: Iterable[str]) -> list[str]:
        """Return the fields that are asked for, with those that a mapping has."""
        extra = [name for name in keys if name not in ASKED]
        return [*ASKED, *extra]


def propose(first: FirstRecords) -> Proposal:
    """Infer a mapping from the first records of a file."""
    tree = tuple(tree_lines(first.records[0])) if first.records else ()
    return Proposal(first, infer(first.records, first.file.path), tree)


def propose_for_folder(folder: AnyPath) -> tuple[list[FoundFile], Proposal | None]:
    """Return the files of a folder, and the proposal for the first one whose records look like samples.

    If none does, it is the first file with records; None if no file has any. A JSON document of one record
    that does not look like a sample may be a configuration, with a password in it: it is left out.
    """
    listed: list[FoundFile] = []
    best, left = None, _TRIED_BYTES
    for at, file in enumerate(find_files(folder)):
        found = best is not None and best.is_likely
        if at >= _TRIED or (file.size > left if file.is_document else found):
            listed += [] if file.is_document else [file]
            continue
        left -= file.size if file.is_document else 0
        proposal = propose(read_first(file))
        if file.is_document and not proposal.holds_samples:
            continue
        listed.append(file)
        if proposal.first.records and (best is None or (proposal.is_likely and not found)):
            best = proposal
    return listed, best
