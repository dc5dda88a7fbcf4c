"""Rules for the names of files and folders: which may hold rollouts, and how a name is shown."""

from __future__ import annotations

import os

from rlpanel.sources.adapters import ADAPTERS
from rlpanel.sources.files.decompress import SUFFIXES
from rlpanel.sources.files.file_access import Entry
from rlpanel.sources.readers import eval_archive, parquet, whole_file
from rlpanel.sources.records.record_types import Adapter

#: Folder of a run's index. Like other folders whose name begins with a dot it is skipped.
OWN_FOLDER = ".rlpanel"
#: Hidden folders in which a trainer writes its runs: OpenPipe ART's.
_RUN_FOLDERS = frozenset({".art"})
_ROLLOUT_SUFFIXES = (
    ".jsonl",
    *(f".jsonl{suffix}" for suffix in SUFFIXES),
    parquet.SUFFIX,
    eval_archive.SUFFIX,
)
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
#: Adapters of JSON documents, each with the pattern of its files' names.
_DOCUMENTS = [(adapter, adapter.document_name) for adapter in ADAPTERS if hasattr(adapter, "document_name")]
#: Endings of a checkpoint's files. Its folder holds many JSON documents, some of them large.
_CHECKPOINT = (".safetensors", ".bin", ".pt", ".pth", ".distcp", "tokenizer.json", "tokenizer_config.json")


def is_rollout_name(name: str, *, any_document: bool = False) -> bool:
    """Return True if a file of this name may hold rollouts.

    Of JSON documents, only those with a name that a format declares may, or all with ``any_document``.
    """
    if name.startswith("."):
        return False
    if name.endswith(whole_file.SUFFIX):
        return any_document or document_adapter(name) is not None
    return name.endswith(_ROLLOUT_SUFFIXES)


def document_adapter(name: str) -> Adapter | None:
    """Return the adapter that declares this name for its JSON documents."""
    return next((adapter for adapter, names in _DOCUMENTS if names.fullmatch(name)), None)


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


def relative_name(path: str, folder: str) -> str:
    """Return the name of a path below a folder, as text."""
    return display_name(os.path.relpath(path, folder))


def without_compressed_copies(entries: list[Entry]) -> list[Entry]:
    """Drop compressed files whose uncompressed file is still in the folder: both hold the same lines."""
    names = {entry.name for entry in entries}
    return [e for e in entries if not e.name.endswith(SUFFIXES) or e.name.rpartition(".")[0] not in names]
