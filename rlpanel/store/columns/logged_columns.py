"""Columns of what a line logs: counts in texts, calls, splits of failures, and undeclared arrays."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import contains

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.metrics.engine.constants import Constants
from rlpanel.metrics.engine.ragged import Ragged, empty_for_none, missing
from rlpanel.metrics.logged_arrays import array_columns, array_names
from rlpanel.metrics.scripts import foreign_shares
from rlpanel.metrics.special_tokens import prompt_echoes, special_token_counts
from rlpanel.schema import (
    ARRAYS,
    BY_NAME,
    FIELD_REMARKS,
    LABEL_MAX,
    MAX_TOKEN_ARRAYS,
    TOKEN_ARRAYS_LEFT_OUT,
    TOKEN_COLUMNS,
    TOKEN_MEAN,
    TOOL_CALLS,
    TOOL_ERRORS,
)
from rlpanel.sources.records.conversation import OTHER
from rlpanel.sources.records.field_values import STEP_LIMIT, text_number
from rlpanel.sources.records.json_parser import to_float
from rlpanel.sources.records.record_types import Record
from rlpanel.store.columns.splits import DISCARDED, SPLIT_COLUMN, TRAIN, discarded_split

# -- logged columns ------------------------------------------------------------------------------------
# Columns of what a line logs: counts in its texts, calls of its tools, and the split of failures.
#
# A failure of the environment says nothing about the policy, and a discarded sample was not trained on. A
# time-out or a tool's error is the policy's own result unless the trainer left it out, which its adapter
# knows.


Texts = Sequence[str | None]
#: So many samples are counted at a time: fewer cost more calls of numpy, and more cost memory.
TEXTS_AT_ONCE = 1024


def text_columns(
    prompts: Texts, responses: Texts, *, at_once: int = TEXTS_AT_ONCE
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the columns of N samples that their texts give, and the texts' hashes.

    Parameters
    ----------
    prompts, responses : sequences of str or None, length N
        None if the text was not logged.
    at_once : int
        Number of samples that are counted at a time.

    Returns
    -------
    columns : dict of str to ndarray of float, shape (N,)
        ``invalid_chars``, ``special_tokens``, ``prompt_echo`` and ``foreign_script``, without those that have
        no value.
    hashes : dict of str to ndarray of uint64, shape (N,)
        ``prompt_hash`` and ``response_hash``; equal texts have equal hashes. None has that of an empty text.
    """
    starts = range(0, len(responses), at_once) or [0]
    slices = [slice(start, start + at_once) for start in starts]
    parts = [_read_texts(prompts[part], responses[part]) for part in slices]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    hashes = {name: joined.pop(name) for name in ("prompt_hash", "response_hash")}
    return {name: column for name, column in joined.items() if not np.isnan(column).all()}, hashes


def _read_texts(prompts: Texts, responses: Texts) -> dict[str, np.ndarray]:
    asked, encoded = empty_for_none(prompts), list(map(str.encode, empty_for_none(responses)))
    distinct = dict.fromkeys(asked)  # the samples of a group share a prompt
    hash_of = dict(zip(distinct, map(xxh3_64_intdigest, map(str.encode, distinct)), strict=True))
    return {
        "response_hash": np.fromiter(map(xxh3_64_intdigest, encoded), np.uint64, len(encoded)),
        "prompt_hash": np.fromiter(map(hash_of.__getitem__, asked), np.uint64, len(encoded)),
        "invalid_chars": _invalid_chars(responses),
        "special_tokens": special_token_counts(responses, encoded),
        "prompt_echo": prompt_echoes(prompts, responses),
        "foreign_script": foreign_shares(prompts, responses),
    }


def _invalid_chars(texts: Texts) -> np.ndarray:
    """Return the number of U+FFFD per text; the decoder puts one in place of invalid UTF-8."""
    known, counts = empty_for_none(texts), np.zeros(len(texts))
    for row in compress(range(len(known)), map(contains, known, repeat("\ufffd"))):
        counts[row] = known[row].count("\ufffd")
    counts[missing(texts)] = np.nan
    return counts


#: Most tools with columns of their own, in order of appearance.
MAX_TOOLS = 20


