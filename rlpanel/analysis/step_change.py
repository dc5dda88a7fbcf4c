"""Explains steps: which parts, samples, groups, ranks and categories the change of a curve comes from.

Two windows of steps are compared, see `rlpanel.analysis.step_windows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.reward_parts import reward_weights
from rlpanel.analysis.step_windows import (
    CurveParts,
    StepRange,
    StepWindows,
    chosen_windows,
    curve_parts,
    range_words,
    rows_in,
)
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.segments import NO_GROUP
from rlpanel.store.columns.splits import SPLIT_COLUMN
from rlpanel.store.query.filter_columns import label_name, prompt_key
from rlpanel.store.query.filter_syntax import MAX_CHARS, quote
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metric_cache import group_keys


def samples_filter(snapshot: Snapshot, rows: np.ndarray) -> str:
    """Return a filter for the samples at ``rows``; empty without rows, or if their lines are not known yet.

    A filter has at most `MAX_CHARS` characters, so of very many samples it passes the first ones. If a line
    holds several samples, it passes all of them.
    """
    lines, files = snapshot.lines(rows), snapshot.metadata("file")[rows]
    parts: list[str] = []
    left = MAX_CHARS
    for file in dict.fromkeys(files.tolist()):
        name = f"file == {quote(snapshot.files[file])} and " if len(snapshot.files) > 1 else ""
        left -= len(name) + len(" or (line in [])")
        listed: list[str] = []
        for line in dict.fromkeys(lines[files == file].tolist()):
            left -= len(str(line)) + 2
            if line == 0:
                return ""
            if left < 0:
                break
            listed.append(str(line))
        if listed:
            parts.append(f"{name}line in [{', '.join(listed)}]")
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)


#: A label is a category of rows with this many values; with more in the whole run it is an identifier.
MIN_VALUES, MAX_VALUES = 2, 20
#: Labels that are not categories.
NO_CATEGORY = frozenset({"group", SPLIT_COLUMN})
#: Maximum number of elements of a kind, and of uids of an element.
MAX_PARTS, MAX_UIDS = 50, 200
#: A few samples carry a change if at most this share of the samples carries at least that share of it.
FEW_SAMPLES, FEW_SHARE = 0.1, 0.8
#: A change is noise if it is smaller than this many standard errors.
NOISE = 2.0


@dataclass(frozen=True)
class ChangePart:
    """An element's part in the change of a curve.

    Attributes
    ----------
    kind : str
        ``part`` (of the reward), ``sample``, ``samples`` (the few with the largest shares), ``group``,
        ``rank``, ``token``, ``position``, or the name of a label.
    name : str
        The element: a column, a uid, a rank's number, a label's value, ...
    share : float
        Share of the change, see the module.
    contribution : float
        The same in the curve's unit; ``share`` times the change.
    count, count_before : int
        Number of its samples in the steps and in the others; of tokens for tokens and positions.
    value, before : float
        The curve's value over its samples in the steps and in the others; NaN without any. Of a part of the
        reward, its own mean, where a missing value counts as 0.
    without : float
        The steps' value without it; NaN if nothing is left. Without the change of a part of the reward.
    where : str
        Filter expression for its samples within the steps; empty if only the uids identify them.
    uids : tuple of str
        Its samples with the largest contributions, at most `MAX_UIDS`.
    """

    kind: str
    name: str
    share: float
    contribution: float
    count: int
    count_before: int
    value: float
    before: float
    without: float
    where: str
    uids: tuple[str, ...]


@dataclass(frozen=True)
class StepChange:
    """Change of a curve from some steps to others, and its parts.

    Attributes
    ----------
    column : str
    steps, since : (int, int)
        The explained steps and those that they are compared with.
    value, before : float
        Values over these steps.
    samples, samples_before : int
        Number of samples of the two windows that have a value.
    error : float
        Standard error of the change if the samples were like those of the other steps. The spread of
        the steps themselves is not used: one outlier raises their mean and its standard error alike.
    parts : tuple of ChangePart
        By kind, in descending order of share; at most `MAX_PARTS` of each.
    """

    column: str
    steps: StepRange
    since: StepRange
    value: float
    before: float
    samples: int
    samples_before: int
    error: float
    parts: tuple[ChangePart, ...]

    @property
    def change(self) -> float:
        """Value of the steps minus that of the others."""
        return self.value - self.before

    @property
    def is_noise(self) -> bool:
        """True if the change is smaller than `NOISE` standard errors, so that its shares mean little."""
        return not abs(self.change) >= NOISE * self.error

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the parts, each once."""
        return tuple(dict.fromkeys(part.kind for part in self.parts))

    def of_kind(self, kind: str) -> list[ChangePart]:
        """Return the parts of a kind, in descending order of share."""
        return [part for part in self.parts if part.kind == kind]


