"""Explains steps by their tokens: the shares of token strings and positions in the change of a curve.

Only curves that are reductions of a token metric have such shares: its mean or sum over the tokens of a
sample, and its mean over all tokens of a step. A token with value v adds ``v / (T * N)``, ``v / N`` or
``v / T_all`` to such a curve, for T tokens in its sample, N samples and T_all tokens in the step. With ``w``
as the same of 1 in place of v (0 for sums over tokens), the share of a set E of tokens is, as in
`rlpanel.analysis.step_change` ::

    (sum over E of (v - m0 * w) - the same in the other steps) / (m - m0)

`ChangePart.without` is the weighted mean of the other tokens, each with its weight from before. The lines of
both windows are read, so this runs in the background.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rlpanel.analysis.step_change import MAX_PARTS, MAX_UIDS, ChangePart
from rlpanel.analysis.step_windows import StepRange, chosen_windows, rows_in
from rlpanel.errors import RLPanelError, SettingError
from rlpanel.metrics.engine.column_info import ALIASES, METRICS
from rlpanel.metrics.engine.compute import token_values
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.snapshot import Snapshot

#: Maximum number of samples to read per window; of a larger one a fixed choice of samples is read.
MAX_SAMPLES = 512
#: Seconds between two progress results.
PULSE = 0.25
#: First positions of the ranges of positions, from 0; the last range is open.
RANGES = (0, 1, 4, 16, 64, 256, 1024, 4096)
#: Names of the curves that are means over all tokens of a step, and their token metrics.
POOLED = {
    "kl_k1_pooled": "log_ratio",
    "kl_k3_pooled": "kl_k3",
    "entropy_pooled": "token_entropy",
    "surprisal_pooled": "surprisal",
}


@dataclass(frozen=True)
class TokenChange:
    """Shares of token strings and positions in the change of a curve, so far.

    Attributes
    ----------
    read, total : int
        Number of samples that were read, and to read.
    value, before : float
        Values of the curve over the samples that were read; NaN until all are.
    samples, all_samples : int
        Number of samples of both steps that were used, and that count.
    parts : tuple of ChangePart
        Of kind ``token`` and ``position``; empty until all samples were read.
    """

    read: int
    total: int
    value: float = float("nan")
    before: float = float("nan")
    samples: int = 0
    all_samples: int = 0
    parts: tuple[ChangePart, ...] = ()

    @property
    def complete(self) -> bool:
        """True if all samples were read."""
        return self.read == self.total


def token_metric(curve: str) -> tuple[str, str] | None:
    """Return the token metric and reduction (``mean``, ``sum`` or ``pooled``) of a curve; None without."""
    if curve in POOLED:
        return POOLED[curve], "pooled"
    base, _, reduction = ALIASES.get(curve, curve).rpartition("_")
    metric = METRICS.get(base)
    if metric is None or metric.level != "token" or reduction not in metric.columns:
        return None
    return base, reduction


def explain_tokens(
    index: RunIndex,
    snapshot: Snapshot,
    curve: str,
    steps: int | StepRange,
    since: int | StepRange | None = None,
) -> Iterator[TokenChange]:
    """Read the tokens of two windows; yield progress, and last the shares of token strings and positions.

    By default, up to five steps right before are compared with.

    Raises
    ------
    SettingError
        If the run does not have the steps, or the curve is not a reduction of a token metric.
    """
    found = token_metric(curve)
    if found is None:
        raise SettingError(f"{curve!r} is not a mean or sum over tokens, so tokens have no shares in it")
    windows = [rows_in(snapshot, bounds) for bounds in chosen_windows(snapshot, steps, since)]
    sides = [snapshot.sample_rows(rows, MAX_SAMPLES) for rows in windows]
    total, read = sum(map(len, sides)), 0
    tables = [_Tokens(*found), _Tokens(*found)]
    yield TokenChange(0, total)
    last_yield = time.monotonic()
    for table, rows in zip(tables, sides, strict=True):
        for row in rows.tolist():
            table.add(index, snapshot, row)
            read += 1
            if time.monotonic() - last_yield > PULSE and read < total:
                last_yield = time.monotonic()
                yield TokenChange(read, total)
    now, before = tables
    yield TokenChange(
        read=total,
        total=total,
        value=now.value,
        before=before.value,
        samples=len(now.rows) + len(before.rows),
        all_samples=sum(map(len, windows)),
        parts=tuple(_parts(snapshot, now, before)),
    )


@dataclass
class _Tokens:
    """Values and weights of all tokens of a step.

    Attributes
    ----------
    codes : dict of str to int
        Code of each token string.
    rows : list of int
        Rows of the samples that have tokens.
    columns : list of tuple
        For each sample: codes, positions and values of its tokens.
    """

    metric: str
    reduction: str
    codes: dict[str, int] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    columns: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, index: RunIndex, snapshot: Snapshot, row: int) -> None:
        """Add the tokens of a sample; none if it cannot be read or lacks the values."""
        try:
            record = fetch_record(index, snapshot, row)
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            return
        values = token_values(record.arrays).get(self.metric)
        tokens = record.tokens
        if values is None or not tokens or len(values) != len(tokens):
            return
        mask = record.arrays.get("loss_mask")
        masked = mask is not None and len(mask) == len(tokens) and bool((mask != 0).any())
        keep = np.flatnonzero(mask != 0) if masked else np.arange(len(tokens))
        if not np.isfinite(values[keep]).all():  # the sample has no value in the curve either
            return
        codes = np.array([self.codes.setdefault(token, len(self.codes)) for token in tokens], np.int64)
        self.rows.append(row)
        self.columns.append((codes[keep], keep, values[keep]))

    @property
    def value(self) -> float:
        """The curve's value over the samples."""
        return float(self.values.sum()) if self.rows else float("nan")

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each sample."""
        return np.array([len(values) for *_, values in self.columns], np.int64)

    @property
    def scale(self) -> np.ndarray:
        """Weight of each token's value in the curve's value, shape (tokens,)."""
        lengths = self.lengths
        if self.reduction == "pooled":
            return np.full(lengths.sum(), 1 / max(lengths.sum(), 1))
        each = 1 / lengths if self.reduction == "mean" else np.ones(len(lengths))
        return np.repeat(each / max(len(lengths), 1), lengths)

    @property
    def values(self) -> np.ndarray:
        """Contribution of each token to the curve's value, shape (tokens,)."""
        return self.raw * self.scale

    def deviations(self, reference: float) -> np.ndarray:
        """Return what each token adds to the difference to another step's value, shape (tokens,)."""
        return self.values - (0.0 if self.reduction == "sum" else reference * self.scale)

    @property
    def raw(self) -> np.ndarray:
        """Value of the metric at each token, shape (tokens,)."""
        return self._column(2)

    def _column(self, which: int) -> np.ndarray:
        parts = [columns[which] for columns in self.columns]
        return np.concatenate(parts) if parts else np.empty(0)

    @property
    def token_codes(self) -> np.ndarray:
        """Code of each token's string, shape (tokens,)."""
        return self._column(0).astype(np.int64)

    @property
    def ranges(self) -> np.ndarray:
        """Index in `RANGES` of each token's position, shape (tokens,)."""
        return np.searchsorted(RANGES, self._column(1), "right") - 1

    @property
    def token_rows(self) -> np.ndarray:
        """Row of each token's sample, shape (tokens,)."""
        return np.repeat(np.array(self.rows, np.int64), self.lengths)