class ToolNames:
    """Tools of a run that have columns of their own."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def declare(self, columns: Iterable[str]) -> list[str]:
        """Give columns to the tools named by some columns, as far as there is room; return the others."""
        beyond = []
        for column in columns:
            if not column.startswith(TOOL_CALLS):
                continue
            tool = column.removeprefix(TOOL_CALLS)
            if tool in self._known or tool == OTHER:
                continue
            if len(self._known) < MAX_TOOLS:
                self._known.add(tool)
            else:
                beyond.append(tool)
        return beyond

    def fold_rows(self, rows: Sequence[dict[str, float]], columns: Iterable[str]) -> None:
        """Add the numbers of tools beyond the limit to those of ``other``, in each row."""
        beyond = {
            prefix + tool: prefix + OTHER
            for tool in self.declare(columns)
            for prefix in (TOOL_CALLS, TOOL_ERRORS)
        }
        for row in rows if beyond else ():
            for column in [column for column in row if column in beyond]:
                other = beyond[column]
                row[other] = row.get(other, 0.0) + row.pop(column)

    def fold_columns(self, numbers: dict[str, np.ndarray]) -> None:
        """Add the columns of tools beyond the limit to those of ``other``; NaN counts as no call."""
        for tool in self.declare(list(numbers)):
            for prefix in (TOOL_CALLS, TOOL_ERRORS):
                column = numbers.pop(f"{prefix}{tool}", None)
                if column is not None:
                    numbers[f"{prefix}{OTHER}"] = _sum(numbers.get(f"{prefix}{OTHER}"), column)


def _sum(one: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    if one is None:
        return other
    total = np.nan_to_num(one) + np.nan_to_num(other)
    return np.where(np.isnan(one) & np.isnan(other), np.nan, total)


#: Statuses of rollouts that do not count as samples of the policy.
EXCLUDED = frozenset({"environment_error", "discarded"})
_Labels = Mapping[str, Sequence[str | None]]


def separate_failed(labels: _Labels, constants: Constants) -> _Labels:
    """Return the label columns with split ``discarded`` for rows whose status is in `EXCLUDED`.

    The constant ``count_failed`` switches this off. Failed rows of another split, such as eval, go to
    ``discarded eval``.
    """
    status = labels.get("status")
    if status is None or constants.get("count_failed") or EXCLUDED.isdisjoint(status):
        return labels
    splits = labels.get(SPLIT_COLUMN) or [None] * len(status)
    moved = [
        _split_of_failed(split) if state in EXCLUDED else split
        for state, split in zip(status, splits, strict=True)
    ]
    return {**labels, SPLIT_COLUMN: moved}


def _split_of_failed(split: str | None) -> str:
    if split is not None and split.startswith(DISCARDED):
        return split
    return discarded_split(split or TRAIN)


#: Where a remark goes on with a value of the sample, or with what was done.
_VALUE = re.compile(r"; |: | \(")
_LENGTHS = re.compile(r"has [\d,]+ values for [\d,]+ (\w+)")
_DIGITS = re.compile(r"\d[\d,]*")


def field_remarks(notes: Iterable[str]) -> str:
    """Return the remarks on a sample without its values, so that many samples have the same ones."""
    kinds = (_LENGTHS.sub(r"has not as many values as \1", _VALUE.split(note, 1)[0]) for note in notes)
    text = ""
    for kind in dict.fromkeys(_DIGITS.sub("N", kind) for kind in kinds):
        longer = f"{text}; {kind}" if text else kind
        text = longer if len(longer) <= LABEL_MAX else text
    return text or "other"


def texts_as_numbers(
    labels: _Labels, numbers: Mapping[str, np.ndarray], known: Collection[str], settled: Collection[str]
) -> tuple[_Labels, Mapping[str, np.ndarray]]:
    """Move the texts of numbers, such as "True" and "tensor(0.5)", to number columns.

    The column decides: its texts are moved if it holds numbers, too, or if no row has another text and some
    are as Python writes numbers. Texts such as "4" alone may be answers, and stay.

    Parameters
    ----------
    labels, numbers : mapping
        Columns of new rows.
    known, settled : collection of str
        Number columns so far, and label columns of earlier rows.
    """
    labels_left, moved = dict(labels), dict(numbers)
    for name, texts in labels.items():
        if name in BY_NAME or name == FIELD_REMARKS or (name in settled and name not in known):
            continue
        read = _numbers_of(texts, name in known)
        if not read:
            continue
        values = np.array([read.get(text, np.nan) for text in texts])
        logged = moved.get(name)
        moved[name] = values if logged is None else np.where(np.isnan(values), logged, values)
        left = [None if text in read else text for text in texts]
        labels_left[name] = left
        if not any(text is not None for text in left):
            del labels_left[name]
    return (labels_left, moved) if len(moved) > len(numbers) or labels_left != labels else (labels, numbers)


def _numbers_of(texts: Texts, has_numbers: bool) -> dict[str | None, float]:
    """Return the numbers of a column's texts that are to be moved, by text."""
    read: dict[str | None, float] = {}
    is_python = False
    for text in dict.fromkeys(texts):
        if text is None:
            continue
        number = _number_of(text)
        if number is not None:
            read[text] = number
            is_python = is_python or not _is_plain(text)
        elif not (has_numbers or text.startswith(_TENSORS)):
            return {}
    return read if has_numbers or is_python else {}


