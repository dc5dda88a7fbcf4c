"""Detects which adapter reads a file, from its name and its first lines.

A file is read again only after it changed, because a root may have thousands of other files. A file that no
adapter accepts is not a log. If it has all but one of the keys of a format, it is named, because a run
without it might be incomplete. Writers that are newer than those tested are named, too.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlpanel.errors import LineError, RemoteError, SourceDamaged, SourceUnready, describe_error
from rlpanel.sources.adapters import ADAPTERS, INSPECT, NATIVE, TRL, trl
from rlpanel.sources.discovery.file_names import document_adapter
from rlpanel.sources.discovery.folder_config import FolderConfig
from rlpanel.sources.files.decompress import open_plain
from rlpanel.sources.files.file_access import reason_of, stat, too_many_open
from rlpanel.sources.readers import eval_archive, parquet, sqlite, whole_file
from rlpanel.sources.records.adapter_calls import accepts, read_samples
from rlpanel.sources.records.json_parser import is_whole, parse, to_python
from rlpanel.sources.records.record_types import Adapter

#: A key, or several of which a line has one.
_Key = str | tuple[str, ...]

#: Keys of a format's lines by the name that is shown. All others of a format must be there to name one.
_KEYS: tuple[tuple[str, tuple[_Key, ...]], ...] = (
    ("verl", ("input", "output", "score", "step")),
    ("NeMo-RL", ("content", ("filtered_rewards", "rewards"), "token_loss_mask")),
    ("ms-swift", (("gen_step", "step"), "prompt", "completion", "advantages")),
    ("ROLL", ("global_step", ("prompt", "messages"), "responses", "scores")),
    ("ROLL, agentic", ("global_step", "trajectory_data", "messages")),
    ("open-instruct", ("step", "prompt_tokens", "response_tokens")),
    ("AReaL", ("task_id", "prompt", "completion", "tail_version")),
    ("prime-rl", ("traces", "task", "run")),
    ("prime-rl's token exports", ("step", "token_ids", "loss_mask", "trainer_logprobs")),
    ("rLLM", ("trajectories", "task", "termination_reason", "is_correct")),
    ("SkyRL", ("input_prompt", "output_response", "score")),
    ("tinker-cookbook", ("split", "iteration", "total_reward", "steps", "group_idx", "traj_idx")),
    ("NeMo Gym", ("responses_create_params", "response", "reward")),
    ("miles", ("sample_index", "group_index", "status", "prompt", "messages")),
    ("miles", ("sample_index", "response_length", "total_length", "tokens")),
    ("ATIF", ("schema_version", "agent", "steps")),
    ("Harbor", ("trial_name", "task_name", "config", "agent_info")),
    ("Inspect", ("version", "status", "eval", "samples")),
    ("rlpanel", ("step", "prompt", "response", "reward")),
)
_LEAST = 2


def lacking_key(document: Mapping[str, Any]) -> str:
    """Return which key a line lacks to be one of a known format; empty if it looks like none.

    Parameters
    ----------
    document : mapping
        A parsed line that no adapter accepts.
    """
    found: list[tuple[int, str]] = []
    for name, keys in _KEYS:
        lacking = [key for key in keys if not _has(document, key)]
        if len(lacking) == 1 and len(keys) - 1 >= _LEAST:
            key = lacking[0]
            wanted = repr(key) if isinstance(key, str) else " or ".join(map(repr, key))
            found.append((len(keys), f"looks like a log of {name}, but has no {wanted}"))
    return max(found, default=(0, ""))[1]


def _has(document: Mapping[str, Any], key: _Key) -> bool:
    return key in document if isinstance(key, str) else any(each in document for each in key)


@dataclass(frozen=True)
class WriterVersion:
    """The newest version of a writer that was tested, and how a line names its own.

    Attributes
    ----------
    writer : str
    tested : str
        Numbers with dots.
    version_of : function
        Version that a line was written by; None if the line does not name it.
    """

    writer: str
    tested: str
    version_of: Callable[[Mapping[str, Any]], Any]


def _trace_version(document: Mapping[str, Any]) -> Any:
    """Return the version of verifiers in an episode of prime-rl."""
    traces = to_python(document.get("traces"))
    first = traces[0] if isinstance(traces, list) and traces else None
    library = first.get("verifiers") if isinstance(first, dict) else None
    return library.get("version") if isinstance(library, dict) else None


def _inspect_version(document: Mapping[str, Any]) -> Any:
    """Return the version of Inspect that wrote a log."""
    spec = to_python(document.get("eval"))
    packages = spec.get("packages") if isinstance(spec, dict) else None
    return packages.get("inspect_ai") if isinstance(packages, dict) else None


#: By the name of the adapter. A format whose lines do not name their writer's version is not listed.
VERSIONS: dict[str, WriterVersion] = {
    "prime-rl": WriterVersion("verifiers", "0.4.1", _trace_version),
    "ATIF": WriterVersion("ATIF", "1.8", lambda document: document.get("schema_version")),
    "Inspect": WriterVersion("Inspect", "0.3.285", _inspect_version),
    "tinker-cookbook": WriterVersion(
        "tinker-cookbook's summaries", "1", lambda document: document.get("schema_version")
    ),
}
_NUMBERS = re.compile(r"(?<![\d.])v?(\d{1,9}(?:\.\d{1,9}){0,3})")


def newer_version(adapter: str, document: Mapping[str, Any]) -> str:
    """Return a sentence about a line whose writer is newer than the tested one; empty if it is not.

    Parameters
    ----------
    adapter : str
        Name of the adapter that accepts the line.
    document : mapping
    """
    known = VERSIONS.get(adapter)
    if known is None:
        return ""
    match = _NUMBERS.search(str(known.version_of(document))[:80])
    if match is None or _parts(match[1]) <= _parts(known.tested):
        return ""
    return f"written by {known.writer} {match[1]}; the newest tested version is {known.tested}"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


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
    if path.endswith(sqlite.SUFFIX):
        return sqlite.first_lines(path, SNIFF_LINES, SNIFF_LINE_BYTES), False
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
