"""Tokens without a finite logprob: vLLM and other engines cannot score some, and log NaN or null for them.

Such a token does not cost its sample the other tokens: means are over those, as in the trainers, which leave
it out of their corrections. A sum over fewer tokens would be too small in silence, so a sum that is shown is
NaN. The number of these tokens has columns of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlpanel.metrics.engine.ragged import Ragged, sample_starts, token_mask

#: Arrays of logprobs of the sampled tokens → column with the number of tokens in the loss that have none.
UNSCORED = {
    name: f"unscored_{name}"
    for name in ("logprobs", "ref_logprobs", "old_logprobs", "new_logprobs", "rollout_logprobs")
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
