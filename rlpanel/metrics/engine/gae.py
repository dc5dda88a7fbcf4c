"""Generalised advantage estimation (GAE) for a ragged batch of responses.

References
----------
Schulman et al. 2016, High-Dimensional Continuous Control Using Generalized Advantage Estimation.
"""

from __future__ import annotations

import math

import numpy as np

from rlpanel.metrics.engine.ragged import sample_starts

#: Powers of the factor stay below e^300, so that values up to 10^170 do not overflow.
_MAX_EXPONENT = 300.0
#: Responses of at least this many tokens are summed one by one.
_LONG = 512


def advantages(
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
    """
    if keep is not None and not keep.all():
        kept_lengths = np.add.reduceat(keep, sample_starts(lengths), dtype=np.int64)
        kept = advantages(
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
