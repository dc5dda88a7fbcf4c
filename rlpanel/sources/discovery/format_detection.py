"""Detects which adapter reads a file, from its name and its first lines.

A file is read again only after it changed, because a root may have thousands of other files. If no adapter
accepts a file, its fields are inferred from its first records (`rlpanel.sources.inference`). If that does not
show rollouts either, but the file has all but one of the keys of a format, it is named, because a run without
it might be incomplete. Writers that are newer than those tested are named, too.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace

from rlpanel.errors import RemoteError, SourceDamaged, SourceUnready, describe_error
from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.discovery.content_format import accepted_format, guessed_format, mapped_format
from rlpanel.sources.discovery.file_format import NO_STATUS, FileFormat, adapter_by_name, records_of
from rlpanel.sources.discovery.file_names import document_adapter, is_rollout_name
from rlpanel.sources.discovery.folder_config import FolderConfig
from rlpanel.sources.files.file_access import (
    STREAM,
    Entry,
    fetch_ahead,
    is_remote,
    reason_of,
    stat,
    too_many_open,
)
from rlpanel.sources.files.storage_requests import Span
from rlpanel.sources.inference import content
from rlpanel.sources.readers.containers import (
    ARCHIVE,
    DOCUMENT,
    SNIFF_LINE_BYTES,
    Content,
    container_of,
    read_contents,
)

log = logging.getLogger(__name__)


class FormatCache:
    """Detects the formats of files, and reads a file again only after it changed."""

    def __init__(self) -> None:
        self._formats: dict[tuple[str, int, int, FolderConfig], FileFormat] = {}

    def fetch_ahead(self, entries: Sequence[Entry], config: FolderConfig) -> None:
        """Fetch the heads of remote files whose format is to be detected next, all at the same time."""
        if not entries or not is_remote(entries[0].path):
            return
        spans = []
        for entry in entries:
            status = entry.stat()
            cached = self._formats.get((entry.path, status.st_dev, status.st_ino, config))
            if cached is None or not cached.holds(status):
                spans.append(Span(entry.path, 0, min(STREAM, status.st_size)))
        fetch_ahead(spans)

    def detect(
        self, path: str, name: str, config: FolderConfig, listed: os.stat_result | None = None
    ) -> FileFormat | None:
        """Return a file's format with its current stat; None if the file is gone.

        Parameters
        ----------
        path : str
            Real path of the file.
        name : str
            Path of the file, or of the link to it, below the run: folders may name its step.
        config : FolderConfig
        listed : os.stat_result, optional
            Its status, if it was listed just now.

        Raises
        ------
        OSError
            If too many files are open.
        """
        try:
            status = listed or stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # the folder can be listed but not entered
            return FileFormat(None, False, NO_STATUS, reason_of(error))
        key = (path, status.st_dev, status.st_ino, config)
        cached = self._formats.get(key)
        if cached is None or not cached.holds(status):
            cached, keep = _read_format(path, name, config, status, cached)
            if keep:
                self._formats[key] = cached
        return cached if cached.status is status else replace(cached, status=status)


def _read_format(
    path: str, name: str, config: FolderConfig, status: os.stat_result, cached: FileFormat | None
) -> tuple[FileFormat, bool]:
    """Read a file's first lines to find its format; also return whether the result may be cached."""
    try:
        return replace(sniff(path, name, config.mapped, config.at_step), status=status), True
    except (SourceDamaged, SourceUnready) as error:
        named, known = adapter_by_name(name), cached is not None and cached.adapter is not None
        if cached is not None and known and named is None:  # it is being written again
            return replace(cached, final=False, status=status, problem=str(error)), True
        return FileFormat(named, False, status, str(error)), True
    except RemoteError as error:
        return cached or FileFormat(None, False, status, str(error)), False
    except OSError as error:
        if too_many_open(error):
            raise
        return FileFormat(adapter_by_name(name), False, status, reason_of(error)), False
    except MemoryError as error:
        return FileFormat(adapter_by_name(name), False, status, describe_error(error)), False
    except Exception as error:  # a file must not hide the other files of its folder
        log.debug("the format of %s cannot be detected", path, exc_info=True)
        return FileFormat(adapter_by_name(name), False, status, describe_error(error)), True


def sniff(
    path: str, name: str, mapped: MappedAdapter | None = None, last: MappedAdapter | None = None
) -> FileFormat:
    """Find the format of a file: the user's mapping is tried before all others, and ``last`` after.

    ``last`` has the step that the user gives to files that name none.

    It is not final while the file has fewer complete lines than are looked at, unless a format's adapter
    accepts one, or if it lacks a key of a known format.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    # A document that was read whole shows what it is; its name counts only while it cannot be read.
    base = name.rpartition("/")[2]
    usual, declared = container_of(base), document_adapter(base) is not None
    named = None if usual in (DOCUMENT, ARCHIVE) else adapter_by_name(name)
    contents: list[Content] = []
    found: FileFormat | None = None
    for each in read_contents(path, most=SNIFF_LINE_BYTES if declared else 0):
        if mapped is not None and each.container.kind == "items" and mapped.begins_with_all:
            continue  # the keys lead from the whole document, not from the items of one of its lists
        found = (
            mapped_format(mapped, each, name, last) if mapped is not None and not each.is_document else None
        )
        if (found := found or accepted_format(each, path, name)) is not None:
            is_settled = declared or each.container.kind not in ("document", "items")
            return _with_content(found, each, mapped, is_settled=is_settled)
        contents += [] if each.is_document else [each]
    guesses = [
        _with_content(
            guessed_format(each, name, named, last, declared=declared),
            *(each, mapped),
            is_settled=each.container.grows,
        )
        for each in contents
    ]
    # Samples that are the values of an object come before a list inside of one of them.
    guesses.sort(key=lambda each: (not each.problem, not _is_of_objects(each)))
    guesses = sorted(guesses, key=lambda each: not any(_holds_prompt_of(each, other) for other in guesses))
    if not (declared and guesses and guesses[0].problem):  # its parts are not samples
        found = next(
            (each for each in guesses if each.inference is not None and each.adapter is not None), None
        )
    guessed = next((each for each in guesses if each.inference is not None), None)
    found = found or guessed or next(iter(guesses), FileFormat(named, False, NO_STATUS))
    return found if declared or is_rollout_name(base) else replace(found, problem="")


def _is_of_objects(found: FileFormat) -> bool:
    return found.adapter is not None and found.inference is not None and found.inference.of_objects


def _holds_prompt_of(found: FileFormat, other: FileFormat) -> bool:
    """Return True for a document with the prompt, whose list of responses the other one takes for samples."""
    inside = other.container.keys if other.container is not None and other.container.kind == "items" else None
    if found.inference is None or other.inference is None or not inside or found.container != DOCUMENT:
        return False
    if found.adapter is None or "prompt" in other.inference.keys or found.inference.of_objects:
        return False
    prompt, response = (found.inference.keys.get(name, "") for name in ("prompt", "response"))
    return bool(prompt) and "*" not in prompt and response.startswith(f"{'.'.join(inside)}.*.")


def _with_content(
    found: FileFormat, each: Content, mapped: MappedAdapter | None, *, is_settled: bool
) -> FileFormat:
    """Return a format with what depends on the content it was found in."""
    found = replace(found, final=found.final and is_settled, container=each.container)
    if mapped is None:
        return found
    records = list(records_of(each.lines))
    return replace(found, keys=content.keys_of(records), absent=tuple(mapped.absent_from(records)))