#: Beginnings of texts of several numbers, which stay texts in a column of numbers.
_TENSORS = ("tensor(", "array(")


def _number_of(text: str) -> float | None:
    """Return the number in a text; None if it is not one, or an integer that a float would round."""
    try:
        number = text_number(text)
    except ValueError:
        return None
    return None if STEP_LIMIT <= abs(number) < math.inf else number


def _is_plain(text: str) -> bool:
    try:
        to_float(text)
    except ValueError:
        return False
    return True


# -- token arrays --------------------------------------------------------------------------------------
# The undeclared token arrays of a run: which of them have columns, and which samples lack them.


_FIELDS = frozenset(ARRAYS)
#: Most names of lists whose lengths are compared with the tokens.
_MAX_LISTS = 1024


class TokenArrays:
    """Admits the token arrays of a run, in order of appearance.

    A list may be as long as the tokens by chance. It is one of tokens if it was so more often than not.
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self._fitting: Counter[str] = Counter()
        self._unfit: Counter[str] = Counter()

    def declare(self, columns: Iterable[str]) -> None:
        """Admit the arrays that have columns already, as far as there is room."""
        for name in array_names(columns):
            if len(self.names) < MAX_TOKEN_ARRAYS:
                self.names[name] = None

    def note_batch(self, counts: Mapping[str, np.ndarray]) -> None:
        """Count the lists of a batch of columns, which all fit; by name, their lengths."""
        for name, lengths in counts.items():
            if name not in _FIELDS:
                self._fitting[name] += len(lengths)

    def note_lengths(self, records: Sequence[Record]) -> None:
        """Count the lists of some samples that fit their tokens, and note those of other lengths."""
        found = [name for record in records for name in record.arrays if name not in _FIELDS]
        unfit = [name for record in records for name in record.unfit]
        for counter, names in ((self._fitting, found), (self._unfit, unfit)):
            counter.update(names if len(counter) < _MAX_LISTS else [n for n in names if n in counter])
        for record in records:
            for name, length in record.unfit.items():
                if self._fitting[name] > self._unfit[name]:
                    record.notes.append(unfit_note(name, length, all_tokens(record)))

    def columns(self, fields: Mapping[str, Ragged]) -> dict[str, np.ndarray]:
        """Return the columns of a batch's admitted arrays, and of how many others each sample has."""
        others = [name for name in fields if name not in _FIELDS]
        for name in others:
            if len(self.names) < MAX_TOKEN_ARRAYS and self._unfit[name] < max(1, self._fitting[name]):
                self.names.setdefault(name)
        columns = array_columns(fields, [name for name in others if name in self.names])
        surplus = [fields[name].counts > 0 for name in others if self._is_beyond(name)]
        return columns | ({TOKEN_ARRAYS_LEFT_OUT: _counts(np.sum(surplus, 0))} if surplus else {})

    def fold(self, numbers: dict[str, np.ndarray]) -> None:
        """Replace the columns of arrays that are not admitted by their number, in place.

        The columns are those of a part of the run that another process read.
        """
        self.declare(numbers)
        surplus = [name for name in array_names(numbers) if name not in self.names]
        beyond = [~np.isnan(numbers[TOKEN_MEAN + name]) for name in surplus]
        for prefix in TOKEN_COLUMNS:
            for name in surplus:
                numbers.pop(prefix + name, None)
        if beyond:
            before = np.nan_to_num(numbers[TOKEN_ARRAYS_LEFT_OUT]) if TOKEN_ARRAYS_LEFT_OUT in numbers else 0
            numbers[TOKEN_ARRAYS_LEFT_OUT] = _counts(np.sum(beyond, 0) + before)

    def _is_beyond(self, name: str) -> bool:
        return name not in self.names and len(self.names) == MAX_TOKEN_ARRAYS


def _counts(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers > 0, numbers, np.nan).astype(float)


def all_tokens(record: Record) -> int:
    """Return the number of a sample's response tokens, with those of tools and environments."""
    return int(record.numbers.get("trajectory_tokens", record.numbers.get("response_tokens", 0)))


def unfit_note(name: str, length: int, tokens: int) -> str:
    """Return the note on an array that has another length than the tokens."""
    return f"{name!r} has {length:,} values for {tokens:,} tokens; it is left out"
