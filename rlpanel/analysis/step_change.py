"""Explains a step: which samples, groups, ranks and categories the change of a curve comes from.

The explanation is also written in sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.curve_parts import CurveParts, curve_parts
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.engine.segments import NO_GROUP
from rlpanel.number_text import number
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
        ``sample``, ``samples`` (the few with the largest shares), ``group``, ``rank``, ``token``,
        ``position``, or the name of a label.
    name : str
        The element: a uid, a rank's number, a label's value, ...
    share : float
        Share of the change, see the module.
    contribution : float
        The same in the curve's unit; ``share`` times the change.
    count, count_before : int
        Number of its samples at the step and at the other step; of tokens for tokens and positions.
    value, before : float
        The curve's value over its samples at the step and at the other step; NaN without any.
    without : float
        The step's value without it; NaN if nothing is left.
    where : str
        Filter expression for its samples within the step; empty if only the uids identify them.
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
    """Change of a curve from one step to another, and its parts.

    Attributes
    ----------
    column : str
    step, since : int
        The explained step and the one that it is compared with.
    value, before : float
        Values at these steps.
    samples, samples_before : int
        Number of samples of the two steps that have a value.
    error : float
        Standard error of the change if the step's samples were like those of the other step. The spread of
        the step itself is not used: one outlier raises its mean and its standard error alike.
    parts : tuple of ChangePart
        By kind, in descending order of share; at most `MAX_PARTS` of each.
    """

    column: str
    step: int
    since: int
    value: float
    before: float
    samples: int
    samples_before: int
    error: float
    parts: tuple[ChangePart, ...]

    @property
    def change(self) -> float:
        """Value at the step minus value at the other step."""
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


def explain_step(view: RunView, column: str, step: int, since: int | None = None) -> StepChange:
    """Explain the change of a curve by samples, groups, ranks and categories; no file is read.

    Parameters
    ----------
    view : RunView
    column : str
        A number column, or a step metric that is a mean over samples or tokens.
    step : int
    since : int, optional
        The step to compare with; by default the one before.

    Raises
    ------
    SettingError
        If the run does not have the steps or the curve, or the curve cannot be split into shares.
    """
    since = compared_step(view.snapshot, step, since)
    now = curve_parts(view, column, view.snapshot.rows_of(step))
    before = curve_parts(view, column, view.snapshot.rows_of(since))
    if not len(now) or not len(before):
        raise SettingError(f"{column!r} has no value at step {step if not len(now) else since}")
    split = _Split(view, now, before)
    return StepChange(
        column=column,
        step=step,
        since=since,
        value=now.value,
        before=before.value,
        samples=len(now),
        samples_before=len(before),
        error=float(np.sqrt(before.variance * (1 + len(before) / len(now)))),
        parts=tuple(split.parts()),
    )


def compared_step(snapshot: Snapshot, step: int, since: int | None) -> int:
    """Return the step to compare with."""
    steps = snapshot.steps
    position = steps.position(step)
    if position < 0:
        raise SettingError(f"{snapshot.name} has no step {step}")
    if since is None:
        if position == 0:
            raise SettingError(f"step {step} is the first one of {snapshot.name}: there is none before it")
        return int(steps.values[position - 1])
    if steps.position(since) < 0:
        raise SettingError(f"{snapshot.name} has no step {since}")
    if since == step:
        raise SettingError(f"step {step} is compared with itself")
    return since


class _Split:
    """Splits a change into the parts of the samples of two steps."""

    def __init__(self, view: RunView, now: CurveParts, before: CurveParts) -> None:
        self._view, self._snapshot = view, view.snapshot
        self._now, self._before = now, before
        self._change = now.value - before.value
        self._added = now.deviations(before.value)
        self._added_before = before.deviations(before.value)
        self._order = np.argsort(-self._added if self._change >= 0 else self._added, kind="stable")

    def parts(self) -> Iterator[ChangePart]:
        """Yield the parts of all kinds."""
        if not self._change:
            return
        yield from self._few()
        for position in self._order[:MAX_PARTS].tolist():
            uid = self._snapshot.uid(int(self._now.rows[position]))
            yield self._part("sample", uid, "", np.array([position]))
        for kind, codes, names, where in self._partitions():
            yield from self._elements(kind, codes, names, where)

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
        """Yield kind, code of each row (first those of the step), names and filters by code."""
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
        """Return the groups of the step; those of the other step are others."""
        snapshot, rows = self._snapshot, self._now.rows
        keys = group_keys(snapshot, rows)
        logged = "group" in snapshot.labels
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
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
        codes = np.where(keys == NO_GROUP, -1, codes)
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


#: A rank, group or category stands out with at least this share of the change, and this many times its share
#: of the samples.
HALF, STANDS_OUT = 0.5, 1.5
#: If fewer samples than this carry the change, their rank and category are a coincidence.
_MANY = 3


def sentences(change: StepChange) -> list[str]:
    """Return what the change comes from, in a few sentences; only what stands out is named."""
    label, steps = describe(change.column).label, f"from step {change.since:,} to {change.step:,}"
    if not change.change:
        return [f"{label} did not change {steps}."]
    few = change.of_kind("samples")
    if change.is_noise:
        return [
            f"The change of {label} {steps} is smaller than {NOISE:g} standard errors: nothing stands out."
        ]
    found = [_few_sentence(change, few[0], label)] if few else []
    if not few or few[0].count >= _MANY:
        found += [text for kind in change.kinds if (text := _kind_sentence(change, kind, label))]
    return found or [
        f"The change of {label} {steps} comes from many samples; no group or category stands out."
    ]


def _few_sentence(change: StepChange, few: ChangePart, label: str) -> str:
    verb, them = ("carries", "it") if few.count == 1 else ("carry", "them")
    return (
        f"{few.name} samples {verb} {_carried(few, change)} of {label} at step {change.step:,}: "
        f"without {them} it is {number(few.without)}, not {number(change.value)}."
    )


#: Share from which on a part is more than the whole change, and not just by rounding.
_WHOLE = 1.005


def _carried(part: ChangePart, change: StepChange) -> str:
    """Return a part's share of the change; above 1, where other parts lower it again, as amounts."""
    if part.share < _WHOLE:
        return f"{part.share:.0%} of the change"
    added, left = (number(value, sign=True) for value in (part.contribution, change.change))
    return f"more than the whole change ({added}, which others take back to {left})"


def _kind_sentence(change: StepChange, kind: str, label: str) -> str:
    """Return a sentence about the first part of a kind; empty if it does not stand out."""
    first = change.of_kind(kind)[0]
    size = first.count / change.samples
    if (
        kind in ("sample", "samples")
        or first.share < HALF
        or first.share < STANDS_OUT * size
        or first.count < 2
    ):
        return ""
    name = f"{kind} {first.name}" if kind in ("rank", "group") else f"{kind} = {first.name}"
    text = f"{name} carries {_carried(first, change)} of {label}"
    if not first.count_before:
        return f"{text}: its {first.count:,} of {change.samples:,} samples have {number(first.value)}."
    if abs(size * (first.value - first.before)) < HALF * abs(first.contribution):
        size_before = first.count_before / change.samples_before
        return f"{text}: its share of the samples went from {size_before:.0%} to {size:.0%}."
    return (
        f"{text}: its {first.count:,} of {change.samples:,} samples have {number(first.value)}, after "
        f"{number(first.before)} at step {change.since:,}."
    )