def _parts(snapshot: Snapshot, now: _Tokens, before: _Tokens) -> Iterator[ChangePart]:
    """Yield the parts of tokens and positions, in descending order of share."""
    change = now.value - before.value
    if not np.isfinite(change) or not change:
        return
    of_before = np.array([now.codes.setdefault(name, len(now.codes)) for name in before.codes], np.int64)
    names = list(now.codes)
    codes_before = of_before[before.token_codes] if len(of_before) else np.empty(0, np.int64)
    split = _TokenSplit(snapshot, now, before, change)
    yield from split.parts("token", now.token_codes, codes_before, names)
    yield from split.parts(
        "position", now.ranges, before.ranges, [_range_name(at) for at in range(len(RANGES))]
    )


class _TokenSplit:
    """Splits a change into parts by any code of the tokens."""

    def __init__(self, snapshot: Snapshot, now: _Tokens, before: _Tokens, change: float) -> None:
        self._snapshot, self._change = snapshot, change
        self._added, self._rows = now.deviations(before.value), now.token_rows
        self._added_before = before.deviations(before.value)
        self._value, self._scale, self._values = now.value, now.scale, now.values
        self._raw, self._raw_before = now.raw, before.raw
        self._is_sum = now.reduction == "sum"

    def parts(
        self, kind: str, codes: np.ndarray, codes_before: np.ndarray, names: list[str]
    ) -> Iterator[ChangePart]:
        """Yield the parts with the largest shares."""
        size = len(names)
        added = np.bincount(codes, self._added, size) - np.bincount(codes_before, self._added_before, size)
        count, count_before = np.bincount(codes, minlength=size), np.bincount(codes_before, minlength=size)
        with np.errstate(all="ignore"):
            value = np.bincount(codes, self._raw, size) / count
            before = np.bincount(codes_before, self._raw_before, size) / count_before
            weight = 0.0 if self._is_sum else np.bincount(codes, self._scale, size)
            without = (self._value - np.bincount(codes, self._values, size)) / (1 - weight)
        order = np.argsort(-added if self._change > 0 else added, kind="stable")
        for code in order[:MAX_PARTS].tolist():
            if not count[code] and not count_before[code]:
                continue
            inside = np.flatnonzero(codes == code)
            inside = inside[np.argsort(-self._added[inside] * np.sign(self._change), kind="stable")]
            rows = list(dict.fromkeys(self._rows[inside].tolist()))[:MAX_UIDS]
            yield ChangePart(
                kind=kind,
                name=names[code],
                share=float(added[code] / self._change),
                contribution=float(added[code]),
                count=int(count[code]),
                count_before=int(count_before[code]),
                value=float(value[code]),
                before=float(before[code]),
                without=float(without[code]),
                where=_holds(names[code]) if kind == "token" else "",
                uids=tuple(self._snapshot.uids(np.array(rows, np.int64))),
            )


def _holds(token: str) -> str:
    """Return a filter for the samples that contain a token's text; empty for a token without visible text."""
    return f"response contains {quote(token.strip())}" if token.strip() and "\ufffd" not in token else ""


def _range_name(at: int) -> str:
    """Return the name of a range of positions, counted from 1."""
    first = RANGES[at] + 1
    if at + 1 == len(RANGES):
        return f"{first:,} and later"
    last = RANGES[at + 1]
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"
