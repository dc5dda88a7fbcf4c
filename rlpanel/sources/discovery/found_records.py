"""Finds the records in a folder without runs that are most like rollouts, and the mapping that opens them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rlpanel.errors import LineError, SettingError
from rlpanel.sources.adapters.key_mapping import MappedAdapter, parse_mapping
from rlpanel.sources.discovery.file_format import FileFormat
from rlpanel.sources.discovery.file_names import display_name
from rlpanel.sources.discovery.format_detection import sniff
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import stat
from rlpanel.sources.inference.aliases import unknown_key
from rlpanel.sources.inference.inference import Inference
from rlpanel.sources.readers.containers import read_contents
from rlpanel.sources.records.adapter_calls import read_samples
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import MAX_SAMPLES, Adapter

#: Keys of a record that are named, and the length to which a key is cut.
MAX_KEYS, MAX_KEY_CHARS = 6, 40
#: Most files that are examined. Lines of larger ones are not counted.
_MAX_FILES, _MAX_COUNTED_BYTES = 20, 64 << 20
#: First records that are read with a mapping before it is proposed.
_TRIED = 20


@dataclass(frozen=True)
class Records:
    """The records of the files that are most like rollout logs.

    Attributes
    ----------
    file : str
        One of the files, below the folder.
    found : str
        ``140 records in 2 files: task_id, completion``.
    problem : str
        Reason why they are not opened.
    inference : Inference
    mapping : str
        Value of ``--map`` that opens them; empty if no key holds a text.
    """

    file: str
    found: str
    problem: str
    inference: Inference
    mapping: str


def find_records(root: str, paths: Sequence[str], mapped: MappedAdapter | None) -> Records | None:
    """Return the records of the file that is most like a rollout log; None if no file has some.

    Parameters
    ----------
    root : str
    paths : sequence of str
        Files that may hold records.
    mapped : MappedAdapter or None
        The user's mapping, which opens none of them.
    """
    found = list(islice(_inferred(root, paths, mapped), _MAX_FILES))
    if not found:
        return None
    path, seen, inference = max(found, key=lambda each: (bool(_mapping_of(each[2])), each[2].confidence))
    alike = [other for other, _, each in found if each.top_keys == inference.top_keys]
    is_list = seen.container is not None and not seen.container.grows
    counts = [0 if is_list else _count_lines(other) for other in alike]
    count = sum(counts) if all(counts) else inference.count
    more = not all(counts)
    keys = ", ".join(key[:MAX_KEY_CHARS] for key in inference.top_keys[:MAX_KEYS])
    left = len(inference.top_keys) - MAX_KEYS
    counted = f"{count:,} or more records" if more else count_of(count, "record")
    text = f"{counted} in {count_of(len(alike), 'file')}: {keys}"
    return Records(
        display_name(os.path.relpath(path, root)),
        f"{text} and {left} more" if left > 0 else text,
        "; ".join([*_absent(seen, mapped), seen.problem or inference.problem]),
        inference,
        _mapping_that_reads(path, root, inference),
    )


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 file``, ``2 files``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _inferred(
    root: str, paths: Sequence[str], mapped: MappedAdapter | None
) -> Iterator[tuple[str, FileFormat, Inference]]:
    """Yield the files whose fields were inferred; what cannot be read is left out."""
    for path in paths:
        try:
            seen = sniff(path, os.path.relpath(path, root), mapped)
        except Exception:  # a file that cannot be read is described by its reason
            continue
        if seen.inference is not None and not holds_spans(seen.keys):
            yield path, seen, seen.inference


def holds_spans(keys: Collection[str]) -> bool:
    """Return True if records are spans of OpenTelemetry, as its SDKs print them, or batches of them (OTLP).

    A mapping of their keys to a prompt and a response would show something else than conversations.

    Parameters
    ----------
    keys : collection of str
        Keys of the records, inner ones with dots.
    """
    if {"resourceSpans", "resource_spans"} & set(keys):
        return True
    names = {key.removeprefix("context.") for key in keys}
    return bool({"trace_id", "traceId"} & names) and bool({"span_id", "spanId"} & names)


def _absent(seen: FileFormat, mapped: MappedAdapter | None) -> Iterator[str]:
    """Yield the keys of the user's mapping that the records lack."""
    for name, key in mapped.keys if mapped is not None else ():
        if name in seen.absent:
            yield f"map {name}={key}: {unknown_key(name, key, seen.keys)}"


def _mapping_of(inference: Inference) -> str:
    """Return the value of ``--map`` that opens the records; empty if there is none."""
    texts = [name for name in ("response", "messages") if name in inference.keys]
    if not (texts or inference.likely) or any(set(key) & {",", "="} for key in inference.keys.values()):
        return ""
    return inference.mapping or f"{texts[0]}={inference.keys[texts[0]]}"


def _mapping_that_reads(path: str, root: str, inference: Inference) -> str:
    """Return the value of ``--map`` that opens the records; empty if it reads none of the first ones."""
    text = _mapping_of(inference)
    try:
        mapped = parse_mapping(text)
    except SettingError:  # a name that has two meanings
        return ""
    if mapped is None:
        return ""
    name = os.path.relpath(path, root)
    seen = sniff(path, name, mapped)
    if seen.adapter is None:
        return ""
    contents = (each for each in read_contents(path) if each.container == seen.container)
    lines = next((each.lines for each in contents if each.lines), [])
    return text if any(_reads(seen.adapter, line, name) for line in lines[:_TRIED]) else ""


def _reads(adapter: Adapter, line: bytes, name: str) -> bool:
    try:
        samples = read_samples(adapter, parse(line, MAX_SAMPLES), name, full=True)
        return any(each.texts or each.messages for each in samples)
    except (LineError, MemoryError):
        return False


def _count_lines(path: str) -> int:
    """Return the number of lines of a file; 0 if it is long, or its records are not lines."""
    if not path.endswith(".jsonl") or stat(path).st_size > _MAX_COUNTED_BYTES:
        return 0
    with open_plain(path) as file:
        return sum(not line.isspace() for line in file)
