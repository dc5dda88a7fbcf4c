"""Reads samples back from their files, by the locators of their rows: one of them, or many with a tally."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from rlpanel import schema
from rlpanel.errors import RLPanelError, SourceChanged
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.metrics.engine.compute import token_values
from rlpanel.metrics.engine.derived_arrays import derived_of_sample
from rlpanel.metrics.logged_arrays import array_names
from rlpanel.metrics.token_tally import TokenTally
from rlpanel.schema import Sample
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.field_values import AgentFields
from rlpanel.sources.records.record_types import Locator, Record
from rlpanel.store.columns.logged_columns import all_tokens, unfit_note
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot


def fetch_record(index: RunIndex, snapshot: Snapshot, row: int) -> Record:
    """Read the record of a row from its file; SourceChanged if the file has changed."""
    return index.reader(snapshot.file(row)).fetch(snapshot.locator(row))


def fetch_texts(index: RunIndex, snapshot: Snapshot, row: int) -> dict[str, str]:
    """Read only the texts of a row from its file, as `fetch_record` does."""
    return index.reader(snapshot.file(row)).texts(snapshot.locator(row))


def fetch_many_texts(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray
) -> Iterator[dict[str, str] | None]:
    """Yield the texts of rows, or None where the line cannot be read any more.

    A file is opened once for consecutive rows of it, so rows in the order of the files are read fastest.
    """
    columns = [snapshot.metadata(name)[rows] for name in ("file", "offset", "length", "part", "hash")]
    file, offset, length, part, digest = (column.tolist() for column in columns)
    places = zip(file, offset, length, snapshot.lines(rows).tolist(), part, digest, strict=True)
    for number, group in groupby(places, key=lambda place: place[0]):
        reader = index.reader(snapshot.files[number])
        yield from reader.many_texts(Locator(*place[1:]) for place in group)


def native_lines(reader: Any, locators: Sequence[Locator]) -> Iterator[bytes | None]:
    """Yield the lines of samples in the native format, which rlpanel's recorder writes; None for others.

    None also stands for a line that cannot be read any more; the reader's ``fetch`` then raises its error.

    Parameters
    ----------
    reader : reader of a file
    locators : sequence of Locator
    """
    if isinstance(reader, JsonlFile) and isinstance(reader.adapter, Native):
        yield from reader.many_lines(locators)
    else:
        yield from (None for _ in locators)


def file_order(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the positions of ``rows`` in the order in which the files hold them, shape (N,)."""
    return np.lexsort([snapshot.metadata(name)[rows] for name in ("part", "offset", "file")])