def explain_step(
    view: RunView, column: str, steps: int | StepRange, since: int | StepRange | None = None
) -> StepChange:
    """Explain the change of a curve by parts, samples, groups, ranks and categories; no file is read.

    Parameters
    ----------
    view : RunView
    column : str
        A number column, or a step metric that is a mean over samples or tokens.
    steps : int or (int, int)
        A step, or the first and the last one.
    since : int or (int, int), optional
        The steps to compare with; by default up to five right before.

    Raises
    ------
    SettingError
        If the run does not have the steps or the curve, or the curve cannot be split into shares.
    """
    windows = chosen_windows(view.snapshot, steps, since)
    after, before = (rows_in(view.snapshot, bounds) for bounds in windows)
    return explain_rows(view, column, after, before, windows)


def explain_rows(
    view: RunView, column: str, after: np.ndarray, before: np.ndarray, windows: StepWindows
) -> StepChange:
    """Explain the change of a curve between two sets of rows, such as two windows of steps.

    Raises
    ------
    SettingError
        As `explain_step`.
    """
    now, earlier = (curve_parts(view, column, rows) for rows in (after, before))
    if not len(now) or not len(earlier):
        empty = windows.before if len(now) else windows.after
        raise SettingError(f"{column!r} has no value in {range_words(empty)}")
    return StepChange(
        column=column,
        steps=windows.after,
        since=windows.before,
        value=now.value,
        before=earlier.value,
        samples=len(now),
        samples_before=len(earlier),
        error=float(np.sqrt(earlier.variance * (1 + len(earlier) / len(now)))),
        parts=tuple(_Split(view, column, now, earlier).parts()),
    )


