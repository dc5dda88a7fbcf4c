"""Lints a run step by step: each line is read once, and findings are kept while the run grows.

Rules of samples read new rows only. Rules of steps need whole groups: they mark the complete steps from their
columns, without reading a line, and again only those to which rows were added.
"""

from __future__ import annotations

import math
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

from rlpanel.lint import advantage_rules, group_rules, logprob_rules, mask_rules, secret_rules, token_rules
from rlpanel.lint.lint_rows import (
    Found,
    LintWork,
    StepTallies,
    Tallies,
    begin_process,
    lint_in_process,
    lint_rows,
)
from rlpanel.lint.lint_rule import LINT_RULES, PARTS, STATES, Example, LintRule, RuleResult, Tally, judged
from rlpanel.lint.lint_samples import LintFacts
from rlpanel.lint.run_tokenizer import TRIED, RunTokenizer
from rlpanel.sources.config.run_config import read_run_config
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.index.run_folder import AGAIN
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import file_order
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from rlpanel.store.snapshot.step_metric_cache import group_keys

__all__ = ["LINT_RULES", "LintProgress", "Linter", "linter_of"]

#: The modules whose import registers the rules, in the order of `PARTS`.
RULE_MODULES = (
    *(token_rules, mask_rules, group_rules, advantage_rules, logprob_rules, logprob_rules, secret_rules),
)
#: Samples that are read, and checked, at a time.
BATCH = 256
#: Samples of the first steps that are read, before only those of some steps: at first, and while a run grows.
FIRST, FIRST_LIVE = 256, 64
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
    spread : int
        With ``most``, samples of the run of which those of one step are read, after the first `FIRST` samples
        that were read, or `FIRST_LIVE` while the run grows; 0 reads samples of each step.
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
        spread: int = 0,
        pad_token: str = "",
        jobs: int = 0,
        least_parallel: int = MIN_PARALLEL,
    ) -> None:
        self._index, self._most, self._spread, self._pad = index, most, spread, pad_token
        self._jobs, self._least_parallel = jobs, least_parallel
        self.rules = [LINT_RULES[name] for name in rules] if rules is not None else list(LINT_RULES.values())
        self._lock = threading.Lock()
        self._steps: dict[int, _StepState] = {}
        #: Steps of which samples are read, as of the last look.
        self._sampled: set[int] = set()
        #: Sum of what was found in all steps.
        self._found = Found()
        #: Steps with rows that were not looked at, as of the version of the snapshot.
        self._stale: set[int] = set()
        self._looked = -1
        self._truths: dict[int, dict[int, str]] = {}
        self._config_values: Mapping[str, Any] = {}
        self._config_due = -math.inf
        self._of_steps = StepTallies([rule for rule in self.rules if rule.scope == "steps"])
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
            added = Found()
            for found in next(parts):
                added.add(found)
                read += found.read + found.unread
                yield LintProgress(read, total, snapshot.samples, 0, tokenizer.problem)
            state.found.add(added)
            with self._lock:
                # Another page may have read the step meanwhile; its result is the same.
                if self._steps.get(step, before) is before:
                    self._steps[step] = state
                    self._found.add(added)
                    if self._looked == snapshot.version:
                        self._stale.discard(step)
        with self._lock:
            if (newest := newest_complete_step(snapshot, now)) is not None:
                self._of_steps.settings = {**self._config(now), **logged}
                self._of_steps.update(view, newest)
            result = self._result(snapshot, tokenizer.problem)
        yield result

    def _config(self, now: float) -> Mapping[str, Any]:
        """Return the settings in the configuration files beside the run, which may take long to read."""
        if now >= self._config_due:
            self._config_due = now + AGAIN
            self._config_values = read_run_config(self._index.path, self._index.root).values
        return self._config_values

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
        table = snapshot.steps
        self._stale.update(table.values[table.changed_since(self._looked)].tolist())
        self._looked = max(self._looked, snapshot.version)
        if gone := self._steps.keys() - set(table.values.tolist()):
            self._forget(gone)
        chosen = self._chosen_steps(table.values, table.samples)
        steps = [step for step in chosen if step in self._stale or step not in self._steps]
        wanted = []
        for number, part in zip(steps, _rows_by_step(snapshot, steps), strict=True):
            state = self._steps.get(number)
            if state is not None and int(np.searchsorted(part, state.last, side="right")) != state.rows:
                self._forget({number})
                state = None
            known = state.rows if state is not None else 0
            if len(part) > known:
                wanted.append((number, state or _StepState(), part[known:]))
            else:
                self._stale.discard(number)
        return wanted

    def _chosen_steps(self, steps: np.ndarray, sizes: np.ndarray) -> list[int]:
        """Return the steps of which samples are read. A step that is chosen stays so when the run grows."""
        if self._most is None or not self._spread:
            return steps.tolist()
        chosen, read, since = [], 0, 0
        # Each step has fixed costs: what there is at first is read once, but a run may grow for days.
        most = FIRST_LIVE if self._sampled else FIRST
        for step, size in zip(steps.tolist(), sizes.tolist(), strict=True):
            since += size
            if step in self._sampled or read < most or since >= self._spread:
                chosen.append(step)
                read, since = read + min(size, self._most), 0
        self._sampled = set(chosen)
        return chosen

    def _forget(self, steps: Iterable[int]) -> None:
        """Forget what was found in steps whose rows were replaced."""
        for step in steps:
            self._steps.pop(step, None)
            self._truths.pop(step, None)
            self._stale.discard(step)
        self._found = Found()
        for state in self._steps.values():
            self._found.add(state.found)

    def _result(self, snapshot: Snapshot, problem: str) -> LintProgress:
        found = self._found
        tallies: Tallies = {**self._of_steps.totals(), **found.tallies}
        results = [
            self._judged(rule, tallies.get(rule.name, {}), found.read, found.fields, snapshot)
            for rule in self.rules
        ]
        if problem:
            results = [_with_tokenizer(result, problem) for result in results]
        results.sort(key=lambda each: (STATES.index(each.state), PARTS.index(each.rule.part)))
        return LintProgress(found.read, found.read, snapshot.samples, found.unread, problem, tuple(results))

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


def _rows_by_step(snapshot: Snapshot, steps: Sequence[int]) -> list[np.ndarray]:
    """Return the rows that count of each of some steps, ascending; steps are ascending."""
    if not steps:
        return []
    rows = snapshot.alive_rows
    of_row = snapshot.metadata("step")[rows]
    inside = np.flatnonzero((of_row >= steps[0]) & (of_row <= steps[-1]))
    rows, of_row = rows[inside], of_row[inside]
    order = np.argsort(of_row, kind="stable")
    starts, ends = (np.searchsorted(of_row[order], steps, side) for side in ("left", "right"))
    return [rows[order[start:end]] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def linter_of(index: RunIndex, split: str, most: int | None = None, spread: int = 0) -> Linter:
    """Return the linter of a run's split, which keeps what it found as long as the run is open."""
    with _GUARD:
        known = _LINTERS.setdefault(index, {})
        return known.setdefault((split, most, spread), Linter(index, most=most, spread=spread))


_GUARD = threading.Lock()
_LINTERS: WeakKeyDictionary[RunIndex, dict[tuple[str, int | None, int], Linter]] = WeakKeyDictionary()
