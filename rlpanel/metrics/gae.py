"""Generalised advantage estimation, for a batch of responses laid end to end.

References
----------
Schulman et al. 2016, High-Dimensional Continuous Control Using Generalized Advantage Estimation.
"""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

#: Powers stay below e^300, so that values up to 10^170 do.
_RANGE = 300.0


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
    """y_t = x_t + factor · y_{t+1} within each response.

    Divided by factor^t both sides are a running sum, which numpy has: y is that sum from the response's end,
    multiplied back. As the terms grow towards y's own, nothing is lost that the loop itself would keep.

    Parameters
    ----------
    values : ndarray of float, shape (T₁ + … + T_N,)
    factor : float
        Between 0 and 1.
    lengths : ndarray of int, shape (N,)
    """
    if factor == 0.0 or not math.isfinite(factor):
        return values + factor * 0.0
    parts = [_parts(length, _stretch(factor)) for length in lengths.tolist()]
    sizes = list(chain.from_iterable(parts))
    powers = (factor ** -np.arange(max(sizes, default=0), dtype=float))[::-1]
    weights = np.concatenate([powers[len(powers) - size :] for size in sizes] or [powers])
    total = values * weights
    end = len(total)
    for response in reversed(parts):
        carried = None
        for size in reversed(response):
            part = total[end - size : end][::-1]
            if carried is not None:
                part[0] += carried
            np.add.accumulate(part, 0, None, part)
            if len(response) > 1:
                carried = part[-1] / powers[len(powers) - size] * factor
            end -= size
    total /= weights
    return total


def _stretch(factor: float) -> int:
    """Tokens over which the powers of a factor stay far inside the range of floats."""
    return int(_RANGE / max(abs(math.log(abs(factor))), 1e-9)) + 1


def _parts(length: int, most: int) -> list[int]:
    """A length in parts of at most ``most``, the last ones whole."""
    whole, rest = divmod(length, most)
    return [rest] * bool(rest) + [most] * whole