class _Split:
    """Splits a change into the parts of the samples of two windows."""

    def __init__(self, view: RunView, column: str, now: CurveParts, before: CurveParts) -> None:
        self._view, self._snapshot, self._column = view, view.snapshot, column
        self._now, self._before = now, before
        self._change = now.value - before.value
        self._added = now.deviations(before.value)
        self._added_before = before.deviations(before.value)
        self._order = np.argsort(-self._added if self._change >= 0 else self._added, kind="stable")

    def parts(self) -> Iterator[ChangePart]:
        """Yield the parts of all kinds."""
        if not self._change:
            return
        if self._column == "reward":
            yield from self._reward_parts()
        yield from self._few()
        for position in self._order[:MAX_PARTS].tolist():
            uid = self._snapshot.uid(int(self._now.rows[position]))
            yield self._part("sample", uid, "", np.array([position]))
        for kind, codes, names, where in self._partitions():
            yield from self._elements(kind, codes, names, where)

    def _reward_parts(self) -> Iterator[ChangePart]:
        """Yield the parts of the reward, if it is a weighted sum of them, by descending share."""
        weights = reward_weights(self._view, np.concatenate([self._now.rows, self._before.rows]))
        found = []
        for name, weight in weights.items():
            now, before = (self._view.counted(name, side.rows) for side in (self._now, self._before))
            missing, missing_before = ~np.isfinite(now), ~np.isfinite(before)
            value, earlier = (float(np.nan_to_num(each).mean()) for each in (now, before))
            added = weight * (value - earlier)
            lacks = missing.mean() > missing_before.mean()
            order = np.argsort(-np.nan_to_num(now) * np.sign(weight * self._change), kind="stable")
            if lacks:
                order = np.concatenate([np.flatnonzero(missing), np.flatnonzero(~missing)])
            found.append(
                ChangePart(
                    kind="part",
                    name=name,
                    share=added / self._change,
                    contribution=added,
                    count=int(np.count_nonzero(~missing)),
                    count_before=int(np.count_nonzero(~missing_before)),
                    value=value,
                    before=earlier,
                    without=self._now.value - added,
                    where=f"missing(`{name}`)" if lacks and "`" not in name else "",
                    uids=tuple(self._snapshot.uids(self._now.rows[order[:MAX_UIDS]])),
                )
            )
        yield from sorted(found, key=lambda part: -part.share)

    def _few(self) -> Iterator[ChangePart]:
        """Yield the few samples that carry most of the change, if there are such."""
        if len(self._now) < 2:
            return
        shares = np.cumsum(self._added[self._order]) / self._change
        enough = np.flatnonzero(shares >= FEW_SHARE)
        if len(enough) and enough[0] + 1 <= max(1, FEW_SAMPLES * len(self._now)):
            few = self._order[: enough[0] + 1]
            where = samples_filter(self._snapshot, self._now.rows[few])
            yield self._part("samples", f"{len(few):,} of {len(self._now):,}", where, few)

    def _partitions(self) -> Iterator[tuple[str, np.ndarray, list[str], list[str]]]:
        """Yield kind, code of each row (first those of the steps), names and filters by code."""
        snapshot, rows = self._snapshot, np.concatenate([self._now.rows, self._before.rows])
        ranks, codes = np.unique(snapshot.metadata("rank")[rows], return_inverse=True)
        if len(ranks) > 1:
            names = [str(rank) for rank in ranks.tolist()]
            yield "rank", codes, names, [f"rank == {rank}" for rank in names]
        for label in snapshot.labels:
            if label not in NO_CATEGORY and (found := category(snapshot, label, rows)):
                yield label, *found
        if self._view.grouped:
            yield "group", *self._groups()

    def _groups(self) -> tuple[np.ndarray, list[str], list[str]]:
        """Return the groups of the steps; those of the other steps are others."""
        snapshot, rows = self._snapshot, self._now.rows
        keys, steps = group_keys(snapshot, rows), snapshot.metadata("step")[rows]
        logged = "group" in snapshot.labels
        both = np.stack([steps.astype(np.int64), keys.astype(np.int64)])
        _, first, codes = np.unique(both, axis=1, return_index=True, return_inverse=True)
        labels = snapshot.label("group", rows[first]) if logged else [None] * len(first)
        hashes = snapshot.prompts(rows[first]).tolist()
        names = [
            prompt_key(key) if label is None else label for label, key in zip(labels, hashes, strict=True)
        ]
        column = label_name(snapshot, "group")
        where = [
            f"prompt_key == {quote(name)}" if label is None else f"{column} == {quote(label)}"
            for label, name in zip(labels, names, strict=True)
        ]
        if len(np.unique(steps)) > 1:  # a group is of one step
            at = steps[first].tolist()
            where = [f"step == {step} and {text}" for step, text in zip(at, where, strict=True)]
            names = [f"{name} of step {step:,}" for step, name in zip(at, names, strict=True)]
        codes = np.where(keys == NO_GROUP, -1, codes.reshape(-1))
        return np.append(codes, np.full(len(self._before), -1)), names, where

    def _elements(
        self, kind: str, codes: np.ndarray, names: list[str], where: list[str]
    ) -> Iterator[ChangePart]:
        """Yield the parts of a kind with the largest shares."""
        now, before = np.split(codes, [len(self._now)])
        added = np.bincount(now[now >= 0], self._added[now >= 0], len(names))
        added -= np.bincount(before[before >= 0], self._added_before[before >= 0], len(names))
        order = np.argsort(-added if self._change >= 0 else added, kind="stable")
        for code in order[:MAX_PARTS].tolist():
            inside, inside_before = self._order[now[self._order] == code], np.flatnonzero(before == code)
            yield self._part(kind, names[code], where[code], inside, inside_before)

    def _part(
        self, kind: str, name: str, where: str, inside: np.ndarray, inside_before: np.ndarray | None = None
    ) -> ChangePart:
        """Return the part of the samples at these positions, in descending order of contribution."""
        now, before = self._now, self._before
        left = now.total - now.weights[inside].sum()
        added, value_before = self._added[inside].sum(), float("nan")
        if inside_before is not None and len(inside_before):
            added -= self._added_before[inside_before].sum()
            value_before = before.parts[inside_before].sum() / before.weights[inside_before].sum()
        return ChangePart(
            kind=kind,
            name=name,
            share=float(added / self._change),
            contribution=float(added),
            count=len(inside),
            count_before=len(inside_before) if inside_before is not None else 0,
            value=float(now.parts[inside].sum() / now.weights[inside].sum()) if len(inside) else float("nan"),
            before=float(value_before),
            without=float((now.parts.sum() - now.parts[inside].sum()) / left) if left > 0 else float("nan"),
            where=where,
            uids=tuple(self._snapshot.uids(now.rows[inside[:MAX_UIDS]])),
        )


def category(
    snapshot: Snapshot, label: str, rows: np.ndarray
) -> tuple[np.ndarray, list[str], list[str]] | None:
    """Return codes, shape (N,), values and filters of a label; None if it is not a category of these rows.

    A value that was not logged is a value of its own, named ``none``.
    """
    codes, texts = snapshot.label_codes(label)
    if len(texts) > MAX_VALUES:
        return None
    values, codes = np.unique(codes[rows], return_inverse=True)
    if np.count_nonzero(values >= 0) < MIN_VALUES:
        return None
    column = label_name(snapshot, label)
    names = [texts[value] if value >= 0 else "none" for value in values.tolist()]
    where = [
        f"`{column}` == {quote(texts[value])}" if value >= 0 else f"missing(`{column}`)"
        for value in values.tolist()
    ]
    return codes, names, where
