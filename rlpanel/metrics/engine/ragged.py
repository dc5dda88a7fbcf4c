"""The fields of a batch of samples: token arrays and texts, so that one call serves thousands of samples.

Token arrays are ragged: those of all samples are concatenated. Some tokens may have no finite logprob,
because the engine could not score them (see `scored_tokens`); some texts may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import is_, itemgetter
from typing import cast

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ragged:
    """The arrays of one field for all samples of a batch.

    Attributes
    ----------
    counts : ndarray of int, shape (N,)
        Number of tokens of each sample; -1 for samples without the array.
    flat : ndarray of float
        The arrays, concatenated.
    """

    counts: np.ndarray
    flat: np.ndarray

    @cached_property
    def has(self) -> np.ndarray:
        """Mask of the samples that have the array, shape (N,)."""
        return self.counts >= 0

    def values(self, rows: np.ndarray) -> np.ndarray:
        """Return the tokens of the samples in the mask ``rows``, all of which must have the array."""
        if rows.all():
            return self.flat
        present = self.counts > 0
        return self.flat[np.repeat(rows[present], self.counts[present])]

    def only(self, rows: np.ndarray) -> Ragged:
        """Return the arrays of the samples in the mask ``rows`` only; the others then count as without."""
        rows = rows & self.has
        return self if rows.all() else Ragged(np.where(rows, self.counts, -1), self.values(rows))

    def split(self) -> list[np.ndarray]:
        """Return one array per sample; an empty one for samples without the array."""
        return np.split(self.flat, np.cumsum(self.counts.clip(min=0))[:-1])


def ragged_fields(samples: Sequence[Arrays]) -> dict[str, Ragged]:
    """Return every field that at least one sample has, by name."""
    fields: dict[str, Ragged] = {}
    previous = np.empty(0, np.int64)
    for name in dict.fromkeys(chain.from_iterable(samples)):
        try:
            present = list(map(itemgetter(name), samples))
            counts = np.fromiter(map(len, present), np.int64, len(present))
        except KeyError:  # some samples lack the field
            optional = [arrays.get(name) for arrays in samples]
            counts = np.array([-1 if array is None else len(array) for array in optional])
            present = [array for array in optional if array is not None]
        if np.array_equal(counts, previous):
            counts = previous  # share one object: equal lengths are later detected by identity
        previous = counts
        fields[name] = Ragged(counts, np.concatenate(present))
    return fields


def first_available(*options: Ragged | None) -> Ragged | None:
    """Return each sample's array from the first option that has it; None if no sample has one."""
    present = [option for option in options if option is not None and option.has.any()]
    if not present or present[0].has.all() or len(present) == 1:
        return present[0] if present else None
    counts = np.full(len(present[0].counts), -1)
    pieces = [np.empty(0)] * len(counts)
    for option in reversed(present):
        arrays = option.split()
        for sample in np.flatnonzero(option.has).tolist():
            counts[sample], pieces[sample] = option.counts[sample], arrays[sample]
    return Ragged(counts, np.concatenate(pieces))


def sample_starts(lengths: np.ndarray) -> np.ndarray:
    """Return the position of each sample's first token in a flat array of all tokens, shape (N,)."""
    return np.cumsum(lengths) - lengths


def token_mask(mask: Ragged, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the mask of tokens to use; a sample without a loss mask of its length uses all its tokens.

    Parameters
    ----------
    mask : Ragged
        Loss masks of N samples.
    rows : ndarray of bool, shape (N,)
        Mask of the samples to return, all of which have tokens.
    counts : ndarray of int
        Number of tokens of each of these samples.

    Returns
    -------
    ndarray of bool
        One value per token of these samples.
    """
    masked = mask.counts[rows] == counts
    masked_rows = rows.copy()
    masked_rows[rows] = masked
    keep = np.ones(int(counts.sum()), bool)
    keep[np.repeat(masked, counts)] = mask.values(masked_rows) != 0
    return keep


def squared_deviations(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return each value's squared deviation from the mean of its own sample.

    Parameters
    ----------
    values : ndarray of float, shape (T₁ + … + T_N,)
    lengths : ndarray of int, shape (N,)
        Number of tokens of each sample, all above 0.

    Returns
    -------
    ndarray of float, shape (T₁ + … + T_N,)
    """
    means = np.add.reduceat(values, sample_starts(lengths), dtype=np.float64) / lengths
    deviations = values - np.repeat(means, lengths)
    deviations *= deviations
    return deviations


# Tokens without a finite logprob: vLLM and other engines cannot score some, and log NaN or null for them.
# Such a token does not cost its sample the other tokens: means are over those, as in the trainers, which
# leave it out of their corrections. A sum over fewer tokens would be too small in silence, so a sum that is
# shown is NaN. The number of these tokens has columns of its own.

#: Arrays of logprobs of the sampled tokens → column with the number of tokens in the loss that have none.
UNSCORED = {
    name: f"unscored_{name}"
    for name in (
        "logprobs",
        "ref_logprobs",
        "old_logprobs",
        "new_logprobs",
        "rollout_logprobs",
        "teacher_logprobs",
    )
}


def scored_tokens(fields: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """Return, for each array of logprobs that is not finite everywhere, the mask of its finite tokens."""
    with np.errstate(all="ignore"):
        # One sum is faster than a test of each value. It may also overflow.
        suspects = [name for name in UNSCORED if name in fields and not np.isfinite(fields[name].flat.sum())]
    masks = {name: Ragged(fields[name].counts, np.isfinite(fields[name].flat)) for name in suspects}
    return {name: mask for name, mask in masks.items() if not mask.flat.all()}


def unscored_columns(fields: Mapping[str, Ragged]) -> dict[str, np.ndarray]:
    """Return the columns `UNSCORED` of a batch.

    Parameters
    ----------
    fields : mapping of str to Ragged
        Token arrays of N samples by field name.

    Returns
    -------
    dict of str to ndarray of float, shape (N,)
        Number of tokens in the loss without a finite logprob; NaN for samples without such tokens, so that
        runs without them have no such column.
    """
    columns = {}
    for name, scored in scored_tokens(fields).items():
        rows = scored.counts > 0
        lengths = scored.counts[rows]
        missing = ~scored.values(rows)
        if "loss_mask" in fields:
            missing &= token_mask(fields["loss_mask"], rows, lengths)
        number = np.add.reduceat(missing, sample_starts(lengths), dtype=np.float64)
        column = np.full(len(rows), np.nan)
        column[rows] = np.where(number > 0, number, np.nan)
        if np.isfinite(column).any():
            columns[UNSCORED[name]] = column
    return columns


def empty_for_none(texts: Sequence[str | None]) -> Sequence[str]:
    """Return the texts with an empty one in place of each None."""
    return [text or "" for text in texts] if None in texts else cast(Sequence[str], texts)


def missing(texts: Sequence[str | None]) -> np.ndarray:
    """Return a mask of the texts that are None, shape (N,)."""
    return np.fromiter(map(is_, texts, [None] * len(texts)), np.bool_, len(texts))


def text_lengths(texts: Sequence[str]) -> np.ndarray:
    """Return the number of characters of each text, shape (N,)."""
    return np.fromiter(map(len, texts), np.int64, len(texts))
