"""Reads samples of one step and counts what the rules find; in this process or in another one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import groupby
from typing import Any

import numpy as np

from rlpanel.errors import RLPanelError, describe_error
from rlpanel.lint.lint_result import EXAMPLES, Tally
from rlpanel.lint.lint_rule import LINT_RULES, LintRule, Marks
from rlpanel.lint.lint_samples import LintFacts, LintSamples
from rlpanel.lint.run_tokenizer import decoder_of, without_foreign_tokens
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Adapter, Locator, Record

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
