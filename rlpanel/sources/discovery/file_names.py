"""Rules for the names of files and folders: which may hold rollouts, how one is shown, which split it names.

Some trainers write evaluations to a folder of their own, and nothing in the lines says so: verl's
``validation_data_dir``, AReaL's ``eval-rollout``. Samples that name no split get it from their folder.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rlpanel.sources.adapters import ADAPTERS
from rlpanel.sources.files.decompress import SUFFIXES
from rlpanel.sources.files.file_access import Entry
from rlpanel.sources.readers.containers import ARROW, CELLS, DOCUMENT, container_of, plain_name
from rlpanel.sources.records.adapter_calls import WrappedAdapter
from rlpanel.sources.records.record_types import Adapter, FlatFormat, Record, flat_format, shares_evaluation

#: Folder of a run's index. Like other folders whose name begins with a dot it is skipped.
OWN_FOLDER = ".rlpanel"
#: Hidden folders in which a trainer writes its runs: OpenPipe ART's.
_RUN_FOLDERS = frozenset({".art"})
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
#: Adapters of JSON documents, each with the pattern of its files' names.
_DOCUMENTS = [(adapter, adapter.document_name) for adapter in ADAPTERS if hasattr(adapter, "document_name")]
#: Containers that programs of all kinds write.
_COMMON = (DOCUMENT, CELLS, ARROW)
#: Endings of a checkpoint's files. Its folder holds many JSON documents, some of them large.
_CHECKPOINT = (".safetensors", ".bin", ".pt", ".pth", ".distcp", "tokenizer.json", "tokenizer_config.json")
#: Packings that are not read → the command that unpacks such a file.
_PACKED = {".xz": "xz -dk", ".bz2": "bzip2 -dk", ".lz4": "lz4 -d", ".7z": "7z x"}


def is_rollout_name(name: str, *, any_document: bool = False) -> bool:
    """Return True if a file of this name may hold rollouts.

    Of the files that many programs write, namely JSON documents and tables of text, only those with a name
    that a format declares may, or all with ``any_document``.
    """
    container = None if name.startswith(".") else container_of(name)
    if container in _COMMON:
        return any_document or document_adapter(name) is not None
    return container is not None


def how_to_unpack(name: str, *, any_document: bool = False) -> str:
    """Return why a packed log is not read, and the command that unpacks it; empty for other files."""
    stem, suffix = os.path.splitext(os.path.basename(name))
    if suffix not in _PACKED or not is_rollout_name(stem, any_document=any_document):
        return ""
    return f"packed, which is not read: {_PACKED[suffix]} {shlex.quote(name)}"


def document_adapter(name: str) -> Adapter | None:
    """Return the adapter that declares this name for its JSON documents."""
    plain = plain_name(name).rpartition("/")[2]
    return next((adapter for adapter, names in _DOCUMENTS if names.fullmatch(plain)), None)


def is_checkpoint_folder(entries: list[Entry]) -> bool:
    """Return True if a folder with these entries holds a model's weights or tokenizer."""
    return any(entry.name.endswith(_CHECKPOINT) for entry in entries)


def is_searchable_name(name: str) -> bool:
    """Return True if a folder of this name is searched. Names that are not UTF-8 cannot be put into a URL."""
    skipped = not name or is_hidden_name(name) or name in _SKIPPED_FOLDERS
    return not skipped and display_name(name) == name


def is_hidden_name(name: str) -> bool:
    """Return True if a folder is passed over since its name begins with a dot."""
    return name.startswith(".") and name not in _RUN_FOLDERS


def display_name(name: str) -> str:
    r"""Return a file's name as text; bytes that are not UTF-8 are shown as ``\xff`` and the like."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


#: Paths that `os.path.relpath` returns as they are, if it is given the folder before them.
_PLAIN = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", re.ASCII)


def relative_name(path: str, folder: str) -> str:
    """Return the name of a path below a folder, as text."""
    above, rest = path[: len(folder)], path[len(folder) + 1 :]
    if above == folder and path[len(folder) : len(folder) + 1] == "/" and _PLAIN.fullmatch(rest):
        return rest  # a run has thousands of files, and `relpath` looks at the working directory
    return display_name(os.path.relpath(path, folder))


def without_compressed_copies(entries: list[Entry]) -> list[Entry]:
    """Drop compressed files whose uncompressed file is still in the folder: both hold the same lines."""
    names = {entry.name for entry in entries}
    return [e for e in entries if not e.name.endswith(SUFFIXES) or e.name.rpartition(".")[0] not in names]


#: First or last word of a name; "with_eval", "no-eval" and "eval_beside_train" name runs that are trained.
_WORD = r"(?:val|validation|evals?|evaluations?)"
_FIRST = re.compile(rf"{_WORD}\d*(?:[-_.].*)?", re.IGNORECASE)
_LAST = re.compile(rf".*[^-_.][-_.]{_WORD}", re.IGNORECASE)
_NOT = re.compile(r"(?:.*[-_.])?(?:no|with|without|and)[-_.][^-_.]*", re.IGNORECASE)
_TRAINED = re.compile(r"(?:^|[-_.])train(?:ed|ing)?(?![a-z])", re.IGNORECASE)

EVAL = "eval"


def split_of_folder(name: str, adapters: Iterable[Adapter]) -> str:
    """Return the split that a folder's name gives to the samples of its run; empty if none.

    A format that holds evaluations beside training is left as it is: its files are not an evaluation's alone.

    Parameters
    ----------
    name : str
    adapters : iterable of Adapter
        Adapters of the run's files.
    """
    return EVAL if names_evaluation(name) and not all(map(shares_evaluation, adapters)) else ""


def names_evaluation(name: str) -> bool:
    """Return True if a folder's name says that its samples are an evaluation's."""
    if _TRAINED.search(name):
        return False
    is_last = _LAST.fullmatch(name) is not None and _NOT.fullmatch(name) is None
    return is_last or _FIRST.fullmatch(name) is not None


def in_folder(adapter: Adapter, name: str) -> Adapter:
    """Return the adapter for a file of a run whose folder has this name."""
    return FolderSplit(adapter) if split_of_folder(name, [adapter]) else adapter


class FolderSplit(WrappedAdapter):
    """Adapter that gives samples without a split that of an evaluation."""

    @property
    def name(self) -> str:
        """Name of the wrapped adapter and of the split."""
        return f"{self.adapter.name}, split {EVAL}"

    @property
    def flat_format(self) -> FlatFormat | None:
        """How many lines are read at once, with the split."""
        flat = flat_format(self.adapter)
        return None if flat is None else replace(flat, split=EVAL)

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Read the line's samples; a split in the line comes first."""
        records = self.adapter.read(document, path, full=full)
        for record in records:
            record.labels.setdefault("split", EVAL)
        return records
