"""Detects which adapter reads a file, from its name and its first lines.

A file is read again only after it changed, because a root may have thousands of other files.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass, replace
from typing import Any

from rlpanel.errors import LineError, RemoteError, SourceDamaged, SourceUnready, describe_error
from rlpanel.sources.adapters import ADAPTERS, INSPECT, NATIVE, TRL, trl
from rlpanel.sources.discovery.file_names import document_adapter
from rlpanel.sources.discovery.folder_config import FolderConfig
from rlpanel.sources.discovery.known_formats import lacking_key, newer_version
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import reason_of, stat, too_many_open
from rlpanel.sources.readers import eval_archive, parquet, whole_file
from rlpanel.sources.records.adapter_calls import accepts, read_samples
from rlpanel.sources.records.json_parser import is_whole, parse
from rlpanel.sources.records.record_types import Adapter

log = logging.getLogger(__name__)

#: Bytes and lines of a file that are searched for a line of a known format; the first line may be longer.
SNIFF_BYTES = 1 << 20
SNIFF_LINES = 20
#: Longest first line that is parsed.
SNIFF_LINE_BYTES = 64 << 20
#: Files whose names start like this are rollouts even if none of their lines can be parsed.
_NAMED = ("rollout_data", "data_rank")
#: Suffixes of files that are read whole to find out what they are.
_WHOLE = (whole_file.SUFFIX, eval_archive.SUFFIX)
_NO_STATUS = os.stat_result([0] * 10)


@dataclass(frozen=True)
class FileFormat:
    """Format of a file when its stat was ``status``.

    Attributes
    ----------
    adapter : Adapter or None
        Adapter that reads the file; None if it holds no rollouts.
    final : bool
        Whether the result stays valid while the file grows; otherwise only while it does not change.
    status : os.stat_result
    problem : str
        Reason why the file could not be read; empty if it could.
    rewarded : bool
        Whether a sample of the first line that the adapter accepts has a reward.
    newer : str
        Says that a newer version of the trainer than the tested one wrote the file; empty otherwise.
    """

    adapter: Adapter | None
    final: bool
    status: os.stat_result
    problem: str = ""
    rewarded: bool = False
    newer: str = ""

    def holds(self, now: os.stat_result) -> bool:
        """Return True if the file need not be read again. A file that shrank may have been replaced."""
        if self.final:
            return now.st_size >= self.status.st_size
        return _stamp(now) == _stamp(self.status)


class FormatCache:
    """Detects the formats of files, and reads a file again only after it changed."""

    def __init__(self) -> None:
        self._formats: dict[tuple[str, int, int, FolderConfig], FileFormat] = {}

    def detect(self, path: str, name: str, config: FolderConfig) -> FileFormat | None:
        """Return a file's format with its current stat; None if the file is gone.

        Parameters
        ----------
        path : str
            Real path of the file.
        name : str
            Name of the file or of the link to it.
        config : FolderConfig

        Raises
        ------
        OSError
            If too many files are open.
        """
        try:
            status = stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # the folder can be listed but not entered
            return FileFormat(None, False, _NO_STATUS, reason_of(error))
        key = (path, status.st_dev, status.st_ino, config)
        cached = self._formats.get(key)
        if cached is None or not cached.holds(status):
            cached, keep = _read_format(path, name, config, status, cached)
            if keep:
                self._formats[key] = cached
        return replace(cached, status=status)


def _read_format(
    path: str, name: str, config: FolderConfig, status: os.stat_result, cached: FileFormat | None
) -> tuple[FileFormat, bool]:
    """Read a file's first lines to find its format; also return whether the result may be cached."""
    try:
        return replace(sniff(path, name, config.mapped), status=status), True
    except (SourceDamaged, SourceUnready) as error:
        return FileFormat(_adapter_by_name(name), False, status, str(error)), True
    except RemoteError as error:
        return cached or FileFormat(None, False, status, str(error)), False
    except OSError as error:
        if too_many_open(error):
            raise
        return FileFormat(_adapter_by_name(name), False, status, reason_of(error)), False
    except MemoryError as error:
        return FileFormat(_adapter_by_name(name), False, status, describe_error(error)), False
    except Exception as error:  # a file must not hide the other files of its folder
        log.debug("the format of %s cannot be detected", path, exc_info=True)
        return FileFormat(_adapter_by_name(name), False, status, describe_error(error)), True


