"""Detects which adapter reads a file, from its name and its first lines.

A file is read again only after it changed, because a root may have thousands of other files. If no adapter
accepts a file, its fields are inferred from its first records (`rlpanel.sources.inference`). If that does not
show rollouts either, but the file has all but one of the keys of a format, it is named, because a run without
it might be incomplete. Writers that are newer than those tested are named, too.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlpanel.errors import LineError, RemoteError, SourceDamaged, SourceUnready, describe_error
from rlpanel.sources.adapters import ADAPTERS, INSPECT, NATIVE, TRL, trl
from rlpanel.sources.adapters.key_mapping import MappedAdapter
from rlpanel.sources.discovery.file_names import document_adapter, is_rollout_name
from rlpanel.sources.discovery.folder_config import FolderConfig
from rlpanel.sources.discovery.known_formats import lacking_key, newer_version
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
from rlpanel.sources.inference.aliases import fields_of
from rlpanel.sources.inference.infer import infer, infer_document
from rlpanel.sources.inference.inference import Inference
from rlpanel.sources.inference.known_fields import UNSURE
from rlpanel.sources.readers.containers import (
    ARCHIVE,
    DOCUMENT,
    LINES,
    SNIFF_LINE_BYTES,
    Container,
    Content,
    container_of,
    read_contents,
)
from rlpanel.sources.records.adapter_calls import accepts, read_samples
from rlpanel.sources.records.json_parser import parse, to_python
from rlpanel.sources.records.path_numbers import said_step
from rlpanel.sources.records.record_types import MAX_SAMPLES, Adapter

log = logging.getLogger(__name__)

#: Files whose names start like this are rollouts even if none of their lines can be parsed.
_NAMED = ("rollout_data", "data_rank")
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
    inference : Inference or None
        Fields of a file that no format's adapter accepts; None for other files.
    keys : frozenset of str
        Keys of the first records, inner ones with dots, if a mapping or an inference depends on them.
    absent : tuple of str
        Names that the user mapped to keys that no first record has.
    container : Container or None
        How the file holds its records; None for the usual one of its name.
    """

    adapter: Adapter | None
    final: bool
    status: os.stat_result
    problem: str = ""
    rewarded: bool = False
    newer: str = ""
    inference: Inference | None = None
    keys: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    container: Container | None = None

    def holds(self, now: os.stat_result) -> bool:
        """Return True if the file need not be read again. A file that shrank may have been replaced."""
        if self.final:
            return now.st_size >= self.status.st_size
        return _stamp(now) == _stamp(self.status)


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
            return FileFormat(None, False, _NO_STATUS, reason_of(error))
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
        named, known = _adapter_by_name(name), cached is not None and cached.adapter is not None
        if cached is not None and known and named is None:  # it is being written again
            return replace(cached, final=False, status=status, problem=str(error)), True
        return FileFormat(named, False, status, str(error)), True
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
    named = None if usual in (DOCUMENT, ARCHIVE) else _adapter_by_name(name)
    contents: list[Content] = []
    found: FileFormat | None = None
    for each in read_contents(path, most=SNIFF_LINE_BYTES if declared else 0):
        found = (
            _mapped_format(mapped, each, name, last) if mapped is not None and not each.is_document else None
        )
        if (found := found or _accepted_format(each, path, name)) is not None:
            is_settled = declared or each.container.kind not in ("document", "items")
            return _with_content(found, each, mapped, is_settled=is_settled)
        contents += [] if each.is_document else [each]
    guesses = [
        _with_content(
            _guessed_format(each, name, named, last, declared=declared),
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
    found = found or guessed or next(iter(guesses), FileFormat(named, False, _NO_STATUS))
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
    records = list(_records(each.lines))
    return replace(found, keys=content.keys_of(records), absent=tuple(mapped.absent_from(records)))


def _accepted_format(each: Content, path: str, name: str) -> FileFormat | None:
    """Return the format of the first adapter that accepts one of the first records."""
    adapters = [adapter for adapter in ADAPTERS if not each.is_document or hasattr(adapter, "document_name")]
    for line in each.lines:
        # The line is parsed once for all adapters, because it may be long.
        document = _parsed(line)
        adapter = next((each for each in adapters if document and accepts(each, name, document)), None)
        if document and adapter is not None:
            rewarded, newer = _has_reward(adapter, path, document), newer_version(adapter.name, document)
            if adapter is TRL and not rewarded and (found := _unread_reward(each, path, name)):
                return found
            if adapter is NATIVE and (found := _renamed_response(document, each, name)):
                return found
            if adapter is NATIVE and not rewarded and (found := _renamed_reward(document, each, name)):
                return found
            if (
                adapter is NATIVE
                and each.container == DOCUMENT
                and not ("step" in document or said_step(name))
            ):
                continue  # `rollouts_003.json` is a sample
            return FileFormat(adapter, True, _NO_STATUS, rewarded=rewarded, newer=newer)
        del document
        if each.container.kind == "items" and _keys_of(line) == _keys_of(each.lines[-1]):
            break  # the last of the first records would be refused, too
    return None


def _guessed_format(
    each: Content, name: str, named: Adapter | None, last: MappedAdapter | None, *, declared: bool
) -> FileFormat:
    """Return what is inferred from the first records, which no adapter accepts, or else ``last``.

    A file whose name is ``declared`` by a format, and which lacks one key of it, is named and not guessed.
    """
    records = list(_records(each.lines))
    looked_at = records[:1] if each.container.kind == "items" else records  # items of a list are alike
    lacking = next(filter(None, map(lacking_key, looked_at)), "") if named is None else ""
    is_other = bool(lacking) and not (declared or any(lacking_key(each, sure=True) for each in looked_at))
    is_one = each.container == DOCUMENT
    inference = infer(records, name, is_one=is_one) if records else None
    if is_one and records:
        inference = infer_document(records[0], name) or inference
    inference = _at_step(inference, last) if inference is not None else None
    if inference is not None and inference.is_run and (not lacking or is_other or lacking.endswith("'step'")):
        return _inferred_format(inference, records, name, final=each.final)
    accepted = next((record for record in records if last and accepts(last, name, record)), None)
    if last is not None and accepted is not None:
        return FileFormat(last, each.final, _NO_STATUS, rewarded=_has_reward(last, name, accepted))
    problem, keys = f"is not read: it {lacking}" if lacking else "", content.keys_of(records)
    return FileFormat(named, each.final and not lacking, _NO_STATUS, problem, inference=inference, keys=keys)


def _unread_reward(each: Content, path: str, name: str) -> FileFormat | None:
    """Return the inferred format of rows with TRL's keys if only the inference finds a reward."""
    records = list(_records(each.lines))
    if any(_has_reward(TRL, path, record) for record in records):
        return None
    inference = infer(records, name)
    has_reward = inference.is_run and "reward" in inference.keys
    return _inferred_format(inference, records, name, final=each.final) if has_reward else None


def _renamed_response(document: Mapping[str, Any], each: Content, name: str) -> FileFormat | None:
    """Return the format of lines with rlpanel's step and prompt, and a response under another name."""
    own = {"response", "messages", "response_token_ids"}
    if not own.isdisjoint(document):  # most lines: the others need not be parsed
        return None
    records = list(_records(each.lines))
    if any(not own.isdisjoint(record) for record in records):
        return None
    inference = infer(records, name)
    is_renamed = inference.is_run and {"response", "messages"} & inference.keys.keys()
    return _inferred_format(inference, records, name, final=each.final) if is_renamed else None


def _renamed_reward(document: Mapping[str, Any], each: Content, name: str) -> FileFormat | None:
    """Return the format of lines with rlpanel's names, but another one for the reward, such as ``score``."""
    if "reward" in document or "rewards" in document or name.rpartition("/")[2].startswith(_NAMED):
        return None
    records = list(_records(each.lines))
    if any({"reward", "rewards"} & record.keys() for record in records):
        return None
    inference = infer(records, name)
    key = inference.keys.get("reward", "")
    match = fields_of(key).get("reward")
    is_said = "." not in key and match is not None and match.group < UNSURE
    return (
        _inferred_format(inference, records, name, final=each.final) if inference.is_run and is_said else None
    )


def _at_step(inference: Inference, last: MappedAdapter | None) -> Inference:
    """Return an inference with the step that the user gives to files that name none."""
    if last is None or "step" not in inference.missing:
        return inference
    others = tuple(lacked for lacked in inference.missing if lacked != "step")
    return replace(inference, step=last.step, missing=others)


def _mapped_format(
    mapped: MappedAdapter, each: Content, name: str, last: MappedAdapter | None
) -> FileFormat | None:
    """Return the format of a file with the mapped keys; None if it lacks them.

    What the mapping does not name and the file lacks otherwise, such as the step, is inferred.
    """
    records = list(_records(each.lines))
    absent = mapped.absent_from(records)
    accepted = next((record for record in records if accepts(mapped, name, record)), None)
    if accepted is not None:
        rewarded = _has_reward(mapped, name, accepted)
        return FileFormat(mapped, each.final or not absent, _NO_STATUS, rewarded=rewarded)
    if not records or {"prompt", "response", "messages"} & absent.keys():
        return None
    inference = _at_step(infer(records, name, mapped), last)
    return _inferred_format(inference, records, name, final=each.final) if inference.is_run else None


def _inferred_format(
    inference: Inference, records: list[dict[str, Any]], name: str, *, final: bool
) -> FileFormat:
    """Return the format of a file whose fields were inferred."""
    adapter, keys = inference.adapter(), content.keys_of(records)
    # A document of objects is not read whole only for that: the inference has looked at its rewards.
    is_seen = inference.of_objects and "reward" in inference.keys
    rewarded = is_seen or _has_reward(adapter, name, records[0])
    return FileFormat(adapter, final, _NO_STATUS, rewarded=rewarded, inference=inference, keys=keys)


def _records(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects in lines."""
    for line in lines:
        if document := _parsed(line):
            yield {key: to_python(value) for key, value in document.items()}


def _keys_of(line: bytes) -> frozenset[str]:
    return frozenset(_parsed(line) or ())


def _adapter_by_name(name: str) -> Adapter | None:
    """Return the adapter of a file whose name alone shows that it holds rollouts."""
    name = name.rpartition("/")[2]
    usual = container_of(name)
    if usual == ARCHIVE:
        return INSPECT
    if usual == DOCUMENT:
        return document_adapter(name)
    if usual == LINES and name.startswith(_NAMED):
        return NATIVE
    return TRL if trl.NAME.fullmatch(name) else None


def _parsed(line: bytes) -> Mapping[str, Any] | None:
    """Return the object in a line; None for any other line. A document may have a key for each sample."""
    try:
        return parse(line, MAX_SAMPLES)
    except LineError:
        return None


def _has_reward(adapter: Adapter, path: str, document: Any) -> bool:
    """Return True if a sample of a line has a finite reward; a line that cannot be read has none."""
    try:
        records = read_samples(adapter, document, path, full=False)
    except (LineError, MemoryError):
        return False
    return any(math.isfinite(record.numbers.get("reward", math.nan)) for record in records)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
