"""What passes between the parts that read: records, bad lines, chunks, and the two protocols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

#: Samples in one line: a row keeps which of them it is in 16 bits.
MOST_SAMPLES = 2**16 - 1


@dataclass(slots=True)
class Record:
    """One sample as an adapter reads it.

    Attributes
    ----------
    step, rank : int
        ``rank`` is -1 where the line does not tell.
    numbers, labels : dict
        Sample columns: floats (NaN for null) and short texts.
    arrays : dict of str to ndarray of float64, shape (T,)
    texts, tokens, extra
        Only what was asked for: ``prompt`` and ``response`` always, the rest when read in full.
    notes : list of str
        What was odd, in words; the sample is kept without the odd part.
    """

    step: int
    rank: int = -1
    numbers: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    tokens: list[str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Locator(NamedTuple):
    """Where a sample's bytes stand: line ``line`` (from 1), ``length`` bytes from ``offset``.

    ``part`` counts the samples of one line; ``hash`` is the line's xxh3, checked when it is read again.
    """

    offset: int
    length: int
    line: int
    part: int
    hash: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no sample, and why."""

    line: int
    offset: int
    reason: str


class Several(Protocol):
    """Samples, one after another."""

    def __len__(self) -> int: ...

    def records(self) -> list[Record]:
        """The samples one by one."""


class Records(list[Record]):
    """Samples that are records already."""

    def records(self) -> list[Record]:
        """Themselves."""
        return self


@dataclass(slots=True)
class Chunk:
    """What one look at a file brought.

    Attributes
    ----------
    generation : int
        Counts how often the file was replaced; rows of earlier generations are dead.
    places : list
        A locator a sample, in the order of the lines; as plain tuples, which cost less.
    parts : list
        The samples, in the same order: as records, or many as one.
    more : bool
        Whether whole lines may be waiting behind the budget.
    """

    generation: int = 0
    places: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    parts: list[Several] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    good_lines: int = 0
    blank_lines: int = 0
    bytes: int = 0
    more: bool = False

    def __len__(self) -> int:
        return len(self.places)

    @property
    def locators(self) -> list[Locator]:
        """Where each sample stands."""
        return list(map(Locator._make, self.places))

    @property
    def records(self) -> list[Record]:
        """The samples one by one."""
        return [record for part in self.parts for record in part.records()]

    def add(self, records: list[Record]) -> None:
        """The samples of a further line."""
        last = self.parts[-1] if self.parts else None
        if isinstance(last, Records):
            last += records
        else:
            self.parts.append(Records(records))


class Adapter(Protocol):
    """One trainer's dialect of a JSON line.

    A record's texts are strings of the line as they stand there, or several of them with brackets, signs and
    blanks between: a search looks for their bytes (`rlpanel.store.query.text_scan`).

    Attributes
    ----------
    name : str
    looks : str
        What its files look like, for a person whose folder was not recognised.
    """

    @property
    def name(self) -> str:
        """Tells this dialect from others."""

    @property
    def looks(self) -> str:
        """What its files look like."""

    def accepts(self, path: str, document: Mapping[str, Any]) -> bool:
        """Whether a file named ``path`` whose first line is ``document`` is in this dialect."""

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """The samples of a line.

        Parameters
        ----------
        document : mapping
            The parsed line; arrays may be lazy (see `json_parser`) and must not be kept.
        path : str
            The file's path below the run, for what only its name tells.
        full : bool
            Whether all texts, the tokens and unknown keys are wanted too.

        Raises
        ------
        LineError
            If the line is no sample.
        """


class RolloutFile(Protocol):
    """A file that grows: whole lines by `poll`, one sample again by `fetch`."""

    path: str

    def poll(self, budget: int) -> Iterator[Chunk]:
        """New records, reading about ``budget`` bytes at most; at least one chunk, all to be taken."""

    def fetch(self, locator: Locator) -> Record:
        """The sample at a locator, in full.

        Raises
        ------
        SourceChanged
            If other bytes stand there now.
        """


_RANK = re.compile(r"rank[_-]?(\d{1,9})(?!\d)")


@lru_cache(maxsize=1024)
def rank_of(path: str) -> int:
    """The rank that a file's name tells (``rollout_data_rank_3.jsonl`` → 3), or -1."""
    found = _RANK.search(path.rsplit("/", 1)[-1])
    return int(found.group(1)) if found else -1


_EVAL = re.compile(r"_val\d*(?:[._]|$)")


@lru_cache(maxsize=1024)
def is_eval(path: str) -> bool:
    """Whether a file's name says that it holds evaluation samples (``rollout_data_rank0_val2.jsonl``)."""
    return bool(_EVAL.search(path.rsplit("/", 1)[-1]))


def number_in(path: str) -> int | None:
    """The number that is a file's whole name (``12.jsonl`` → 12), or None."""
    stem = path.rsplit("/", 1)[-1].partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else None
