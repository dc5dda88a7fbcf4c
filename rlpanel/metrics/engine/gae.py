"""Generalised advantage estimation, for a batch of responses laid end to end.

References
----------
Schulman et al. 2016, High-Dimensional Continuous Control Using Generalized Advantage Estimation.
"""

from __future__ import annotations

import math

import numpy as np

#: Powers stay below e^300, so that values up to 10^170 do.
_RANGE = 300.0
#: Tokens from which on a response is worth a call of its own.
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
) -> np.ndarray:
    """A_t = δ_t + γλ A_{t+1} with δ_t = r_t + γ V_{t+1} − V_t, for each response on its own.

    TRL's PPO puts the score one slot after the end token. Where that slot was logged, the score, which the
    last token's reward holds, is moved there: A_T = terminal_reward − terminal_value.

    Parameters
    ----------
    token_rewards, values : ndarray of float, shape (T₁ + … + T_N,)
    lengths : ndarray of int, shape (N,)
        Tokens of each response, all above 0.
    terminal_value, terminal_reward : ndarray of float, shape (N,)
        The slot after the last token; NaN where there is none.

    Returns
    -------
    ndarray of float, shape (T₁ + … + T_N,)
        Not whitened. The return is this plus the value.
    """
    last = np.cumsum(lengths) - 1
    slot_value, slot_reward = (np.where(np.isnan(of), 0.0, of) for of in (terminal_value, terminal_reward))
    delta = np.append(values[1:], 0.0)
    delta[last] = slot_value
    delta *= gamma
    delta += token_rewards
    delta -= values
    delta[last] += gamma * lam * (slot_reward - slot_value) - slot_reward
    return discounted(delta, gamma * lam, lengths)


def discounted(values: np.ndarray, factor: float, lengths: np.ndarray) -> np.ndarray:
    """y_t = x_t + factor · y_{t+1} within each response, whatever others are beside it.

    Parameters
    ----------
    values : ndarray of float, shape (T₁ + … + T_N,)
    factor : float
        Between 0 and 1.
    lengths : ndarray of int, shape (N,)
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
    """By doubling: after k rounds each place holds the sum over the next 2^k places.

    A hundred tokens take seven rounds over the whole batch, and fewer where the factor has faded.
    """
    # Working arrays are made once and kept narrow: new ones a round cost more than the sums.
    left = np.repeat(np.cumsum(lengths, dtype=np.int32), lengths)
    left -= np.arange(1, len(values) + 1, dtype=np.int32)
    total, ahead, reach = values.copy(), np.empty_like(values), 1
    longest = int(lengths.max(initial=0))
    while reach < longest and factor > 1e-18:
        here = slice(None, -reach)
        np.multiply(total[reach:], factor, out=ahead[here])
        np.copyto(ahead[here], 0.0, where=left[here] < reach)
        total[here] += ahead[here]
        reach, factor = 2 * reach, factor * factor
    return total


def _run(values: np.ndarray, factor: float, lengths: np.ndarray) -> np.ndarray:
    """By running sums from each response's end, of the values over the powers of the factor.

    The terms grow towards the sum's own size, so nothing is lost that the plain loop would keep.
    """
    most = int(_RANGE / max(abs(math.log(factor)), 1e-9)) + 1  # tokens over which the powers keep in range
    parts = [_parts(length, most) for length in lengths.tolist()]
    powers = factor ** -np.arange(max(map(max, parts)), dtype=float)[::-1]
    weights = np.concatenate([powers[-size:] for part in parts for size in part])
    total = values * weights
    end = len(total)
    for response in reversed(parts):
        for at, size in enumerate(reversed(response)):
            backwards = total[end - size : end][::-1]
            if at:
                backwards[0] += factor * total[end] / weights[end]
            np.add.accumulate(backwards, 0, None, backwards)
            end -= size
    total /= weights
    return total


def _parts(length: int, most: int) -> list[int]:
    """A length in parts of at most ``most``, the last ones whole."""
    whole, rest = divmod(length, most)
    return [rest] * bool(rest) + [most] * whole
