"""Length, ending and quality of responses and of agents' rollouts."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.metric import Function, Good
from rlpanel.metrics.engine.segments import Segments

# -- rollout endings -----------------------------------------------------------------------------------
# Length and ending of responses and agents' rollouts: truncation, failures, seconds of tools, turns.
#
# Shares of statuses and of failed calls also count the samples that were not trained on.


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


def _share(label: str, good: Good, advice: str) -> Callable[[Function], Function]:
    """Declare the share of a status among all samples of a step (decorator)."""
    return metric(
        label,
        level="step",
        unit="share",
        formula=r"\frac{\mathrm{samples\ with\ this\ status}}{\mathrm{samples\ with\ a\ status}}",
        source="status",
        good=good,
        color="good" if good == "up" else "bad",
        advice=advice,
        quantity="how the rollout ended",
        over="the step's samples with a status, all equally, also those that were not trained on",
        undefined="a step without a status",
        with_discarded=True,
    )


@_share("rollouts that ended well", "up", "The shares of the other statuses say how the rest ended.")
def ok_share(by: Segments, status_ok: np.ndarray) -> np.ndarray:
    """Share of samples whose status is ok."""
    return by.mean(status_ok)


@_share("environment errors", "down", "Rewards of these samples say nothing about the policy.")
def environment_error_share(by: Segments, status_environment_error: np.ndarray) -> np.ndarray:
    """Share of samples whose status is environment_error."""
    return by.mean(status_environment_error)


@_share("rollouts that a tool ended", "down", "Read the last tool results of some of them.")
def tool_error_share(by: Segments, status_tool_error: np.ndarray) -> np.ndarray:
    """Share of samples whose status is tool_error."""
    return by.mean(status_tool_error)


@_share("time-outs", "down", "The seconds by phase say what the rollouts waited for.")
def timeout_share(by: Segments, status_timeout: np.ndarray) -> np.ndarray:
    """Share of samples whose status is timeout."""
    return by.mean(status_timeout)


@_share("rollouts cut off", "down", "A rise means that more rollouts reach a limit of tokens or turns.")
def cut_off_share(by: Segments, status_truncated: np.ndarray) -> np.ndarray:
    """Share of samples whose status is truncated."""
    return by.mean(status_truncated)


@metric(
    "samples not trained on",
    level="step",
    unit="share",
    formula=r"\frac{\mathrm{discarded}}{n}",
    source="split",
    good="down",
    color="bad",
    advice="Choose the split discarded to see them; the status reason says why.",
    quantity="whether the sample counts as one of the policy",
    over="the step's samples of this split and those that were discarded from it",
    undefined="a run without discarded samples",
    with_discarded=True,
)
def discarded_share(by: Segments, is_discarded: np.ndarray) -> np.ndarray:
    """Share of samples that failed through the environment, or that the trainer discarded."""
    return by.mean(is_discarded)


@metric(
    "failed tool calls",
    level="step",
    unit="share",
    formula=r"\frac{\sum_i \mathrm{tool\ errors}_i}{\sum_i \mathrm{tool\ calls}_i}",
    source="tool_errors / tool_calls",
    good="down",
    color="bad",
    advice="The columns tool_errors.NAME tell which tool fails.",
    quantity="tool calls with an error as result",
    over="all tool calls of the step, also of samples that were not trained on",
    undefined="a step without tool calls whose results are known",
    with_discarded=True,
)
def failed_call_share(by: Segments, tool_errors: np.ndarray, tool_calls: np.ndarray) -> np.ndarray:
    """Share of tool calls that failed."""
    return by.ratio(tool_errors, tool_calls)


@metric(
    "tokens per turn",
    level="step",
    unit="tokens",
    formula=r"\frac{\sum_i T_i}{\sum_i \mathrm{turns}_i}",
    source="response_tokens / turns",
    color="length",
    advice="If it falls while turns rise, the policy thinks less before it acts.",
    compares="tokens that the policy wrote and its turns",
    over="all turns of the step, all equally",
    undefined="a step without turns or tokens",
)
def tokens_per_turn(by: Segments, response_tokens: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Tokens that the policy wrote per turn."""
    return by.ratio(response_tokens, turns)