def sniff(path: str, name: str, mapped: Adapter | None = None) -> FileFormat:
    """Find the format of a file; a mapping given by the user is tried before all others.

    It is not final while the file is empty or has no complete line yet, or lacks a key of a known format.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    # A document that was read whole shows what it is; its name counts only while it cannot be read.
    named = None if name.endswith(_WHOLE) else _adapter_by_name(name)
    lines, final = first_lines(path)
    candidates = (mapped, *ADAPTERS) if mapped is not None else ADAPTERS
    for line in lines:
        found = _adapter_by_line(candidates, path, name, line)
        if found is not None:
            return found
    lacking = next(filter(None, map(_lacking_key, lines)), "") if named is None else ""
    return FileFormat(
        named, final and not lacking, _NO_STATUS, f"is not read: it {lacking}" if lacking else ""
    )


def first_lines(path: str) -> tuple[list[bytes], bool]:
    """Return the first complete non-blank lines, and whether they are enough to decide the format.

    The last line is complete without a newline if it is a whole JSON value. Zero bytes around lines are left
    out.
    """
    if path.endswith(parquet.SUFFIX):
        return parquet.first_lines(path, SNIFF_LINES), True
    if path.endswith(eval_archive.SUFFIX):
        return eval_archive.first_lines(path, SNIFF_LINE_BYTES), False
    if path.endswith(whole_file.SUFFIX):
        return whole_file.first_lines(path, SNIFF_LINE_BYTES), False
    lines: list[bytes] = []
    bytes_read = 0
    with open_plain(path) as file:
        while bytes_read < SNIFF_BYTES and len(lines) < SNIFF_LINES:
            line = file.readline(SNIFF_LINE_BYTES)
            bytes_read += len(line)
            text = line.rstrip(b"\n").strip(b"\0")
            if not line.endswith(b"\n"):
                lines += [text] if text and is_whole(text) else []
                return lines, len(line) == SNIFF_LINE_BYTES
            if text and not text.isspace():
                lines.append(text)
    return lines, True


def _adapter_by_name(name: str) -> Adapter | None:
    """Return the adapter of a file whose name alone shows that it holds rollouts."""
    if name.endswith(eval_archive.SUFFIX):
        return INSPECT
    if name.startswith(_NAMED) and not name.endswith((parquet.SUFFIX, whole_file.SUFFIX)):
        return NATIVE
    if name.endswith(whole_file.SUFFIX):
        return document_adapter(name)
    return TRL if trl.NAME.fullmatch(name) else None


def _adapter_by_line(candidates: tuple[Adapter, ...], path: str, name: str, line: bytes) -> FileFormat | None:
    """Return the format of the first adapter that accepts a line.

    The line is parsed once, because it may be long.
    """
    try:
        document = parse(line)
    except LineError:
        return None
    adapter = next((adapter for adapter in candidates if accepts(adapter, name, document)), None)
    if adapter is None:
        return None
    newer = newer_version(adapter.name, document)
    return FileFormat(adapter, True, _NO_STATUS, rewarded=_has_reward(adapter, path, document), newer=newer)


def _lacking_key(line: bytes) -> str:
    """Return which key of a known format a line lacks; empty if it looks like none."""
    try:
        return lacking_key(parse(line))
    except LineError:
        return ""


def _has_reward(adapter: Adapter, path: str, document: Any) -> bool:
    """Return True if a sample of a line has a finite reward; a line that cannot be read has none."""
    try:
        records = read_samples(adapter, document, path, full=False)
    except (LineError, MemoryError):
        return False
    return any(math.isfinite(record.numbers.get("reward", math.nan)) for record in records)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
