"""Passes and cost of each prompt at each step, from compact columns, extended as a run grows.

A *cell* is one prompt at one step. Rows are read in blocks, so what is kept is one line of numbers for each
cell, and four bytes for each row if the run logs no advantages.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial

import numpy as np
import pandas as pd

from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.store.columns.related_rows import AGENT, EPISODE, TRAJECTORY
from rlpanel.store.columns.row_table import counts
from rlpanel.store.columns.splits import SPLIT_COLUMN
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.snapshot.key_codes import FewCodes, ManyCodes
from rlpanel.store.snapshot.snapshot import Snapshot

#: Rows of a block; between two blocks, a caller may stop.
BLOCK = 1 << 19
#: Values that are added up at once.
_SUMMED = 1 << 21
#: Without a usable threshold, a sample passes that reaches this share of the range of rewards.
SHARE_OF_BEST = 0.9
#: Highest reward up to which the usual threshold of 1 is plausible: correct answers get 1, and a bonus.
_USUAL_BEST = 1.5
#: Statuses of rollouts that failed.
FAILED = ("environment_error", "tool_error", "timeout")
#: Kinds of waste: groups without signal; samples that were discarded, failed or truncated; any of these.
WASTE = ("dead group", "discarded", "failed", "truncated", "any of these")
#: Column of the advantage: one number a sample, or the mean over its tokens.
_ADVANTAGES = ("advantage", "token_advantage_mean")
#: What the trainers add to the standard deviation: TRL's GRPO.
_EPSILON = 1e-4


@dataclass(frozen=True)
class PassRule:
    """The reward from which on a sample passes, and its origin: run.json, setting, usual or range."""

    reward: float
    origin: str


def pass_rule(snapshot: Snapshot) -> PassRule:
    """Return the threshold of a run.

    It is ``pass_reward`` of ``run.json`` or of the settings. Else it is the usual 1 if all rewards are equal,
    or if some are below and the best is from 1 to 1.5. Else it lies at 90 % of the way from the lowest to the
    best.
    """
    given = snapshot.constants.by_name["pass_reward"]
    if given.origin != "usual" or not snapshot.has_number("reward"):
        return PassRule(float(given.value), given.origin)
    low, high = (snapshot.steps.stat("reward", which) for which in (MIN, MAX))
    least, best = float(np.nanmin(low)), float(np.nanmax(high))
    if best - least <= EQUAL_WITHIN or least < given.value <= best + EQUAL_WITHIN <= _USUAL_BEST:
        return PassRule(float(given.value), "usual")
    return PassRule(least + SHARE_OF_BEST * (best - least), "range")


@dataclass(frozen=True)
class PromptGrid:
    """The cells of a run, sorted by prompt, in the order of their first samples, and step.

    P prompts, S steps, C cells. Episodes with several rows count as one sample; their rows share its prompt.

    Attributes
    ----------
    newest : ndarray of int, shape (P,)
        Row of the newest sample of each prompt.
    steps : ndarray of int, shape (S,)
        Ascending.
    firsts : ndarray of int, shape (P,)
        First cell of each prompt.
    prompt, step : ndarray of int32, shape (C,)
        Positions of a cell's prompt and step.
    samples, passed : ndarray of int32, shape (C,)
        Samples with a finite reward, and those of them that pass.
    cost : ndarray of float32, shape (C,)
        Response tokens, with those of discarded samples and all rows of an episode; rows if no tokens are
        logged.
    unrewarded, rows : ndarray of int, shape (P,)
        Samples without a finite reward, discarded ones excluded; and rows, discarded ones included.
    signal : ndarray of float, shape (P,)
        Sum of the absolute advantages of the samples.
    wasted_rows, wasted_cost : ndarray of float, shape (5, S)
        Rows, and cost as above, by the kinds of `WASTE` and step. NaN if what shows a kind is not logged.
    rule : PassRule
    has_tokens : bool
        Whether response tokens are logged.
    advantages : str
        Column that the signal is taken from; empty if it was computed: (R − mean) / (std + 1e-4) of the
        group.
    untokened : int
        Rows without a number of tokens although others have one; they cost 0.
    """

    newest: np.ndarray
    steps: np.ndarray
    firsts: np.ndarray
    prompt: np.ndarray
    step: np.ndarray
    samples: np.ndarray
    passed: np.ndarray
    cost: np.ndarray
    unrewarded: np.ndarray
    rows: np.ndarray
    signal: np.ndarray
    wasted_rows: np.ndarray
    wasted_cost: np.ndarray
    rule: PassRule
    has_tokens: bool
    advantages: str
    untokened: int

    def __len__(self) -> int:
        return len(self.newest)

    @cached_property
    def visits(self) -> np.ndarray:
        """Number of steps at which each prompt has a sample with a reward, shape (P,)."""
        return self.by_prompt(self.samples > 0).astype(np.int64)

    @cached_property
    def samples_of_prompts(self) -> np.ndarray:
        """Number of samples with a finite reward of each prompt, shape (P,)."""
        return self.by_prompt(self.samples).astype(np.int64)

    @cached_property
    def cost_of_prompts(self) -> np.ndarray:
        """Sum of the cost of each prompt's cells, shape (P,)."""
        return self.by_prompt(self.cost)

    def by_prompt(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of a value of the cells for each prompt, shape (P,)."""
        if not len(self):
            return np.zeros(0)
        return np.add.reduceat(values, self.firsts, dtype=float)  # each prompt has a cell

    @property
    def memory(self) -> int:
        """Bytes of its arrays."""
        arrays = (getattr(self, each.name) for each in fields(self))
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


@dataclass(frozen=True)
class GridProgress:
    """Rows that were read, rows of the run, and the grid once all were."""

    read: int
    total: int
    grid: PromptGrid | None = None


#: Sums of a group's rows in one cell → dtype.
_SUMS = {
    **dict.fromkeys(("samples", "passed", "unrewarded", "rows", "wasted_rows"), np.int32),
    **dict.fromkeys(("cost", "signal", "wasted_cost"), np.float32),
}


class GridBuilder:
    """Reads the rows of a split once, and those that a later snapshot adds.

    A snapshot in which earlier rows count differently, such as after a restart, or that has another pass
    threshold or other columns, is read anew. Thread-safe: calls at the same time read blocks in turn, and
    share the grid. One with an older snapshot that does not fit reads alone.

    Parameters
    ----------
    block : int
        Rows that are read at once.
    """

    def __init__(self, block: int = BLOCK) -> None:
        self._of: tuple[object, ...] = ()
        self._block = block
        self._lock, self._call, self._version = threading.Lock(), object(), -1
        self._restart()

    def _restart(self) -> None:
        self._read, self._used, self._further = 0, np.empty(0, bool), np.empty(0, bool)
        self._prompts, self._steps = FewCodes(), FewCodes()
        self._cells, self._groups = ManyCodes(), ManyCodes()
        self._newest = np.empty(0, np.int64)
        self._sums: dict[str, np.ndarray] = {}  # those that are not 0 everywhere
        self._low, self._high = np.empty(0), np.empty(0)
        self._blocks: list[tuple[int, np.ndarray]] = []  # first row, and the group of each row or -1
        self._kinds = np.zeros((2, 3, 0))  # rows and cost of wasted samples, by kind and step
        self._untokened = 0
        self._made: weakref.ref[PromptGrid] | None = None  # the grid of all rows that were read

    def update(self, snapshot: Snapshot) -> Iterator[GridProgress]:
        """Read the new rows of a snapshot, with progress after each block; the last result has the grid."""
        rule = pass_rule(snapshot)
        advantages = next((name for name in _ADVANTAGES if snapshot.has_number(name)), "")
        used, further = _used_rows(snapshot), snapshot.further
        further = np.zeros(len(used), bool) if further is None else further
        known = (
            *(snapshot.name, snapshot.split, snapshot.counts_rows, rule, advantages),
            *(snapshot.group_codes is None, snapshot.has_number("response_tokens")),
        )
        call, total, prompts = object(), len(used), _prompts_of_rows(snapshot)
        while True:
            with self._lock:
                if self._call is not call and not self._goes_on(snapshot.version, known, used, further):
                    break
                self._call, finished = call, None
                stop = min(self._read + self._block, total)
                if stop > self._read:
                    self._made = None
                    self._add(snapshot, used, prompts, slice(self._read, stop), rule, advantages)
                    self._used, self._further, self._read = used[:stop], further[:stop], stop
                if stop == total:
                    finished = self._made() if self._made is not None else None
                    finished = finished or self._grid(snapshot, rule, advantages)
                    self._made = weakref.ref(finished)
            yield GridProgress(stop, total, finished)
            if finished is not None:
                return
        yield from GridBuilder(self._block).update(snapshot)

    def _goes_on(
        self, version: int, known: tuple[object, ...], used: np.ndarray, further: np.ndarray
    ) -> bool:
        """Return True if a snapshot can go on from what was read; a newer one that cannot starts anew."""
        seen = self._read
        if (
            known != self._of
            or seen > len(used)
            or not np.array_equal(used[:seen], self._used)
            or not np.array_equal(further[:seen], self._further)
        ):
            if version < self._version:
                return False
            self._restart()
            self._of = known
        self._version = max(self._version, version)
        return True

    # -- rows ------------------------------------------------------------------------------------

    def _add(
        self,
        snapshot: Snapshot,
        used: np.ndarray,
        prompts: np.ndarray,
        where: slice,
        rule: PassRule,
        advantages: str,
    ) -> None:
        rows = np.flatnonzero(used[where]) + where.start
        if not len(rows):
            return
        prompt = self._prompts.each(prompts[rows].view(np.int64))
        step = self._steps.each(snapshot.metadata("step")[rows])
        pair, codes = prompt.astype(np.int64) << 32 | step, snapshot.group_codes
        if codes is None:  # the samples of a cell are its group
            place, numbers = self._cells.of(pair)
        else:
            cell, group = self._cells.each(pair), codes[rows].astype(np.int64)
            place, numbers = self._groups.of(cell.astype(np.int64) << 32 | (group + 1))
        self._grow(len(self._cells if codes is None else self._groups))
        newest = np.full(len(self._prompts), -1)
        newest[prompt] = rows  # the last one of each prompt stays
        self._newest = np.maximum(self._newest, newest)
        sums, kinds = self._sums_of(snapshot, rows, rule, advantages)
        for name, values in sums.items():
            if name not in self._sums and not values.any():
                continue
            if name not in self._sums:
                self._sums[name] = np.zeros(len(self._low), _SUMS[name])
            self._sums[name][numbers] += np.bincount(place, values, len(numbers)).astype(_SUMS[name])
        for at, kind in enumerate(kinds):
            for what, values in enumerate((kind, kind * sums["cost"])):
                self._kinds[what, at] += np.bincount(step, values, len(self._steps))
        reward = self._reward(snapshot, rows)
        finite = np.isfinite(reward)
        np.minimum.at(self._low, numbers[place[finite]], reward[finite])
        np.maximum.at(self._high, numbers[place[finite]], reward[finite])
        if not advantages:
            number = np.full(where.stop - where.start, -1, np.int32)
            number[rows - where.start] = numbers[place]
            self._blocks.append((where.start, number))

    def _grow(self, parts: int) -> None:
        """Give new groups and prompts a line of their own, with a reserve, so that few growths copy."""
        if parts > len(self._low):
            more = parts + (parts // 3 if len(self._low) else 0) - len(self._low)
            for name, array in self._sums.items():
                self._sums[name] = np.concatenate([array, np.zeros(more, array.dtype)])
            self._low = np.concatenate([self._low, np.full(more, np.inf)])
            self._high = np.concatenate([self._high, np.full(more, -np.inf)])
        more = len(self._prompts) - len(self._newest)
        self._newest = np.concatenate([self._newest, np.full(more, -1)])
        more = len(self._steps) - self._kinds.shape[2]
        self._kinds = np.concatenate([self._kinds, np.zeros((2, 3, more))], axis=2)

    def _sum(self, name: str, parts: int) -> np.ndarray:
        return self._sums[name][:parts] if name in self._sums else np.zeros(parts, _SUMS[name])

    @staticmethod
    def _reward(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
        """Return the rewards of samples that were trained; NaN for the others."""
        if not snapshot.is_stored("reward"):
            return np.full(len(rows), np.nan)
        return np.where(snapshot.alive[rows], snapshot.counted("reward", rows), np.nan)

    def _sums_of(
        self, snapshot: Snapshot, rows: np.ndarray, rule: PassRule, advantages: str
    ) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
        """Return what is added up for the groups, and masks of discarded, failed and truncated rows."""
        reward, is_trained = self._reward(snapshot, rows), snapshot.alive[rows]
        finite = np.isfinite(reward)
        is_outcome = is_trained if snapshot.further is None else is_trained & ~snapshot.further[rows]
        cost = np.ones(len(rows))
        if snapshot.has_number("response_tokens"):
            logged = snapshot.number("response_tokens")[rows]
            self._untokened += int(np.count_nonzero(~np.isfinite(logged)))
            cost = np.where(np.isfinite(logged), logged, 0.0)
        kinds = [~is_trained, _has_status(snapshot, rows, FAILED), _truncated(snapshot, rows)]
        wasted = kinds[0] | kinds[1] | kinds[2]
        signal = np.zeros(len(rows))
        if advantages:
            logged = np.abs(snapshot.number(advantages)[rows])
            signal = np.where(np.isfinite(logged) & is_trained, logged, 0.0)
        sums = {
            "samples": finite,
            "passed": finite & (reward >= rule.reward - EQUAL_WITHIN),
            "unrewarded": is_outcome & ~finite,
            "rows": np.ones(len(rows)),
            "wasted_rows": wasted,
            "cost": cost,
            "signal": signal,
            "wasted_cost": cost * wasted,
        }
        return sums, kinds

    # -- the grid --------------------------------------------------------------------------------

    def _grid(self, snapshot: Snapshot, rule: PassRule, advantages: str) -> PromptGrid:
        pairs, codes = self._cells.sorted()
        steps, position = np.unique(self._steps.values, return_inverse=True)
        prompt, step = (pairs >> 32).astype(np.int32), position[pairs & 0xFFFFFFFF].astype(np.int32)
        if (np.diff(position) < 0).any():  # an earlier step was read later
            order = np.argsort(prompt.astype(np.int64) << 32 | step, kind="stable")
            prompt, step, codes = prompt[order], step[order], codes[order]
        cell_of_code = np.empty(len(codes), np.int32)
        cell_of_code[codes] = np.arange(len(codes), dtype=np.int32)
        is_grouped = snapshot.group_codes is not None
        cell, place = cell_of_code, None
        if is_grouped:
            keys = self._groups.values
            cell = cell_of_code[keys >> 32]
            place = self._groups_of(prompt[cell], step[cell], (keys & 0xFFFFFFFF) - 1)
            del keys, cell_of_code  # 12 bytes a group, which may be as many as samples
        sums = {name: self._sum(name, len(cell)) for name in _SUMS}
        signal = sums["signal"] if advantages else self._computed(snapshot, place, len(cell))
        dead, owner = self._dead(place, signal, advantages), prompt[cell]

        def of_cell(values: np.ndarray) -> np.ndarray:
            if not is_grouped:
                return values[codes]
            return sums_at(cell, values, len(prompt)).astype(values.dtype)

        by_prompt = partial(sums_at, owner, count=len(self._newest))
        return PromptGrid(
            self._newest,
            steps,
            np.flatnonzero(np.diff(prompt, prepend=-1)),
            prompt,
            step,
            of_cell(sums["samples"]),
            of_cell(sums["passed"]),
            of_cell(sums["cost"]),
            by_prompt(sums["unrewarded"]).astype(np.int64),
            by_prompt(sums["rows"]).astype(np.int64),
            by_prompt(signal),
            *self._wasted(snapshot, sums, dead, position, step[cell]),
            rule,
            snapshot.has_number("response_tokens"),
            advantages,
            self._untokened,
        )

    def _wasted(
        self,
        snapshot: Snapshot,
        sums: dict[str, np.ndarray],
        dead: np.ndarray,
        position: np.ndarray,
        step: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and cost of each kind of waste by step, shape (5, S) each."""
        is_logged, in_order = _logged_waste(snapshot), np.argsort(position)
        found = []
        for kinds, name in zip(self._kinds, ("rows", "cost"), strict=True):
            whole, own = sums[name], sums[f"wasted_{name}"]
            by_step = np.array(
                [
                    sums_at(step, whole * dead, len(position)),
                    *kinds[:, in_order],
                    sums_at(step, np.where(dead, whole, own), len(position)),
                ]
            )
            by_step[~is_logged] = np.nan
            found.append(by_step)
        return found[0], found[1]

    def _groups_of(self, prompt: np.ndarray, step: np.ndarray, group: np.ndarray) -> np.ndarray | None:
        """Return the group of each part: the logged one of its step, which may have several prompts.

        None if each part is a group. Groups are sorted: a hash table takes three times the memory.
        """
        key = np.where(group >= 0, group + len(self._prompts), prompt)
        key *= max(len(self._steps), 1)
        key += step
        order = np.argsort(key)
        key = key[order]
        is_new = key[1:] != key[:-1]
        if is_new.all():
            return None
        place = np.zeros(len(order), np.int32)
        place[order[1:]] = np.cumsum(is_new, dtype=np.int32)
        return place

    def _dead(self, place: np.ndarray | None, signal: np.ndarray, advantages: str) -> np.ndarray:
        """Return whether each part belongs to a group without signal; without places, each is a group.

        It has two or more samples with the same reward and, if advantages are logged, all of them are 0: a
        critic's may differ.
        """
        low, high = (each[: len(signal)] for each in (self._low, self._high))
        size = self._sum("samples", len(signal))
        if place is not None:
            count = int(place.max()) + 1 if len(place) else 0
            parts, size = (low, high), np.bincount(place, size, count)
            low, high = np.full(count, np.inf), np.full(count, -np.inf)
            np.minimum.at(low, place, parts[0])
            np.maximum.at(high, place, parts[1])
            signal = np.bincount(place, signal, count)
        dead = size >= 2
        dead[dead] = high[dead] - low[dead] <= EQUAL_WITHIN
        if advantages:
            dead &= signal <= EQUAL_WITHIN * np.maximum(size, 1)
        return dead if place is None else dead[place]

    def _computed(self, snapshot: Snapshot, place: np.ndarray | None, parts: int) -> np.ndarray:
        """Return the sum of the absolute advantages of each part, by the rewards of its whole group.

        A group of one sample has none. Each block is added where its groups are, not over all of them: of
        groups of one prompt there may be as many as samples.
        """
        size = self._sum("samples", parts)
        if place is not None:
            size = np.bincount(place, size, int(place.max()) + 1 if len(place) else 0)
        signal = np.zeros(parts)
        if not (size > 1).any():
            return signal
        total, squares = np.zeros(len(size)), np.zeros(len(size))
        for _, group, reward in self._rewarded(snapshot, place):
            np.add.at(total, group, reward)
        mean = total / np.maximum(size, 1)
        for _, group, reward in self._rewarded(snapshot, place):
            np.add.at(squares, group, (reward - mean[group]) ** 2)
        scale = np.sqrt(squares / np.maximum(size - 1, 1)) + _EPSILON
        for number, group, reward in self._rewarded(snapshot, place):
            np.add.at(signal, number, np.abs(reward - mean[group]) / scale[group] * (size[group] > 1))
        return signal

    def _rewarded(
        self, snapshot: Snapshot, place: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield parts, groups and rewards of the samples of each block."""
        for start, numbers in self._blocks:
            rows = np.flatnonzero(numbers >= 0)
            reward = self._reward(snapshot, rows + start)
            finite = np.isfinite(reward)
            number = numbers[rows[finite]]
            yield number, number if place is None else place[number], reward[finite]


def sums_at(places: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Return the sum of the values of each place, shape (count,).

    In blocks: one `numpy.bincount` of 20 million cells would hold the interpreter for 0.2 s.
    """
    sums = np.zeros(count)
    for start in range(0, len(places), _SUMMED):
        part = slice(start, start + _SUMMED)
        sums += np.bincount(places[part], values[part], count)
    return sums


def prompt_grid(snapshot: Snapshot) -> PromptGrid:
    """Return the grid of a snapshot."""
    *_, last = GridBuilder().update(snapshot)
    assert last.grid is not None
    return last.grid


def _used_rows(snapshot: Snapshot) -> np.ndarray:
    """Return a mask of the rows that count or were discarded from this split, shape (rows,)."""
    if not len(snapshot.discarded_steps.values):
        return snapshot.alive
    return snapshot.alive | (snapshot.discarded & counts(snapshot.state))


def _prompts_of_rows(snapshot: Snapshot) -> np.ndarray:
    """Return the hash of the prompt that each row's cost belongs to: that of its whole episode."""
    prompts, further = snapshot.prompts(), snapshot.further
    if further is None:
        return prompts
    key = snapshot.metadata("step")
    for name in (EPISODE, SPLIT_COLUMN, AGENT, TRAJECTORY):
        if name in snapshot.labels:
            key = pd.factorize(key)[0].astype(np.int64) << 32 | (snapshot.label_codes(name)[0] + 1)
    unit, distinct = pd.factorize(key)
    last, owner = snapshot.alive & ~further, np.zeros(len(distinct), prompts.dtype)
    owner[unit[last]] = prompts[last]
    return np.where(further, owner[unit], prompts)


def _has_status(snapshot: Snapshot, rows: np.ndarray, wanted: tuple[str, ...]) -> np.ndarray:
    if "status" not in snapshot.labels:
        return np.zeros(len(rows), bool)
    codes, names = snapshot.label_codes("status")
    return np.isin(codes[rows], [at for at, name in enumerate(names) if name in wanted])


def _truncated(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    cut = _has_status(snapshot, rows, ("truncated",))
    return cut | (snapshot.number("truncated")[rows] > 0) if snapshot.has_number("truncated") else cut


def _logged_waste(snapshot: Snapshot) -> np.ndarray:
    """Return whether the run logs what shows each kind of `WASTE`, shape (5,)."""
    has_status = "status" in snapshot.labels
    single = (
        has_status or bool(len(snapshot.discarded_steps.values)),
        has_status,
        has_status or snapshot.has_number("truncated"),
    )
    dead = snapshot.has_number("reward")
    return np.array([dead, *single, dead or any(single)])
