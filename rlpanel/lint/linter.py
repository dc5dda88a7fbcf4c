"""Lints a run step by step: each line is read once, and what was found is kept while the run grows.

Rules of samples read new rows only. Rules of steps need whole groups: they mark the complete steps from their
columns again if rows were added, without reading a line.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rlpanel.findings.engine.signal import StepBlocks
from rlpanel.lint import (
    advantage_rules,
    group_rules,
    logprob_rules,
    mask_rules,
    secret_rules,
    teacher_rules,
    token_rules,
)
from rlpanel.lint.lint_result import STATES, Example, RuleResult, Tally, judged
from rlpanel.lint.lint_rows import (
    Found,
    LintWork,
    Tallies,
    begin_process,
    lint_in_process,
    lint_rows,
    tallies_of,
)
from rlpanel.lint.lint_rule import LINT_RULES, PARTS, LintRule
from rlpanel.lint.lint_samples import LintFacts
from rlpanel.lint.run_tokenizer import TRIED, RunTokenizer
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import file_order
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from rlpanel.store.snapshot.step_metric_cache import group_keys

__all__ = ["LINT_RULES", "LintProgress", "Linter", "linter_of"]

#: The modules whose import registers the rules, in the order of `PARTS`.
RULE_MODULES = (
    *(token_rules, mask_rules, group_rules, advantage_rules, logprob_rules, teacher_rules, secret_rules),
)
#: Samples that are read, and checked, at a time.
BATCH = 256
#: Samples of a run that processes are started for.
MIN_PARALLEL = 10_000


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


@dataclass
class _StepState:
    """Results of the rules for the samples of one step.

    Attributes
    ----------
    rows : int
        Number of rows that were read, or left out because of the limit.
    last : int
        The last one of them.
    found : Found
    """

    rows: int = 0
    last: int = -1
    found: Found = field(default_factory=Found)


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
    jobs : int
        Processes that read a large run of plain JSON lines; 0 or 1 reads in this process. A script that asks
        for processes must have a guard against being imported by them.
    least_parallel : int
        Samples of a run that processes are started for.
    """

    def __init__(
        self,
        index: RunIndex,
        rules: Sequence[str] | None = None,
        *,
        most: int | None = None,
        pad_token: str = "",
        jobs: int = 0,
        least_parallel: int = MIN_PARALLEL,
    ) -> None:
        self._index, self._most, self._pad = index, most, pad_token
        self._jobs, self._least_parallel = jobs, least_parallel
        self.rules = [LINT_RULES[name] for name in rules] if rules is not None else list(LINT_RULES.values())
        self._lock = threading.Lock()
        self._steps: dict[int, _StepState] = {}
        self._truths: dict[int, dict[int, str]] = {}
        self._of_steps: Tallies = {}
        self._checked_steps: tuple[Any, ...] = ()
        self._tokenizer: tuple[Mapping[str, Any], RunTokenizer] | None = None

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
        tokenizer = self._tokenizer_of(snapshot)
        first = int(snapshot.steps.values[0]) if len(snapshot.steps.values) else 0
        logged, foreign = snapshot.constants.logged, tokenizer.foreign
        facts = LintFacts(logged, first, self._pad, tokenizer.decode, foreign, self._truths)
        with self._lock:
            wanted = self._new_rows(snapshot)
        chosen = [_chosen(new, self._room(before)) for _, before, new in wanted]
        total, read = sum(map(len, chosen)), 0
        rules = [rule for rule in self.rules if rule.scope == "samples"]
        works = (self._work(snapshot, step, new) for (step, _, _), new in zip(wanted, chosen, strict=True))
        parts = self._parts(snapshot, works, facts, tokenizer.path, rules)
        for step, before, new in wanted:
            state = _StepState(before.rows + len(new), int(new[-1]), deepcopy(before.found))
            for found in next(parts):
                state.found.add(found)
                read += found.read + found.unread
                yield LintProgress(read, total, snapshot.samples, 0, tokenizer.problem)
            with self._lock:
                # Another page may have read the step meanwhile; its result is the same.
                if self._steps.get(step, before) is before:
                    self._steps[step] = state
        with self._lock:
            self._check_steps(view, now)
            result = self._result(snapshot, tokenizer.problem)
        yield result

    def _tokenizer_of(self, snapshot: Snapshot) -> RunTokenizer:
        """Return the run's tokenizer, which is looked for and tried on samples until there are enough."""
        logged, known = snapshot.constants.logged, self._tokenizer
        if known is None or known[0] != logged:
            tokenizer = RunTokenizer.of(logged, self._index, snapshot)
            is_settled = tokenizer.foreign or (tokenizer.decode is not None and snapshot.samples >= TRIED)
            self._tokenizer = (logged, tokenizer) if is_settled else None
            return tokenizer
        return known[1]

    def _work(self, snapshot: Snapshot, step: int, rows: np.ndarray) -> LintWork:
        rows, bounds = _batches(snapshot, rows)
        missing = np.full(len(rows), np.nan)
        episodes = snapshot.label_codes("episode")[0][rows] if snapshot.has_episodes else missing - 1
        columns = {
            "episode": np.where(np.isfinite(episodes), episodes, -1),
            "group": group_keys(snapshot, rows),
            "ended": snapshot.number("ended")[rows] if snapshot.is_stored("ended") else missing,
            "trained": np.full(len(rows), snapshot.split == TRAIN),
        }
        places = [(snapshot.file(row), snapshot.locator(row)) for row in rows.tolist()]
        return LintWork(step, rows, bounds, columns, places)

    def _parts(
        self,
        snapshot: Snapshot,
        works: Iterator[LintWork],
        facts: LintFacts,
        tokenizer: str,
        rules: Sequence[LintRule],
    ) -> Iterator[Iterable[Found]]:
        """Yield what is found in each step, in batches; with processes, steps are read in parallel."""
        if not rules:
            yield from ([Found(len(work.rows))] for work in works)
            return
        readers = [self._index.reader(name) for name in snapshot.files]
        # Other files have readers with a state, which stay in this process.
        if (
            self._jobs < 2
            or snapshot.samples < self._least_parallel
            or {type(each) for each in readers} != {JsonlFile}
        ):
            yield from (lint_rows(work, self._index.reader, facts, rules) for work in works)
            return
        files = {each.name: (each.path, each.adapter) for each in readers}
        names = [rule.name for rule in rules]
        shared = (files, replace(facts, decode=None, truths={}, logged=dict(facts.logged)), tokenizer, names)
        with ProcessPoolExecutor(self._jobs, get_context("spawn"), begin_process, shared) as pool:
            yield from ([found] for found in pool.map(lint_in_process, works))

    def _room(self, before: _StepState) -> int | None:
        """Return how many more samples of a step to read; None for all."""
        return None if self._most is None else max(self._most - before.found.read, 0)

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
                for variant, tally in tallies_of(rule, rows, rows.rows, of_row).items():
                    known.setdefault(variant, Tally()).add(tally)

    def _result(self, snapshot: Snapshot, problem: str) -> LintProgress:
        tallies: Tallies = {name: dict(found) for name, found in self._of_steps.items()}
        fields: Counter[str] = Counter()
        read = unread = 0
        for state in self._steps.values():
            read, unread = read + state.found.read, unread + state.found.unread
            fields.update(state.found.fields)
            for name, found in state.found.tallies.items():
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


