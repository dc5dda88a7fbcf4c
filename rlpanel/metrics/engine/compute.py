"""Compute the declared metrics: token arrays of one sample, or sample columns of a batch.

A batch is a ragged array (`rlpanel.metrics.engine.ragged`), so that one ``np.add.reduceat`` per metric gives
the sums of all samples.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.constants import USUAL_CONSTANTS
from rlpanel.metrics.engine.derived_arrays import with_derived
from rlpanel.metrics.engine.metric import registry_cache
from rlpanel.metrics.engine.ragged import (
    Arrays,
    Ragged,
    ragged_fields,
    sample_starts,
    scored_tokens,
    token_mask,
)

_NO_COLUMNS: Mapping[str, np.ndarray] = {}


def token_values(arrays: Arrays, names: Container[str] | None = None) -> dict[str, np.ndarray]:
    """Compute every token metric whose inputs are available.

    Parameters
    ----------
    arrays : mapping of str to ndarray, each of shape (T,)
        Arrays of one sample by field name; lengths may differ between fields.
    names : container of str, optional
        Metrics to compute; all by default.

    Returns
    -------
    dict of str to ndarray, shape (T,)
        Values by metric name, in menu order. A metric whose inputs differ in length is left out.
    """
    derived = with_derived(ragged_fields([arrays]), _NO_COLUMNS, {})
    inputs = {name: field.flat for name, field in derived.items()}
    values = {}
    for m in column_info.of_level("token"):
        if names is not None and m.name not in names:
            continue
        if m.available(inputs) and not m.hidden and len({len(inputs[need]) for need in m.needs}) == 1:
            with np.errstate(all="ignore"):
                values[m.name] = m.call(inputs)
    return values


class _SampleSubset:
    """The samples of a batch that have all inputs of some metric.

    Parameters
    ----------
    rows : ndarray of bool, shape (N,)
        Mask of these samples in the batch.
    counts : ndarray of int
        Number of tokens of each that are used, all above 0.
    partial : ndarray of bool, optional
        Mask of those of which a token could not be scored; by default there are none.
    """

    def __init__(self, rows: np.ndarray, counts: np.ndarray, partial: np.ndarray | None = None) -> None:
        self._rows = None if len(counts) == len(rows) else rows
        self._partial = partial
        self.lengths = counts
        self._starts = sample_starts(counts)
        self._counts = counts.astype(float)

    def columns(self, metric: column_info.Metric, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the sample columns of a token metric, by column name."""
        total = np.add.reduceat(metric.call(inputs), self._starts, dtype=np.float64)
        columns = {}
        for reduction, name in metric.columns.items():
            if reduction == "count":
                columns[name] = self._to_batch(self._counts)
            elif reduction == "mean":
                columns[name] = self._to_batch(total / self._counts)
            elif self._partial is not None and "sum" in metric.reductions:
                columns[name] = self._to_batch(np.where(self._partial, np.nan, total))
            else:
                columns[name] = self._to_batch(total)
        return columns

    def _to_batch(self, values: np.ndarray) -> np.ndarray:
        """Return a column of the whole batch, with NaN for the samples outside the subset."""
        if self._rows is None:
            return values
        column = np.full(len(self._rows), np.nan)
        column[self._rows] = values
        return column


