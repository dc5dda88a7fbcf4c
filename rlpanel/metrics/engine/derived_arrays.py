"""Derives token arrays that were not logged (returns, advantages, old and new logprobs) from those that were.

Logged arrays always take precedence. If a sample lacks an input, only that sample lacks the derived array.
Returns and advantages follow by generalised advantage estimation (GAE).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

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
    advantages = advantages_by_gae(
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


#: Powers of the factor stay below e^300, so that values up to 10^170 do not overflow.
_MAX_EXPONENT = 300.0
#: Responses of at least this many tokens are summed one by one.
_LONG = 512


def advantages_by_gae(
    token_rewards: np.ndarray,
    values: np.ndarray,
    *,
    lengths: np.ndarray,
    terminal_value: np.ndarray,
    terminal_reward: np.ndarray,
    gamma: float,
    lam: float,
    keep: np.ndarray | None = None,
) -> np.ndarray:
    """Compute A_t = δ_t + γλ A_{t+1} with δ_t = r_t + γ V_{t+1} − V_t, separately for each response.

    TRL's PPO puts the score one slot after the end token. If that slot was logged, the score is moved there
    from the last token's reward, which contains it: A_T = terminal_reward − terminal_value.

    Tokens that the policy did not write are skipped, as in verl's ``compute_gae_advantage_return``: their
    values and rewards have no effect, and they have the advantage of the next token that counts.

    Parameters
    ----------
    token_rewards, values : ndarray of float, shape (T₁ + … + T_N,)
    lengths : ndarray of int, shape (N,)
        Number of tokens of each response, all above 0.
    terminal_value, terminal_reward : ndarray of float, shape (N,)
        Value and reward of the slot after the last token; NaN for responses without it.
    keep : ndarray of bool, shape (T₁ + … + T_N,), optional
        Mask of the tokens that count, at least one of each response; by default all.

    Returns
    -------
    ndarray of float, shape (T₁ + … + T_N,)
        Advantages, not whitened. Advantage plus value is the return.

    References
    ----------
    Schulman et al. 2016, High-Dimensional Continuous Control Using Generalized Advantage Estimation.
    """
    if keep is not None and not keep.all():
        kept_lengths = np.add.reduceat(keep, sample_starts(lengths), dtype=np.int64)
        kept = advantages_by_gae(
            token_rewards[keep],
            values[keep],
            lengths=kept_lengths,
            terminal_value=terminal_value,
            terminal_reward=terminal_reward,
            gamma=gamma,
            lam=lam,
        )
        return _spread(kept, keep, np.repeat(np.cumsum(kept_lengths), lengths))
    last = np.cumsum(lengths) - 1
    slot_value, slot_reward = (
        np.where(np.isnan(slot), 0.0, slot) for slot in (terminal_value, terminal_reward)
    )
    delta = np.append(values[1:], 0.0)
    delta[last] = slot_value
    delta *= gamma
    delta += token_rewards
    delta -= values
    delta[last] += gamma * lam * (slot_reward - slot_value) - slot_reward
    return discounted(delta, gamma * lam, lengths)


def _spread(kept: np.ndarray, keep: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return each token's value from the next kept token; 0 behind the last one of its response.

    ``ends`` is the number of kept tokens up to the end of each token's response.
    """
    following = np.cumsum(keep) - keep
    return np.where(following < ends, kept[following.clip(max=len(kept) - 1)], 0.0)


def discounted(values: np.ndarray, factor: float, lengths: np.ndarray) -> np.ndarray:
    """Compute y_t = x_t + factor · y_{t+1} within each response.

    Parameters
    ----------
    values : ndarray of float, shape (T₁ + … + T_N,)
    factor : float
        Between 0 and 1.
    lengths : ndarray of int, shape (N,)
        Number of tokens of each response.
    """
    long = lengths >= _LONG
    if not long.any() or factor <= 0:
        return _doubled(values, factor, lengths)
    if long.all():
        return _run(values, factor, lengths)
    tokens, total = np.repeat(long, lengths), np.empty_like(values)
    total[tokens] = _run(values[tokens], factor, lengths[long])
    total[~tokens] = _doubled(values[~tokens], factor, lengths[~long])
    return total


def _doubled(values: np.ndarray, factor: float, lengths: np.ndarray) -> np.ndarray:
    """Compute `discounted` by doubling: after k rounds each token has the sum over the next 2^k tokens.

    Responses of a hundred tokens take seven rounds over the batch, or fewer once the factor is negligible.
    """
    # Working arrays are allocated once: allocating them in each round costs more than the sums.
    left = np.repeat(np.cumsum(lengths, dtype=np.int32), lengths)
    left -= np.arange(1, len(values) + 1, dtype=np.int32)
    total, ahead, reach = values.copy(), np.empty_like(values), 1
    longest = int(lengths.max(initial=0))
    while reach < longest and factor > 1e-18:
        head = slice(None, -reach)
        np.multiply(total[reach:], factor, out=ahead[head])
        np.copyto(ahead[head], 0.0, where=left[head] < reach)
        total[head] += ahead[head]
        reach, factor = 2 * reach, factor * factor
    return total


def _run(values: np.ndarray, factor: float, lengths: np.ndarray) -> np.ndarray:
    """Compute `discounted` as cumulative sums from each response's end, weighted by powers of the factor.

    The terms grow towards the size of the sum, so precision is as good as that of a plain loop.
    """
    # Over more tokens, the powers of the factor would overflow.
    max_size = int(_MAX_EXPONENT / max(abs(math.log(factor)), 1e-9)) + 1
    parts = [_split_length(length, max_size) for length in lengths.tolist()]
    powers = factor ** -np.arange(max(map(max, parts)), dtype=float)[::-1]
    weights = np.concatenate([powers[-size:] for part in parts for size in part])
    total = values * weights
    end = len(total)
    for response in reversed(parts):
        for number, size in enumerate(reversed(response)):
            backwards = total[end - size : end][::-1]
            if number:
                backwards[0] += factor * total[end] / weights[end]
            np.add.accumulate(backwards, 0, None, backwards)
            end -= size
    total /= weights
    return total


def _split_length(length: int, max_size: int) -> list[int]:
    """Split a length into parts of ``max_size``; the first part is smaller if there is a remainder."""
    whole, rest = divmod(length, max_size)
    return [rest] * bool(rest) + [max_size] * whole
