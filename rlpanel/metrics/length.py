"""Response length and endings: truncated responses, correlation of length and reward, repeated responses."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments


@metric(
    "truncated responses",
    level="step",
    unit="share",
    formula=r"1 - \frac{\mathrm{ended}}{n}",
    source="truncated",
    good="down",
    color="bad",
    advice="Truncated answers often score low just because they lack an end; near 1 no answer finishes.",
    quantity="whether the response ended",
    over="the step's samples of which this is known, all equally",
    undefined="a step in which this is known of no sample",
)
def truncated_share(by: Segments, ended: np.ndarray) -> np.ndarray:
    """Share of responses that were cut off at the length limit."""
    return 1 - by.mean(ended)


@metric(
    "ended responses",
    level="step",
    unit="responses",
    formula=r"\sum_i [i\ \mathrm{ended}]",
    source="TRL PPO",
    good="up",
    color="length",
    advice="A fall means that more answers exceed the length limit. TRL counts end tokens instead; its "
    "number may differ by one or two.",
    quantity="whether the response ended",
    over="nothing: it is a number of samples",
    undefined="a step in which this is known of no sample",
)
def ended_count(by: Segments, ended: np.ndarray) -> np.ndarray:
    """Number of responses that ended before the length limit."""
    return by.sum(ended)


@metric(
    "length-reward correlation",
    level="step",
    formula=r"\frac{\mathrm{Cov}(T_i, R_i)}{\sqrt{\mathrm{Var}(T_i) \mathrm{Var}(R_i)}}",
    source="Pearson, over samples",
    color="length",
    advice="If it is above 0.5 and rising, the reward may favour length: read the long responses.",
    scale="diverging",
    compares="length of the response and reward of the sample",
    undefined="a step in which all lengths or all rewards are equal",
)
def length_reward_correlation(by: Segments, length: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Correlation of reward and response length (in tokens if logged, else in characters)."""
    return by.correlation(length, reward)


@metric(
    "repeated responses",
    level="step",
    unit="share",
    formula=r"1 - \frac{\mathrm{distinct\ responses}}{\mathrm{responses}}",
    source="1 − distinct / all",
    good="down",
    color="bad",
    advice="Short answers repeat naturally, so compare it with the start of the run.",
    compares="responses of the step, by their exact text",
    over="the step's samples that have a response, all equally",
    undefined="a step without responses",
)
def repeated_responses(by: Segments, response_key: np.ndarray, response_chars: np.ndarray) -> np.ndarray:
    """Share of the step's responses that duplicate another response of the step."""
    return 1 - by.distinct(response_key, np.isfinite(response_chars)) / by.count(response_chars)