@metric(
    "seconds per tool call",
    level="step",
    unit="seconds",
    formula=r"\frac{\sum_i \mathrm{tool\ seconds}_i}{\sum_i \mathrm{tool\ calls}_i}",
    source="tool_seconds / tool_calls",
    good="down",
    color="length",
    advice="A rise means that the tools became slower, not that the policy calls them more often.",
    compares="seconds that rollouts spent in tools and their calls",
    over="all tool calls of the step, all equally",
    undefined="a step without tool calls or their seconds",
)
def seconds_per_call(by: Segments, tool_seconds: np.ndarray, tool_calls: np.ndarray) -> np.ndarray:
    """Seconds per call of a tool."""
    return by.ratio(tool_seconds, tool_calls)


# -- response quality ----------------------------------------------------------------------------------
# Quality of response texts: invalid UTF-8 and repetition.
#
# With a byte-level tokenizer a policy can emit half a character. Repetition is too slow to compute for every
# row, so it is computed only where texts are asked for.


@metric(
    "responses with invalid characters",
    level="step",
    unit="share",
    formula=r"\frac{\mathrm{responses\ with\ U+FFFD}}{\mathrm{responses}}",
    source="responses with U+FFFD / all",
    good="down",
    color="bad",
    advice="A rise means that the policy degrades, whatever the reward does. Check whether one language is "
    "affected.",
    quantity="whether the response contains U+FFFD",
    over="the step's samples that have a response, all equally",
    undefined="a step without responses",
)
def invalid_text_share(by: Segments, invalid_chars: np.ndarray) -> np.ndarray:
    """Share of responses that contain U+FFFD, the replacement for bytes that are not valid UTF-8."""
    invalid = np.where(np.isfinite(invalid_chars), (invalid_chars > 0).astype(float), np.nan)
    return by.mean(invalid)


#: Texts with fewer characters are too short to measure repetition.
MIN_CHARS = 16

_OVER = "nothing: it is computed in exports and by `run.samples(text=True)` only"
_UNDEFINED = f"a response of fewer than {MIN_CHARS} characters"


@metric(
    "zlib ratio",
    level="sample",
    formula=r"\frac{\mathrm{compressed\ bytes}}{\mathrm{bytes}}",
    source="packed bytes / bytes, zlib level 6",
    good="",
    advice="Prose is near 0.5, repetition loops are below 0.2, and short texts are always near 1.",
    color="length",
    compares="size of the response, compressed and plain",
    over=_OVER,
    undefined=_UNDEFINED,
)
def zlib_ratio(response_text: np.ndarray) -> np.ndarray:
    """Compressed size of the response divided by its size; low if the text repeats itself.

    The value is NaN for texts of fewer than 16 characters.
    """
    return np.array([_compression_ratio(text) for text in response_text])


@metric(
    "distinct 4-grams",
    level="sample",
    unit="share",
    formula=r"\frac{\mathrm{distinct\ 4\!-\!grams}}{\mathrm{4\!-\!grams}}",
    source="Li 2016, distinct-n, over characters",
    advice="Below about 0.5 the text contains repetition loops.",
    color="length",
    compares="number of distinct and of all 4-grams of the response",
    over=_OVER,
    undefined=_UNDEFINED,
)
def distinct_4(response_text: np.ndarray) -> np.ndarray:
    """Number of distinct character 4-grams divided by the number of all 4-grams.

    The value is NaN for texts of fewer than 16 characters.
    """
    return np.array([_distinct_ratio(text) for text in response_text])


def _compression_ratio(text: str) -> float:
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw)) / len(raw) if len(text) >= MIN_CHARS else np.nan


def _distinct_ratio(text: str) -> float:
    count = len(text) - 3
    return (
        len({text[start : start + 4] for start in range(count)}) / count if len(text) >= MIN_CHARS else np.nan
    )
