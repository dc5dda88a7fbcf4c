"""Derives token arrays that were not logged (returns, advantages, old and new logprobs) from those that were.

Logged arrays always take precedence. If a sample lacks an input, only that sample lacks the derived array.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlpanel.metrics.engine.gae import advantages as gae
from rlpanel.metrics.engine.ragged import (
    Arrays,
    Ragged,
    first_available,
    ragged_fields,
    sample_starts,
    token_mask,
)

#: Derived arrays that metrics may take and that are never logged.
DERIVED = ("weight",)


def with_derived(
    fields: Mapping[str, Ragged], numbers: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> dict[str, Ragged]:
    """Return the token arrays of a batch together with those derived from them.

    Parameters
    ----------
    fields : mapping of str to Ragged
        Token arrays of N samples, by field name.
    numbers : mapping of str to ndarray, shape (N,)
        Logged sample columns, of which ``advantage``, ``terminal_value`` and ``terminal_reward`` are used.
    constants : mapping
        ``gamma`` and ``lam`` for advantages and returns.

    Returns
    -------
    dict of str to Ragged
        Adds, where possible, ``new_logprobs`` and ``old_logprobs`` (after and before an update), ``returns``,
        ``advantages`` and ``weight`` (the advantage at each token).
    """
    filled = dict(fields)
    _add_update(filled)
    _add_returns(filled, numbers, constants)
    _add_weight(filled, numbers)
    return filled


def derived_of_sample(
    arrays: Arrays, numbers: Mapping[str, float], constants: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Return advantages and returns of one sample, if they were not logged and can be derived.

    Returns {} if values and rewards are all 0: zeros may be a trainer's filler rather than a critic's output.
    """
    if not any(arrays[name].any() for name in ("values", "token_rewards") if name in arrays):
        return {}
    columns = {name: np.array([number]) for name, number in numbers.items()}
    filled = with_derived(ragged_fields([arrays]), columns, constants)
    derived = {"advantages", "returns"} & filled.keys() - arrays.keys()
    return {name: filled[name].flat for name in sorted(derived)}


def _set(fields: dict[str, Ragged], name: str, array: Ragged | None) -> None:
    """Set a field unless the array is None."""
    if array is not None:
        fields[name] = array


def _add_update(fields: dict[str, Ragged]) -> None:
    """Add the logprobs after (``new_logprobs``) and before an update (``old_logprobs``).

    If a trainer logs one of them, ``logprobs`` are the other. The engine's logprobs are neither of them.
    """
    logprobs, new, old = (fields.get(name) for name in ("logprobs", "new_logprobs", "old_logprobs"))
    if logprobs is None:
        return
    if old is not None:
        _set(fields, "new_logprobs", first_available(new, logprobs.only(old.has)))
    if new is not None:
        _set(fields, "old_logprobs", first_available(old, logprobs.only(new.has)))


def _add_returns(
    fields: dict[str, Ragged], numbers: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> None:
    """Add returns and advantages by GAE, for samples with values and token rewards but no logged returns."""
    values, rewards, logged = (fields.get(name) for name in ("values", "token_rewards", "returns"))
    if values is None or rewards is None or "gamma" not in constants or "lam" not in constants:
        return
    wanted = (values.counts > 0) & (values.counts == rewards.counts)
    if logged is not None:
        wanted &= ~logged.has
    keep = _policy_tokens(fields.get("loss_mask"), values, wanted)
    if not wanted.any():
        return
    values = values.only(wanted)
    advantages = gae(
        rewards.values(wanted),
        values.flat,
        lengths=values.counts[wanted],
        terminal_value=_column_at(numbers, "terminal_value", wanted),
        terminal_reward=_column_at(numbers, "terminal_reward", wanted),
        gamma=constants["gamma"],
        lam=constants["lam"],
        keep=keep,
    )
    _set(fields, "returns", first_available(logged, Ragged(values.counts, advantages + values.flat)))
    _set(fields, "advantages", first_available(fields.get("advantages"), Ragged(values.counts, advantages)))


def _policy_tokens(mask: Ragged | None, values: Ragged, wanted: np.ndarray) -> np.ndarray | None:
    """Return the tokens of the wanted samples that the policy wrote; None without loss masks.

    Samples of which no token takes part in the loss have no advantages: they are removed from ``wanted``.
    """
    if mask is None or not wanted.any():
        return None
    keep = token_mask(mask, wanted, values.counts[wanted])
    lengths = values.counts[wanted]
    counted = np.add.reduceat(keep, sample_starts(lengths)) > 0
    wanted[wanted] = counted
    return keep[np.repeat(counted, lengths)]


def _column_at(numbers: Mapping[str, np.ndarray], name: str, rows: np.ndarray) -> np.ndarray:
    """Return a column at the masked rows; NaN if the column is absent."""
    return numbers[name][rows] if name in numbers else np.full(int(rows.sum()), np.nan)


def _add_weight(fields: dict[str, Ragged], numbers: Mapping[str, np.ndarray]) -> None:
    """Add the advantage at each token, for samples with logprobs of an update."""
    new, advantages = fields.get("new_logprobs"), fields.get("advantages")
    if new is None:
        return
    repeated = None
    if "advantage" in numbers:
        repeated = Ragged(new.counts, np.repeat(numbers["advantage"], new.counts.clip(min=0)))
    _set(
        fields, "weight", first_available(None if advantages is None else advantages.only(new.has), repeated)
    )
