"""Counts what lint rules find in samples and in whole steps, in this process or in another one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import groupby
from typing import Any

import numpy as np

from rlpanel.errors import RLPanelError, describe_error
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.lint.lint_rule import EXAMPLES, LINT_RULES, LintRule, Marks, Tally
from rlpanel.lint.lint_samples import LintFacts, LintSamples
from rlpanel.lint.run_tokenizer import decoder_of, without_foreign_tokens
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Adapter, Locator, Record
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

# -- lint rows -----------------------------------------------------------------------------------------
# Reads samples of one step and counts what the rules find; in this process or in another one.


logger = logging.getLogger(__name__)

#: Counts by rule and variant.
Tallies = dict[str, dict[str, Tally]]


@dataclass(frozen=True)
class LintWork:
    """Samples of one step to read.

    Attributes
    ----------
    step : int
    rows : ndarray of int, shape (N,)
        Rows of the snapshot, in the order of reading.
    bounds : sequence of int
        Ends of the batches that are checked at a time.
    columns : mapping of str to ndarray, shape (N,)
        As `LintSamples` needs them.
    places : sequence of (str, Locator)
        Name of each sample's file, and its place in it.
    """

    step: int
    rows: np.ndarray
    bounds: Sequence[int]
    columns: Mapping[str, np.ndarray]
    places: Sequence[tuple[str, Locator]]


@dataclass
class Found:
    """Marks of some samples of one step, by rule.

    Attributes
    ----------
    read, unread : int
        Samples that were read, and whose line cannot be read any more.
    tallies : dict
    fields : Counter
        Number of samples that have each field.
    """

    read: int = 0
    unread: int = 0
    tallies: Tallies = field(default_factory=dict)
    fields: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        """Add what was found in later samples."""
        self.read, self.unread = self.read + other.read, self.unread + other.unread
        self.fields.update(other.fields)
        for name, tallies in other.tallies.items():
            known = self.tallies.setdefault(name, {})
            for variant, tally in tallies.items():
                known.setdefault(variant, Tally()).add(tally)


def lint_rows(
    work: LintWork, reader: Callable[[str], JsonlFile], facts: LintFacts, rules: Sequence[LintRule]
) -> Iterator[Found]:
    """Read samples and yield what the rules find in each batch.

    Parameters
    ----------
    work : LintWork
    reader : callable
        Returns the reader of a file by its name.
    facts : LintFacts
    rules : sequence of LintRule
        Rules of samples.
    """
    start = 0
    for end in work.bounds:
        read = list(_read(work, range(start, end), reader))
        kept = [at for at, _ in read]
        records = [without_foreign_tokens(each) if facts.foreign_tokenizer else each for _, each in read]
        found = Found(len(kept), end - start - len(kept))
        start = end
        if kept:
            columns = {name: values[kept] for name, values in work.columns.items()}
            samples = LintSamples(records, work.step, facts, columns)
            found.fields.update(samples.count_fields())
            rows, steps = work.rows[kept], np.full(len(kept), work.step)
            checkable = [rule for rule in rules if rule.is_checkable(found.fields)]
            found.tallies = {rule.name: tallies_of(rule, samples, rows, steps) for rule in checkable}
        yield found


def _read(
    work: LintWork, positions: Iterable[int], reader: Callable[[str], JsonlFile]
) -> Iterator[tuple[int, Record]]:
    """Yield positions and samples of a step; those whose line cannot be read any more are left out."""
    for name, group in groupby(positions, key=lambda at: work.places[at][0]):
        file, of_file = reader(name), list(group)
        lines = file.many_lines(work.places[at][1] for at in of_file)
        for at, line in zip(of_file, lines, strict=True):
            if line is not None:
                with suppress(RLPanelError, OSError, IndexError):
                    yield at, file.sample_of(line, work.places[at][1])


def tallies_of(rule: LintRule, samples: Any, rows: np.ndarray, steps: np.ndarray) -> dict[str, Tally]:
    """Return the counts of a rule by variant; of a rule that raises an error, the error."""
    try:
        found = rule.check(samples)
        by_variant = {"": found} if isinstance(found, Marks) else found
        return {variant: _tally(marks, rows, steps) for variant, marks in by_variant.items()}
    except MemoryError:
        raise
    except Exception as error:
        logger.warning("the lint rule %s failed", rule.name, exc_info=True)
        return {"": Tally(error=describe_error(error))}


def _tally(marks: Marks, rows: np.ndarray, steps: np.ndarray) -> Tally:
    """Count marks; the examples are the first samples that fail."""
    checked = int(np.count_nonzero(np.isfinite(marks.values)))
    is_failed = marks.values == 1
    if not np.count_nonzero(is_failed):
        return Tally(checked, remark=marks.remark, unclear=marks.unclear)
    failed = np.flatnonzero(is_failed)
    order = failed[np.lexsort((rows[failed], steps[failed]))][:EXAMPLES].tolist()
    examples = [(int(steps[at]), int(rows[at]), marks.details.get(at, "")) for at in order]
    first = int(steps[failed].min())
    return Tally(checked, len(failed), first, examples, marks.remark, unclear=marks.unclear)


#: Files of the run, facts and rules of a process that `begin_process` began.
_PROCESS: dict[str, Any] = {}


def begin_process(
    files: Mapping[str, tuple[str, Adapter]], facts: LintFacts, tokenizer: str, rules: Sequence[str]
) -> None:
    """Prepare a process that only reads plain JSON lines."""
    import_module("rlpanel.lint.linter")  # registers the rules
    facts = replace(facts, decode=decoder_of(tokenizer) if tokenizer else None)
    readers = {name: JsonlFile(path, name, adapter) for name, (path, adapter) in files.items()}
    _PROCESS.update(readers=readers, facts=facts, rules=[LINT_RULES[name] for name in rules])


def lint_in_process(work: LintWork) -> Found:
    """Return what is found in a whole step."""
    whole = Found()
    for found in lint_rows(work, _PROCESS["readers"].__getitem__, _PROCESS["facts"], _PROCESS["rules"]):
        whole.add(found)
    return whole


# -- step tallies --------------------------------------------------------------------------------------
# Counts of the rules that read whole steps: blocks of steps keep theirs until one of their steps changes.


#: Rows of a block, unless a single step has more: one block is marked again when a step is added.
BLOCK_ROWS = 4096


@dataclass
class StepTallies:
    """Counts of the rules of steps for the complete steps of a run that grows.

    Steps are divided into blocks from the first one on, so that the blocks of a run, and what the rules find
    in them, are the same whether it was checked once at its end or while it grew.

    Parameters
    ----------
    rules : sequence of LintRule
        Rules of steps.
    block_rows : int
        Rows of a block, unless a single step has more.
    settings : mapping
        Settings of the run by dotted name.
    """

    rules: Sequence[LintRule]
    block_rows: int = BLOCK_ROWS
    settings: Mapping[str, Any] = field(default_factory=dict)
    _blocks: dict[tuple[int, ...], Tallies] = field(default_factory=dict)
    _facts: tuple[object, ...] = ()
    _checked: tuple[int, int] = (-1, -1)

    def update(self, view: RunView, newest: int) -> None:
        """Mark the blocks with steps up to the newest complete one that were added or changed."""
        snapshot = view.snapshot
        if self._facts != (facts := (repr(self.settings), *_facts(view))):
            self._facts, self._blocks, self._checked = facts, {}, (-1, -1)
        if self._checked == (snapshot.version, newest):
            return
        changed = set(snapshot.steps.values[snapshot.steps.changed_since(self._checked[0])].tolist())
        steps = snapshot.steps.values
        steps, sizes = steps[steps <= newest], snapshot.steps.samples[steps <= newest]
        kept: dict[tuple[int, ...], Tallies] = {}
        rows = _AliveRows(snapshot)
        for first, last in blocks_of(sizes, self.block_rows):
            # A group may be divided between a block's last step and the next one.
            around = tuple(steps[max(first - 1, 0) : last + 1].tolist())
            known = self._blocks.get(around)
            if known is None or not changed.isdisjoint(around):
                known = self._tallies(view, rows, steps, first, last)
            kept[around] = known
        self._blocks, self._checked = kept, (snapshot.version, newest)

    def totals(self) -> Tallies:
        """Return the counts of all blocks, by rule and variant."""
        found: Tallies = {}
        for tallies in self._blocks.values():
            for name, variants in tallies.items():
                known = found.setdefault(name, {})
                for variant, tally in variants.items():
                    known.setdefault(variant, Tally()).add(tally)
        return found

    def _tallies(self, view: RunView, rows: _AliveRows, steps: np.ndarray, first: int, last: int) -> Tallies:
        """Return the counts of the rules in the steps from ``first`` up to ``last``, which is left out."""
        own = rows.between(steps[first], steps[last - 1])
        if not len(own):
            return {}
        batch = RowBatch(view, own, steps[first:last])
        of_row, found = batch.metadata("step"), {}
        for rule in self.rules:
            if rule.by_settings:
                rule = replace(rule, check=partial(rule.check, settings=self.settings))
            if not rule.beside or len(steps) == last - first:
                found[rule.name] = tallies_of(rule, batch, own, of_row)
                continue
            beside = steps[max(first - 1, 0) : last + 1]
            wide = RowBatch(view, rows.between(beside[0], beside[-1]), beside)
            found[rule.name] = tallies_of(replace(rule, check=_Part(rule, own)), wide, own, of_row)
        return found


@dataclass(frozen=True)
class _Part:
    """The check of a rule whose marks are those of some of the rows that it reads."""

    rule: LintRule
    own: np.ndarray

    def __call__(self, rows: RowBatch) -> Marks | dict[str, Marks]:
        found, at = self.rule.check(rows), np.searchsorted(rows.rows, self.own)
        if isinstance(found, Marks):
            return self._of(found, at)
        return {variant: self._of(marks, at) for variant, marks in found.items()}

    def _of(self, marks: Marks, at: np.ndarray) -> Marks:
        places = enumerate(at.tolist())
        details = {new: marks.details[old] for new, old in places if old in marks.details}
        return replace(marks, values=marks.values[at], details=details)


class _AliveRows:
    """Rows that count, by range of steps."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows = snapshot.alive_rows
        self._steps = snapshot.metadata("step")[self._rows]
        #: Usually rows arrive step by step, so that a range of steps is a range of rows.
        self._is_sorted = bool((np.diff(self._steps) >= 0).all())

    def between(self, first: int, last: int) -> np.ndarray:
        """Return the rows of the steps from ``first`` to ``last``, ascending."""
        if self._is_sorted:
            ends = np.searchsorted(self._steps, [first, last + 1])
            return self._rows[ends[0] : ends[1]]
        return self._rows[(self._steps >= first) & (self._steps <= last)]


def blocks_of(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield first position and end of blocks of consecutive steps.

    Parameters
    ----------
    sizes : ndarray of int, shape (S,)
        Samples of each step.
    most : int
        Largest number of samples of a block, unless a single step has more.
    """
    first = total = 0
    for position, size in enumerate(sizes.tolist()):
        if total and total + size > most:
            yield first, position
            first, total = position, 0
        total += size
    if len(sizes):
        yield first, len(sizes)


def _facts(view: RunView) -> tuple[object, ...]:
    """Return the facts of the whole run that the marks of any step depend on."""
    snapshot = view.snapshot
    columns = tuple(snapshot.has_number(name) for name in ("advantage", "value_mean", "token_advantage_mean"))
    whole = (snapshot.has_episodes, view.grouped, snapshot.group_codes is None, snapshot.split)
    return repr(dict(snapshot.constants.logged)), *whole, *columns
