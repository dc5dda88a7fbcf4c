"""How long responses are, how they end, and whether length is what is rewarded."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments


@metric(
    "cut responses",
    level="step",
    unit="share",
    source="truncated",
    good="down",
    color="bad",
    advice="Cut answers often score low for their end alone; near 1 nothing finishes.",
)
def truncated_share(by: Segments, ended: np.ndarray) -> np.ndarray:
    """Share of responses that the length limit cut."""
    return 1 - by.mean(ended)


@metric(
    "ended responses",
    level="step",
    unit="responses",
    source="TRL PPO",
    good="up",
    color="length",
    advice="Falling means that answers outgrow the limit. TRL counts the end tokens themselves, which may be "
    "one or two apart.",
    aliases=("val/num_eos_tokens",),
)
def ended_count(by: Segments, ended: np.ndarray) -> np.ndarray:
    """How many responses ended by themselves."""
    return by.sum(ended)


@metric(
    "length-reward correlation",
    level="step",
    source="Pearson, over samples",
    color="length",
    advice="Above 0.5 and rising, length may be what is rewarded: read the long ones.",
    scale="diverging",
)
def length_reward_correlation(by: Segments, length: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Correlation of response length (tokens where logged, else characters) and reward."""
    return by.correlation(length, reward)


@metric(
    "repeated responses",
    level="step",
    unit="share",
    source="1 − distinct / all",
    good="down",
    color="bad",
    advice="Short answers repeat honestly; compare with the run's own start.",
)
def repeated_responses(by: Segments, response_key: np.ndarray) -> np.ndarray:
    """Share of the step's responses that another of its responses already said."""
    return 1 - by.distinct(response_key) / by.sizes
