"""How far one update moved the policy.

References
----------
Schulman et al. 2017, Proximal Policy Optimization.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.registry import metric


@metric("ratio", level="token", source="Schulman 2017, PPO", color="policy")
def ratio(logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Importance ratio: probability of the sampled token over that before the update.

    Parameters
    ----------
    logprobs, old_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Positive; 1 where the update changed nothing.
    """
    return np.exp(logprobs - old_logprobs)
