"""Shared types of the sources: record, locator, bad line, chunk, and the protocols of adapters and files."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from rlpanel.schema import Alternative
from rlpanel.sources.records.field_values import AgentFields
from rlpanel.sources.records.messages import Message

#: Most samples in one line: a row stores the sample's index in its line in 16 bits.
MAX_SAMPLES = 2**16 - 1


@dataclass(slots=True)
class Record:
    """One sample, as an adapter reads it.

    Attributes
    ----------
    step, rank : int
        ``rank`` is -1 if the line does not contain one.
    numbers, labels : dict
        Sample columns: floats (NaN for null) and short texts.
    arrays : dict of str to ndarray, shape (T,)
        Fields of the schema as float64, and the lists of `rlpanel.sources.records.token_lists`.
    unfit : dict of str to int
        Lengths of lists of numbers that are neither fields nor as long as the tokens.
    experts : dict of str to ndarray, shape (T, layers, experts of a token)
        Ids of experts of the trainer and of the engine.
    texts, tokens, messages, extra, alternatives
        ``prompt`` and ``response`` are always set; the rest only if the sample is read in full.
    prompt_messages : int
        Number of ``messages`` before the response; -1 if unknown.
    conversation : dict
        What was logged as messages, until the record is complete.
    agent : AgentFields or None
        What was logged about an agent's rollout beside its messages.
    notes : list of str
        Problems found in the sample; it is kept without the affected fields.
    """

    step: int
    rank: int = -1
    numbers: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    unfit: dict[str, int] = field(default_factory=dict)
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    experts: dict[str, np.ndarray] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    tokens: list[str] | None = None
    messages: list[Message] = field(default_factory=list)
    prompt_messages: int = -1
    conversation: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    agent: AgentFields | None = None
    notes: list[str] = field(default_factory=list)

    def agent_fields(self) -> AgentFields:
        """Return the sample's agent fields, which this call adds if there are none."""
        if self.agent is None:
            self.agent = AgentFields()
        return self.agent


class Locator(NamedTuple):
    """Position of a sample in its file: line ``line`` (from 1), ``length`` bytes from ``offset``.

    ``part`` is the sample's index in its line. ``hash`` is the line's xxh3, checked when it is read again.
    """

    offset: int
    length: int
    line: int
    part: int
    hash: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read as a sample, with the reason."""

    line: int
    offset: int
    reason: str


class BesideFile(NamedTuple):
    """A file that an adapter reads beside the run's own.

    Attributes
    ----------
    bad_count : int
    bad : tuple of BadLine
        The first bad lines.
    problem : str
        Reason why it, or a part of it, is not read; empty if it is.
    """

    bad_count: int = 0
    bad: tuple[BadLine, ...] = ()
    problem: str = ""


class Hole(NamedTuple):
    """Zero bytes in or beside lines, as a crash of the machine or a lost write leaves them.

    Attributes
    ----------
    bytes : int
        Number of zero bytes; 0 if there are none.
    offset : int
        Byte offset of the first line with them.
    """

    bytes: int = 0
    offset: int = 0

    def joined(self, other: Hole) -> Hole:
        """Return both together."""
        if not (self.bytes and other.bytes):
            return self if self.bytes else other
        return Hole(self.bytes + other.bytes, min(self.offset, other.offset))


NO_HOLE = Hole()


class SampleSequence(Protocol):
    """A sequence of samples that can give them as records."""

    def __len__(self) -> int: ...

    def records(self) -> list[Record]:
        """Return the samples as individual records."""


class RecordList(list[Record]):
    """Samples that are already records."""

    def records(self) -> list[Record]:
        """Return itself."""
        return self


def empty_locators() -> array[int]:
    """Return an empty array for the values of locators, one locator after the other."""
    return array("Q")


@dataclass(slots=True)
class Chunk:
    """Result of polling a file once.

    Attributes
    ----------
    generation : int
        Counts how often the file was replaced; rows of earlier generations are no longer valid.
    raw_locators : array of int
        One locator per sample, in line order: the values of all, without an object for each.
    parts : list
        The samples in the same order: lists of records, or batches of columns.
    empty_lines : int
        Number of good lines that hold no sample, such as padding of a batch.
    more : bool
        True if the byte budget was used up, so complete lines may still be unread.
    hole : Hole
    """

    generation: int = 0
    raw_locators: array[int] = field(default_factory=empty_locators)
    parts: list[SampleSequence] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    good_lines: int = 0
    blank_lines: int = 0
    empty_lines: int = 0
    bytes: int = 0
    more: bool = False
    hole: Hole = NO_HOLE

    def __len__(self) -> int:
        return len(self.raw_locators) // len(Locator._fields)

    @property
    def locators(self) -> list[Locator]:
        """Locators of all samples."""
        values = iter(self.raw_locators)
        return list(map(Locator, *[values] * len(Locator._fields)))

    @property
    def records(self) -> list[Record]:
        """All samples as individual records."""
        return [record for part in self.parts for record in part.records()]

    def add(self, records: list[Record]) -> None:
        """Append the samples of one more line, if it has any."""
        if not records:
            return
        last = self.parts[-1] if self.parts else None
        if isinstance(last, RecordList):
            last += records
        else:
            self.parts.append(RecordList(records))


def _no_step(path: str) -> int | None:
    """Return no step: the lines contain it."""
    return None


@dataclass(frozen=True)
class FlatFormat:
    """Mapping of a format's keys to the fields of one sample per line, to read many lines at once.

    Attributes
    ----------
    names : mapping of str to str
        Names of `rlpanel.schema` by key; other keys keep theirs.
    step_of : function
        Step that a file's path gives to lines without ``step``; None if it gives none.
    complete : function or None
        Adds the fields that the keys in ``told_by`` contain to a parsed line. Returns False if the adapter
        must read the line.
    told_by : tuple of str
    split : str
        Split of lines that do not name one; empty for training.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    step_of: Callable[[str], int | None] = _no_step
    complete: Callable[[dict[str, Any]], bool] | None = None
    told_by: tuple[str, ...] = ()
    split: str = ""


