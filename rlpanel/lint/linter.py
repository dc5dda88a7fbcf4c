"""Lints a run step by step: each line is read once, and what was found is kept while the run grows.

Rules of samples read new rows only. Rules of steps need whole groups: they mark the complete steps from their
columns again if rows were added, without reading a line.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rlpanel.errors import RLPanelError, describe_error
from rlpanel.findings.engine.signal import StepBlocks
from rlpanel.lint import advantage_rules, group_rules, logprob_rules, mask_rules, secret_rules, token_rules
from rlpanel.lint.lint_result import EXAMPLES, STATES, Example, RuleResult, Tally, judged
from rlpanel.lint.lint_rule import LINT_RULES, PARTS, LintRule, Marks
from rlpanel.lint.lint_samples import LintFacts, LintSamples
from rlpanel.lint.run_tokenizer import RunTokenizer
from rlpanel.sources.records.record_types import Record
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record, file_order
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from rlpanel.store.snapshot.step_metric_cache import group_keys

logger = logging.getLogger(__name__)

__all__ = ["LINT_RULES", "LintProgress", "Linter", "linter_of"]

#: The modules whose import registers the rules, in the order of `PARTS`.
RULE_MODULES = (token_rules, mask_rules, group_rules, advantage_rules, logprob_rules, secret_rules)
#: Samples that are read, and checked, at a time.
BATCH = 256


@dataclass(frozen=True)
class LintProgress:
    """Results so far.

    Attributes
    ----------
    read, total : int
        Samples that were read, and that are to be read.
    samples : int
        Samples of the split.
    unread : int
        Samples whose line cannot be read any more.
    tokenizer : str
        Reason why the run's tokenizer is not used; empty if it is, or if none is named.
    results : tuple of RuleResult
        One for each rule: failed first, then passed, then not checkable. Empty while samples are read.
    """

    read: int
    total: int
    samples: int
    unread: int = 0
    tokenizer: str = ""
    results: tuple[RuleResult, ...] = ()

    @property
    def failed(self) -> bool:
        """True if a rule failed."""
        return any(result.state == "failed" for result in self.results)


Tallies = dict[str, dict[str, Tally]]


@dataclass
class _StepState:
    """What was found in the samples of one step, by rule and variant.

    Attributes
    ----------
    rows : int
        Number of rows that were read, or left out because of the limit.
    last : int
        The last one of them.
    read, unread : int
        Samples that were read, and whose line cannot be read any more.
    tallies : dict
    fields : Counter
        Number of samples that have each field.
    """

    rows: int = 0
    last: int = -1
    read: int = 0
    unread: int = 0
    tallies: Tallies = field(default_factory=dict)
    fields: Counter[str] = field(default_factory=Counter)


class Linter:
    """State of the lint of one split of a run.

    Parameters
    ----------
    index : RunIndex
    rules : sequence of str, optional
        Names of the rules to check; all by default.
    most : int, optional
        Largest number of samples of a step that are read; all by default.
    pad_token : str
    """

    def __init__(
        self,
        index: RunIndex,
        rules: Sequence[str] | None = None,
        *,
        most: int | None = None,
        pad_token: str = "",
    ) -> None:
        self._index, self._most, self._pad = index, most, pad_token
        self.rules = [LINT_RULES[name] for name in rules] if rules is not None else list(LINT_RULES.values())
        self._lock = threading.Lock()
        self._steps: dict[int, _StepState] = {}
        self._truths: dict[int, dict[int, str]] = {}
        self._of_steps: Tallies = {}
        self._checked_steps: tuple[Any, ...] = ()

    def update(self, view: RunView, now: float) -> Iterator[LintProgress]:
        """Read the samples that are new; yield progress after each batch, and last the results.

        If the iterator is closed before its end, whole steps that were read stay read.

        Parameters
        ----------
        view : RunView
        now : float
            Seconds since the epoch; decides whether rules of steps use the newest step.
        """
        snapshot = view.snapshot
        tokenizer = RunTokenizer.of(snapshot.constants.logged, self._index, snapshot)
        first = int(snapshot.steps.values[0]) if len(snapshot.steps.values) else 0
        facts = LintFacts(snapshot.constants.logged, first, self._pad, tokenizer.decode, self._truths)
        with self._lock:
            wanted = self._new_rows(snapshot)
        total, read = sum(len(new) for _, _, new in wanted), 0
        for step, before, new in wanted:
            state = deepcopy(before)
            state.rows, state.last = state.rows + len(new), int(new[-1])
            for part in _parts(snapshot, new[: self._room(state)]):
                if any(rule.scope == "samples" for rule in self.rules):
                    _lint_rows(self._index, snapshot, part, step, facts, self.rules, state)
                yield LintProgress(read + len(part), total, snapshot.samples, 0, tokenizer.problem)
                read += len(part)
            with self._lock:
                # Another page may have read the step meanwhile; its result is the same.
                if self._steps.get(step, before) is before:
                    self._steps[step] = state
        with self._lock:
            self._check_steps(view, now)
            result = self._result(snapshot, tokenizer.problem)
        yield result

    def _room(self, state: _StepState) -> int | None:
        """Return how many more samples of a step to read; None for all."""
        return None if self._most is None else max(self._most - state.read, 0)

    def _new_rows(self, snapshot: Snapshot) -> list[tuple[int, _StepState, np.ndarray]]:
        """Return the steps with new rows, the state before, and these rows; forget what was replaced."""
        wanted = []
        steps = snapshot.steps.values.tolist()
        for gone in self._steps.keys() - set(steps):
            del self._steps[gone]
        rows = snapshot.alive_rows
        step = snapshot.metadata("step")[rows]
        order = np.argsort(step, kind="stable")
        bounds = np.searchsorted(step[order], steps)
        for number, part in zip(steps, np.split(rows[order], bounds[1:]), strict=True):
            state = self._steps.get(number)
            if state is not None and int(np.searchsorted(part, state.last, side="right")) != state.rows:
                state = None
                del self._steps[number]
                self._truths.pop(number, None)
            known = state.rows if state is not None else 0
            if len(part) > known:
                wanted.append((number, state or _StepState(), part[known:]))
        return wanted

    def _check_steps(self, view: RunView, now: float) -> None:
        """Mark the complete steps by their columns, unless nothing was added."""
        snapshot = view.snapshot
        newest = newest_complete_step(snapshot, now)
        version = (snapshot.version, newest)
        rules = [rule for rule in self.rules if rule.scope == "steps"]
        if version == self._checked_steps or newest is None:
            return
        self._checked_steps, self._of_steps = version, {}
        steps = snapshot.steps.values
        for rows in StepBlocks(view, snapshot.alive_rows, steps[steps <= newest], is_complete=True).batches:
            if not len(rows):
                continue
            of_row = rows.metadata("step")
            for rule in rules:
                known = self._of_steps.setdefault(rule.name, {})
                for variant, tally in _tallies(rule, rows, rows.rows, of_row).items():
                    known.setdefault(variant, Tally()).add(tally)

    def _result(self, snapshot: Snapshot, problem: str) -> LintProgress:
        tallies: Tallies = {name: dict(found) for name, found in self._of_steps.items()}
        fields: Counter[str] = Counter()
        read = unread = 0
        for state in self._steps.values():
            read, unread = read + state.read, unread + state.unread
            fields.update(state.fields)
            for name, found in state.tallies.items():
                for variant, tally in found.items():
                    tallies.setdefault(name, {}).setdefault(variant, Tally()).add(tally)
        results = [
            self._judged(rule, tallies.get(rule.name, {}), read, fields, snapshot) for rule in self.rules
        ]
        if problem:
            results = [_with_tokenizer(result, problem) for result in results]
        results.sort(key=lambda each: (STATES.index(each.state), PARTS.index(each.rule.part)))
        return LintProgress(read, read, snapshot.samples, unread, problem, tuple(results))

    def _judged(
        self,
        rule: LintRule,
        tallies: Mapping[str, Tally],
        read: int,
        fields: Counter[str],
        snapshot: Snapshot,
    ) -> RuleResult:
        samples = read if rule.scope == "samples" else snapshot.samples
        tally, state, log, remark = judged(rule, tallies, samples, fields, snapshot.constants.logged)
        if state != "failed":
            error = next((each.error for each in tallies.values() if each.error), "")
            return RuleResult(rule, state, samples, tally.checked, 0, None, (), log, remark, error)
        rows = np.array([row for _, row, _ in tally.examples], np.int64)
        lines, uids = snapshot.lines(rows).tolist(), snapshot.uids(rows)
        examples = tuple(
            Example(row, uid, snapshot.file(row), line, step, detail)
            for (step, row, detail), uid, line in zip(tally.examples, uids, lines, strict=True)
        )
        counts = (samples, tally.checked, tally.failed, tally.first)
        return RuleResult(rule, state, *counts, examples, log, remark)


def _with_tokenizer(result: RuleResult, problem: str) -> RuleResult:
    """Add the reason why the tokenizer is not used to a rule that would decode ids by it."""
    uses = result.state == "not checkable" and "tokenizer" in result.rule.otherwise
    return replace(result, log=f"{result.log}; {problem}" if result.log else problem) if uses else result


def _parts(snapshot: Snapshot, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows in batches; rows of an episode stay together and in their order."""
    if not snapshot.has_episodes:
        rows = rows[file_order(snapshot, rows)]
        yield from np.split(rows, range(BATCH, len(rows), BATCH))
        return
    codes = snapshot.label_codes("episode")[0][rows]
    order = np.lexsort((rows, codes))
    rows, codes = rows[order], codes[order]
    start = 0
    while start < len(rows):
        end = min(start + BATCH, len(rows))
        while end < len(rows) and codes[end] == codes[end - 1] >= 0:
            end += 1
        yield rows[start:end]
        start = end


