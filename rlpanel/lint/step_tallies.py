"""Counts of the rules that read whole steps: blocks of steps keep theirs until one of their steps changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rlpanel.findings.engine.signal import RowBatch
from rlpanel.lint.lint_result import Tally
from rlpanel.lint.lint_rows import Tallies, tallies_of
from rlpanel.lint.lint_rule import LintRule, Marks
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

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