class Adapter(Protocol):
    """Reads the log format of one trainer.

    A record's texts are strings of the line, unchanged, or several of them joined by brackets, punctuation
    and spaces: the text search looks for their bytes in the file (`rlpanel.store.query.text_scan`).

    Attributes
    ----------
    name : str
    looks : str
        Description of the format's files, shown if a folder was not recognised.

    Notes
    -----
    Further attributes are optional: ``path_in_run`` (see `discovery.step_folders`), ``flat_format`` (see
    `FlatFormat`), ``repeats_rows``, which is true if a line may begin with the last samples of the line
    before (see `repeats_rows`), ``place`` (see `place`), ``for_file`` (see `for_file`),
    ``shares_evaluation`` (see `shares_evaluation`), ``once_per_step`` (see `once_per_step`),
    ``beside`` (see `files_beside`), ``changed_lines`` (see `changed_lines`), and ``lacks_steps``, which is
    true if the format's lines have no step: it is 0 unless the path names one or the user gives one.
    """

    @property
    def name(self) -> str:
        """Unique name of the format."""

    @property
    def looks(self) -> str:
        """Description of the format's files."""

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Return True if a file at ``path`` with the first line ``document`` is in this format."""

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Read the samples of a line; none if the line is good but not about a sample.

        Parameters
        ----------
        document : mapping
            The parsed line; arrays may be lazy (see `json_parser`) and must not be kept.
        path : str
            The file's path below the run, which may hold the rank, the step or the split.
        full : bool
            Whether to read all texts, the tokens and unknown keys as well.

        Raises
        ------
        LineError
            If the line is not a sample.
        """


def repeats_rows(adapter: Adapter) -> bool:
    """Return True if each line of the format holds the last samples of the trainer, whether new or not."""
    return bool(getattr(adapter, "repeats_rows", False))


def flat_format(adapter: Adapter) -> FlatFormat | None:
    """Return how the lines of the format can be read many at a time; None if they cannot."""
    return getattr(adapter, "flat_format", None)


def shares_evaluation(adapter: Adapter) -> str:
    """Return how evaluations get into a step's samples without a mark; empty if they do not."""
    return str(getattr(adapter, "shares_evaluation", ""))


def once_per_step(adapter: Adapter) -> str:
    """Return what a job logs only once for a step: a ``line``, or each value of the column of this name.

    If it is logged again, the job was resumed. Empty if a step may be logged in any way.
    """
    return str(getattr(adapter, "once_per_step", ""))


def for_file(adapter: Adapter, path: str) -> Adapter:
    """Return the adapter of one file, for formats in which other lines of the file decide what a line is."""
    bind: Callable[[str], Adapter] | None = getattr(adapter, "for_file", None)
    return adapter if bind is None else bind(path)


def place(adapter: Adapter, records: list[Record], offset: int) -> list[Record]:
    """Let the adapter add what follows from the line's place in its file, and return the records."""
    add = getattr(adapter, "place", None)
    if add is not None:
        add(records, offset)
    return records


def files_beside(adapter: Adapter) -> Mapping[str, BesideFile]:
    """Return the files that the adapter reads beside the run's own and that have faults, by name."""
    found = getattr(adapter, "beside", None)
    return {} if found is None else found()


def changed_lines(adapter: Adapter, before: Adapter) -> Mapping[int, set[str]] | None:
    """Return the lines that read otherwise than with the adapter before; None if any may.

    They are given by their offsets, with texts that each of them holds.
    """
    changed = getattr(adapter, "changed_lines", None)
    return None if changed is None else changed(before)


class RolloutFile(Protocol):
    """A growing log file: `poll` reads new complete lines, `fetch` reads one sample again."""

    path: str

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Read about ``budget`` bytes and yield at least one chunk; the caller must consume all of them."""

    def fetch(self, locator: Locator) -> Record:
        """Read the sample at a locator in full.

        Raises
        ------
        SourceChanged
            If the file has other bytes at this position now.
        """