def _lint_rows(
    index: RunIndex,
    snapshot: Snapshot,
    rows: np.ndarray,
    step: int,
    facts: LintFacts,
    rules: Sequence[LintRule],
    state: _StepState,
) -> None:
    """Read rows and add what the rules find to the state of their step."""
    records: list[Record] = []
    found: list[int] = []
    for row in rows.tolist():
        try:
            records.append(fetch_record(index, snapshot, row))
        except (RLPanelError, OSError, IndexError):
            state.unread += 1
            continue
        found.append(row)
    state.read += len(found)
    if not found:
        return
    kept = np.array(found)
    episodes = snapshot.label_codes("episode")[0][kept] if snapshot.has_episodes else np.full(len(kept), -1)
    ended = snapshot.number("ended")[kept] if snapshot.is_stored("ended") else np.full(len(kept), np.nan)
    columns = {
        "episode": episodes,
        "group": group_keys(snapshot, kept),
        "ended": ended,
        "trained": np.full(len(kept), snapshot.split == TRAIN),
    }
    samples = LintSamples(records, step, facts, columns)
    state.fields.update(samples.count_fields())
    steps = np.full(len(kept), step)
    for rule in rules:
        if rule.scope == "samples":
            known = state.tallies.setdefault(rule.name, {})
            for variant, tally in _tallies(rule, samples, kept, steps).items():
                known.setdefault(variant, Tally()).add(tally)


def _tallies(rule: LintRule, samples: Any, rows: np.ndarray, steps: np.ndarray) -> dict[str, Tally]:
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


def linter_of(index: RunIndex, split: str, most: int | None = None) -> Linter:
    """Return the linter of a run's split, which keeps what it found as long as the run is open."""
    with _GUARD:
        known = _LINTERS.setdefault(index, {})
        return known.setdefault((split, most), Linter(index, most=most))


_GUARD = threading.Lock()
_LINTERS: WeakKeyDictionary[RunIndex, dict[tuple[str, int | None], Linter]] = WeakKeyDictionary()


def _tally(marks: Marks, rows: np.ndarray, steps: np.ndarray) -> Tally:
    """Count marks; the examples are the first samples that fail."""
    failed = np.flatnonzero(marks.values == 1)
    checked = int(np.isfinite(marks.values).sum())
    if not len(failed):
        return Tally(checked, remark=marks.remark)
    order = failed[np.lexsort((rows[failed], steps[failed]))][:EXAMPLES].tolist()
    examples = [(int(steps[at]), int(rows[at]), marks.details.get(at, "")) for at in order]
    return Tally(checked, len(failed), int(steps[failed].min()), examples, marks.remark)