def fetch_all_texts(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> list[dict[str, str] | None]:
    """Return what `fetch_many_texts` yields, in the order of ``rows``, but open each file once."""
    order = file_order(snapshot, rows)
    texts = dict(zip(order.tolist(), fetch_many_texts(index, snapshot, rows[order]), strict=True))
    return [texts[position] for position in range(len(rows))]


def fetch(index: RunIndex, view: RunView, row: int, *, derived: bool = True) -> Sample:
    """Read the sample of a row from its file, with the columns that depend on its group if ``derived``."""
    snapshot = view.snapshot
    try:
        record = fetch_record(index, snapshot, row)
    except IndexError as error:
        raise SourceChanged(
            f"{snapshot.uid(row)}: its line now holds fewer samples than when it was indexed"
        ) from error
    numbers = {name: float(snapshot.number(name)[row]) for name in snapshot.numbers}
    numbers.update({alias: numbers[name] for alias, name in ALIASES.items() if name in numbers})
    values: dict[str, Any] = {name: record.numbers[name] for name in schema.NUMBERS if name in record.numbers}
    values.update({name: record.labels[name] for name in schema.LABELS if name in record.labels})
    values.update(record.texts)
    values.update({name: array for name, array in record.arrays.items() if name in schema.ARRAYS})
    if record.agent is not None:
        values |= _agent_values(record.agent)
    arrays = set(array_names(snapshot.numbers))
    unfit = [
        unfit_note(name, length, all_tokens(record))
        for name, length in record.unfit.items()
        if name in arrays
    ]
    if derived:
        numbers |= {name: float(view.values(name, np.array([row]))[0]) for name in view.derived}
    locator = snapshot.locator(row)
    return Sample(
        uid=snapshot.uid(row),
        step=record.step,
        rank=int(snapshot.metadata("rank")[row]),
        file=snapshot.file(row),
        line=locator.line,
        offset=locator.offset,
        response_tokens=record.tokens,
        messages=record.messages,
        prompt_messages=record.prompt_messages,
        derived=derived_of_sample(record.arrays, record.numbers, snapshot.constants),
        token_arrays={name: array for name, array in record.arrays.items() if name in arrays},
        top_logprobs=record.alternatives,
        columns=numbers,
        extra=record.extra,
        notes=(*record.notes, *unfit),
        **values,
    )


def _agent_values(fields: AgentFields) -> dict[str, Any]:
    values = {field.name: getattr(fields, field.name) for field in dataclasses.fields(fields)}
    return values | {"images": tuple(fields.images), "media": tuple(fields.media)}


#: Seconds between two progress results.
PULSE = 0.25

#: Maximum bytes of log to read for one ranking; of more, only the first samples are counted.
MAX_BYTES = 256 << 20

#: Measure that no metric declares: the absolute difference of value and return.
VALUE_ERROR = "value_error"


@dataclass(frozen=True)
class TallyProgress:
    """State of the tally; its sample numbers are indices into ``samples``.

    Attributes
    ----------
    samples : tuple of (str, int)
        Uid and line hash of the samples to read, in reading order.
    read : int
        Number of samples that were read.
    tally : TokenTally
        Not changed after it was published.
    first_tokens : sequence of str
        Tokens of the first sample that has some, which tell how the run's tokens are encoded.
    """

    samples: tuple[tuple[str, int], ...] = ()
    read: int = 0
    tally: TokenTally = field(default_factory=TokenTally)
    first_tokens: Sequence[str] = ()

    @cached_property
    def samples_read(self) -> frozenset[tuple[str, int]]:
        """Samples that were read."""
        return frozenset(self.samples[: self.read])

    @property
    def complete(self) -> bool:
        """True if all samples were read."""
        return self.read == len(self.samples)


@dataclass(frozen=True)
class TokenReader:
    """Reads and tallies samples with a given KL estimator and pad token."""

    index: RunIndex
    kl: str
    pad_token: str
    pulse: float = PULSE

    def read(self, snapshot: Snapshot, rows: np.ndarray, before: TallyProgress) -> Iterator[TallyProgress]:
        """Add ``rows`` to the tally ``before``; yield progress first, every ``pulse`` seconds and last."""
        samples = before.samples[: before.read] + tuple(sample_keys(snapshot, rows))
        progress = replace(before, samples=samples, tally=before.tally.copy())
        yield replace(progress, tally=before.tally)
        last_yield = time.monotonic()
        for row in rows.tolist():
            progress = self._add(progress, snapshot, row)
            if time.monotonic() - last_yield > self.pulse and not progress.complete:
                last_yield = time.monotonic()
                yield replace(progress, tally=progress.tally.copy())
        progress.tally.merge()
        yield progress

    def _add(self, progress: TallyProgress, snapshot: Snapshot, row: int) -> TallyProgress:
        """Add one sample to the tally of ``progress``, in place, and return the new progress."""
        after = replace(progress, read=progress.read + 1)
        try:
            record = fetch_record(self.index, snapshot, row)
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            return after
        if not record.tokens:
            return after
        counted = self._counted(record.tokens, record.arrays.get("loss_mask"))
        progress.tally.add(progress.read, record.tokens, measures(record.arrays, self.kl), counted)
        return replace(after, first_tokens=progress.first_tokens or record.tokens)

    def _counted(self, tokens: Sequence[str], mask: np.ndarray | None) -> np.ndarray:
        """Return a mask of the tokens to count: neither pad tokens nor tokens masked from the loss."""
        counted = np.array([not self.pad_token or token != self.pad_token for token in tokens], bool)
        return counted & (mask != 0) if mask is not None and len(mask) == len(counted) else counted


def sample_keys(snapshot: Snapshot, rows: np.ndarray) -> list[tuple[str, int]]:
    """Return uid and line hash of each row; the hash detects a file that was rewritten with other lines."""
    return list(zip(snapshot.uids(rows), snapshot.metadata("hash")[rows].tolist(), strict=True))


def within_limit(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the first rows whose lines have at most `MAX_BYTES` bytes together."""
    return rows[np.cumsum(snapshot.metadata("length")[rows]) <= MAX_BYTES]


def measures(arrays: Mapping[str, np.ndarray], kl: str) -> dict[str, np.ndarray]:
    """Return the measures for ranking that these arrays allow: KL, surprisal, absolute value error."""
    values = token_values(arrays)
    candidates = {name: values.get(name) for name in (kl, "surprisal")}
    value, returned = values.get("value"), values.get("token_return")
    if value is not None and returned is not None and len(value) == len(returned):
        candidates[VALUE_ERROR] = np.abs(value - returned)
    return {name: array for name, array in candidates.items() if array is not None}