def _chosen(rows: np.ndarray, most: int | None) -> np.ndarray:
    """Return at most ``most`` rows of a step, in pairs: neighbours may be turns of one episode."""
    if most is None or len(rows) <= most:
        return rows
    starts = np.linspace(0, len(rows) - 2, most // 2).astype(int)
    return rows[np.unique(np.concatenate([starts, starts + 1]))]


def _batches(snapshot: Snapshot, rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return rows in the order of reading, and the ends of batches; rows of an episode stay together."""
    if not snapshot.has_episodes:
        rows = rows[file_order(snapshot, rows)]
        return rows, [*range(BATCH, len(rows), BATCH), len(rows)]
    codes = snapshot.label_codes("episode")[0][rows]
    order = np.lexsort((rows, codes))
    rows, codes = rows[order], codes[order]
    bounds, end = [], 0
    while end < len(rows):
        end = min(end + BATCH, len(rows))
        while end < len(rows) and codes[end] == codes[end - 1] >= 0:
            end += 1
        bounds.append(end)
    return rows, bounds


def linter_of(index: RunIndex, split: str, most: int | None = None) -> Linter:
    """Return the linter of a run's split, which keeps what it found as long as the run is open."""
    with _GUARD:
        known = _LINTERS.setdefault(index, {})
        return known.setdefault((split, most), Linter(index, most=most))


_GUARD = threading.Lock()
_LINTERS: WeakKeyDictionary[RunIndex, dict[tuple[str, int | None], Linter]] = WeakKeyDictionary()