class _MetricInputs:
    """Cache of metric inputs by the names of the needed fields and the use of the loss mask.

    Selects the samples that have all needed fields, with equal lengths and at least one token.
    """

    def __init__(self, fields: Mapping[str, Ragged], constants: Mapping[str, Any]) -> None:
        self._fields, self._constants = fields, constants
        self._scored = scored_tokens(fields)
        self._cached: dict[tuple[bool, tuple[str, ...]], tuple[_SampleSubset, dict[str, Any]] | None] = {}
        #: Subsets that contain all samples, by the id of the ``counts`` array that the fields share.
        self._whole: dict[int, _SampleSubset] = {}

    def select(self, m: column_info.Metric) -> tuple[_SampleSubset, dict[str, Any]] | None:
        """Return the samples that have all inputs of a token metric, and the inputs; None if none has."""
        masked = m.masked and "loss_mask" in self._fields
        key = masked, m.needs
        if key not in self._cached:
            self._cached[key] = self._select(m.needs, masked=masked)
        return self._cached[key]

    def _select(self, needs: tuple[str, ...], *, masked: bool) -> tuple[_SampleSubset, dict[str, Any]] | None:
        fields = self._fields
        counts = fields[needs[0]].counts
        unscored = [need for need in needs if need in self._scored]
        alike = all(fields[need].counts is counts for need in needs) and not masked and not unscored
        subset = self._whole.get(id(counts)) if alike else None
        if subset is not None:
            return subset, self._with_constants(subset, {need: fields[need].flat for need in needs})
        rows = counts > 0
        for need in needs[1:]:
            rows &= fields[need].counts == counts
        inputs = {need: fields[need].values(rows) for need in needs}
        lengths = counts[rows]
        partial = None
        if masked or unscored:
            keep = np.ones(int(lengths.sum()), bool)
            keep = token_mask(fields["loss_mask"], rows, lengths) if masked else keep
            wanted = _true_in_each(keep, lengths)
            for need in unscored:
                keep &= self._scored[need].values(rows)
            inputs = {need: values[keep] for need, values in inputs.items()}
            used = _true_in_each(keep, lengths)
            rows[rows] = used > 0
            partial = (used < wanted)[used > 0] if unscored else None
            lengths = used[used > 0]
        if not len(lengths):
            return None
        subset = _SampleSubset(rows, lengths, partial)
        if alike and len(lengths) == len(counts):
            self._whole[id(counts)] = subset
        return subset, self._with_constants(subset, inputs)

    def _with_constants(self, subset: _SampleSubset, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {**self._constants, **inputs, "lengths": subset.lengths}


def _true_in_each(mask: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return how many tokens of each sample are in the mask, from the samples' lengths."""
    return np.bincount(np.repeat(np.arange(len(lengths)), lengths)[mask], minlength=len(lengths))


def reduce_tokens(
    samples: Sequence[Arrays],
    numbers: Mapping[str, np.ndarray] = _NO_COLUMNS,
    constants: Mapping[str, Any] = USUAL_CONSTANTS,
) -> dict[str, np.ndarray]:
    """Compute sample columns from token arrays.

    Tokens outside ``loss_mask`` are left out, if a mask of the arrays' length was logged and the metric is
    `Metric.masked`. So are tokens without a finite logprob, from the metrics that need it: see
    `scored_tokens`.

    Parameters
    ----------
    samples : sequence of mapping, length N
        Token arrays by field name, one mapping per sample.
    numbers : mapping of str to ndarray, shape (N,)
        Logged numbers of the samples.
    constants : mapping
        Training constants; `USUAL_CONSTANTS` values by default.

    Returns
    -------
    dict of str to ndarray of float64, shape (N,)
        ``<metric>_<reduction>``; NaN where a sample lacks an input, has inputs of unequal length, has
        no tokens, or contains a NaN in another array than logprobs. A sum that is shown is NaN too if a token
        was left out for its logprob. A metric that no sample has the inputs for is absent.
    """
    return reduce_ragged(ragged_fields(samples), numbers, constants)


def reduce_ragged(
    fields: Mapping[str, Ragged], numbers: Mapping[str, np.ndarray], constants: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Compute sample columns as `reduce_tokens` does, from ragged arrays by field name."""
    if not fields:
        return {}
    fields = with_derived(fields, numbers, constants)
    cached_inputs, columns = _MetricInputs(fields, constants), {}
    with np.errstate(all="ignore"):
        for m in _reducible(frozenset((*fields, *constants))):
            selected = cached_inputs.select(m)
            if selected is not None:
                subset, inputs = selected
                columns |= subset.columns(m, inputs)
    return columns


@registry_cache
def _reducible(names: frozenset[str]) -> list[column_info.Metric]:
    """Return the token metrics that become sample columns and whose inputs are among ``names``."""
    return [m for m in column_info.of_level("token") if m.columns and m.available(names)]


def derive_columns(
    columns: Mapping[str, np.ndarray], constants: Mapping[str, Any] = USUAL_CONSTANTS
) -> dict[str, np.ndarray]:
    """Compute sample metrics from sample columns, except lazy metrics, which need whole groups.

    Parameters
    ----------
    columns : mapping of str to ndarray, shape (N,)
    constants : mapping
        Training constants; `USUAL_CONSTANTS` values by default.

    Returns
    -------
    dict of str to ndarray, shape (N,)
        Values by metric name; a metric that is NaN in all rows is absent.
    """
    inputs = {**constants, **columns}
    computed: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for m in column_info.of_level("sample"):
            if not m.lazy and m.available(inputs):
                values = m.call(inputs)
                if not np.isnan(values).all():
                    computed[m.name] = inputs[m.name] = values
    return computed


def text_columns(response_text: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the sample metrics of response texts, shape (N,) each; too slow for every row of a log."""
    inputs = {"response_text": response_text}
    return {m.name: m.call(inputs) for m in column_info.of_level("sample") if m.needs == ("response_text",)}
