"""The relative gap of tokens, and its level by step, rank, position, age and other dimensions.

A token that both sides hold unlikely has a larger gap in any case: rounding of its logit counts for more. So
the absolute gap of a token is divided by the mean of tokens that are as likely. This relative gap is 1 on
average, and what depends on the step, the rank or the position shows in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rlpanel.drift.gap_tokens import GapTokens

#: Larger gaps, in nats, count as this: a few tokens would hide all others.
CAP = 3.0
#: Number of ranges of likelihood, with the same number of tokens in each.
_RANGES = 24
#: Fewest samples and tokens of a level.
_MIN_SAMPLES, _MIN_TOKENS = 4, 40
#: First positions of the ranges of positions.
POSITIONS = (0, 1, 4, 16, 64, 256, 1024, 4096, 16384)
#: Lower ends of the ranges of entropy and surprisal, in nats.
NATS = (0.0, 0.01, 0.1, 0.3, 1.0, 2.0, 4.0)

#: Dimensions beside the labels of the run.
DIMENSIONS = (
    *("step", "rank", "age of the weights", "version in the response", "turn"),
    *("position in the response", "position in the turn", "surprisal", "entropy"),
    *("layers with other experts", "response length", "token class", "loss"),
)
#: Classes of tokens: special tokens such as ``<|im_end|>``, white space, and what the text consists of.
_CLASSES = ("special", "white space", "digits", "Latin letters", "other letters", "punctuation", "mixed")


@dataclass(frozen=True)
class Level:
    """The gap of the tokens of one value of a dimension.

    Attributes
    ----------
    dimension, value : str
        Such as ``rank`` and ``2``.
    tokens, samples : int
    mean, median, signed : float
        Of the absolute gap, in nats, and the mean of the gap with its sign; larger gaps count as `CAP` in
        the means.
    relative, error : float
        Mean over samples of the relative gap, and its standard error.
    share : float
        Share of these tokens in the sum of all absolute gaps.
    """

    dimension: str
    value: str
    tokens: int
    samples: int
    mean: float
    median: float
    signed: float
    relative: float
    error: float
    share: float


def capped(tokens: GapTokens) -> np.ndarray:
    """Return the gap in nats, shape (T,), with larger ones set to `CAP`."""
    return np.clip(tokens.gap, -CAP, CAP)


def surprisal_range(tokens: GapTokens) -> np.ndarray:
    """Return the range of likelihood of each token: shape (T,), 0 to 23, by the mean of both logprobs.

    The mean is used since a noisy logprob of one side alone would be regressed on itself (Bland and Altman
    1986).
    """
    surprisal = -(tokens.trainer + tokens.engine) / 2
    ends = np.quantile(surprisal, np.linspace(0, 1, _RANGES + 1)[1:-1]) if len(surprisal) else []
    return np.searchsorted(ends, surprisal)


def relative_gap(tokens: GapTokens, gap: np.ndarray | None = None) -> np.ndarray:
    """Return the absolute gap of each token divided by the mean of tokens that are as likely, shape (T,)."""
    size = np.abs(capped(tokens) if gap is None else gap)
    ranges = surprisal_range(tokens)
    with np.errstate(all="ignore"):
        mean = np.bincount(ranges, size, _RANGES) / np.bincount(ranges, minlength=_RANGES)
        return np.where(mean[ranges] > 0, size / mean[ranges], 0.0)


def level_means(
    tokens: GapTokens, relative: np.ndarray, codes: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, standard error and number of samples of the relative gap by code.

    Tokens of a sample are not independent, so the error is that of means of samples. Parts with few tokens
    are NaN.

    Parameters
    ----------
    relative, codes : ndarray, shape (T,)
        A code below 0 leaves the token out.
    count : int
        Number K of codes.

    Returns
    -------
    mean, error : ndarray of float, shape (K,)
    samples : ndarray of int, shape (K,)
    """
    keep = codes >= 0
    samples = len(tokens.rows)
    cells = codes[keep].astype(np.int64) * samples + tokens.sample[keep]
    size = np.bincount(cells, minlength=count * samples).reshape(count, samples)
    total = np.bincount(cells, relative[keep], count * samples).reshape(count, samples)
    with np.errstate(all="ignore"):
        means = np.where(size > 0, total / size, np.nan)
    number = (size > 0).sum(1)
    enough = (number >= _MIN_SAMPLES) & (size.sum(1) >= _MIN_TOKENS)
    mean, error = np.full(count, np.nan), np.full(count, np.nan)
    for at in np.flatnonzero(enough).tolist():
        of_code = means[at][size[at] > 0]
        mean[at], error[at] = of_code.mean(), of_code.std(ddof=1) / np.sqrt(len(of_code))
    return mean, error, number


def _ranges(values: np.ndarray, ends: Sequence[float]) -> np.ndarray:
    codes = np.searchsorted(np.array(ends), values, "right") - 1
    return np.where(np.isnan(values), -1, codes)


def _range_names(ends: Sequence[float], unit: str = "") -> list[str]:
    names = [f"{low:g} to {high:g}{unit}" for low, high in pairwise(ends)]
    return [*names, f"{ends[-1]:g}{unit} and more"]


def _class_of(token: str) -> int:
    """Return the index of the first class in `_CLASSES` that a token belongs to."""
    text = token.strip("ĠĊ▁ \t\n\r")
    if not text:
        return 1
    if text.startswith("<") and text.endswith(">") and len(text) > 2:
        return 0
    if text.isdigit():
        return 2
    if text.isalpha():
        return 3 if text.isascii() else 4
    return 5 if not any(map(str.isalnum, text)) else 6


def _position_names() -> list[str]:
    names = [
        f"{low + 1:,}" if low + 1 == high else f"{low + 1:,} to {high:,}" for low, high in pairwise(POSITIONS)
    ]
    return [*names, f"{POSITIONS[-1] + 1:,} and later"]


def _by_value(values: np.ndarray, name: Callable[[float], str]) -> tuple[np.ndarray, list[str]]:
    known = np.unique(values[~np.isnan(values)])
    codes = np.searchsorted(known, values)
    return np.where(np.isnan(values), -1, codes), [name(value) for value in known.tolist()]


def dimensions(tokens: GapTokens) -> dict[str, tuple[np.ndarray, list[str]]]:
    """Return the code of each token and the codes' names, by dimension, where there are two at least."""
    found: dict[str, tuple[np.ndarray, list[str]]] = {}
    whole = lambda value: f"{value:g}"  # noqa: E731
    found["step"] = _by_value(tokens.steps[tokens.sample].astype(float), whole)
    found["rank"] = _by_value(tokens.ranks[tokens.sample].astype(float), whole)
    for name, labels in tokens.labels.items():
        values = sorted({value for value in labels if value is not None})
        code = {value: at for at, value in enumerate(values)}
        found[name] = np.array([code.get(v, -1) if v else -1 for v in labels])[tokens.sample], values
    found["age of the weights"] = _by_value(tokens.age, whole)
    found["version in the response"] = _versions(tokens)
    found["turn"] = _by_value(np.minimum(tokens.turn, 31).astype(float), lambda turn: f"{turn + 1:g}")
    found["position in the response"] = _ranges(tokens.position.astype(float), POSITIONS), _position_names()
    found["position in the turn"] = _ranges(tokens.in_turn.astype(float), POSITIONS), _position_names()
    found["surprisal"] = _ranges(-tokens.trainer, NATS), _range_names(NATS, " nats")
    found["entropy"] = _ranges(tokens.entropy, NATS), _range_names(NATS, " nats")
    found["layers with other experts"] = _routing(tokens.routing)
    lengths = np.bincount(tokens.sample, minlength=len(tokens.rows))
    found["response length"] = _ranges(lengths[tokens.sample].astype(float), POSITIONS), _position_names()
    if tokens.tokens:
        classes = np.array([*(_class_of(token) for token in tokens.tokens), -1])
        found["token class"] = classes[tokens.token], list(_CLASSES)
    if not tokens.trained.all():
        found["loss"] = tokens.trained.astype(int), ["masked", "trained"]
    return {
        name: (codes, names)
        for name, (codes, names) in found.items()
        if len(np.unique(codes[codes >= 0])) > 1
    }


def _versions(tokens: GapTokens) -> tuple[np.ndarray, list[str]]:
    """Return codes and names of the first, second … version of the weights of responses with several."""
    same = tokens.sample[1:] == tokens.sample[:-1]
    border = np.concatenate([[False], same & (np.diff(tokens.age) != 0)])[: len(tokens.age)]
    border &= np.isfinite(tokens.age)
    whole = np.cumsum(border)
    count = np.bincount(tokens.sample, border, len(tokens.rows))
    before = np.zeros(len(tokens.rows))
    first = np.flatnonzero(np.concatenate([[True], ~same]))[: len(tokens.age)]
    before[tokens.sample[first]] = whole[first]
    codes = np.minimum(whole - before[tokens.sample], 3).astype(int)
    return np.where(count[tokens.sample] > 0, codes, -1), ["first", "second", "third", "later"]


def _routing(share: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return codes and names of the share of layers in which trainer and engine chose other experts."""
    codes = np.where(
        np.isnan(share), -1, np.where(share == 0, 0, np.searchsorted((0.1, 0.25, 0.5), share) + 1)
    )
    return codes, ["none", "up to 10%", "10 to 25%", "25 to 50%", "more than 50%"]


def gap_levels(tokens: GapTokens) -> list[Level]:
    """Return the gap by each dimension, in their order; values with few tokens have no relative gap."""
    relative, gap = relative_gap(tokens), capped(tokens)
    size, whole = np.abs(gap), float(np.abs(gap).sum()) or 1.0
    found = []
    for dimension, (codes, names) in dimensions(tokens).items():
        mean, error, samples = level_means(tokens, relative, codes, len(names))
        for at, name in enumerate(names):
            inside = codes == at
            if not inside.any():
                continue
            found.append(
                Level(
                    dimension=dimension,
                    value=name,
                    tokens=int(inside.sum()),
                    samples=int(samples[at]),
                    mean=float(size[inside].mean()),
                    median=float(np.median(size[inside])),
                    signed=float(gap[inside].mean()),
                    relative=float(mean[at]),
                    error=float(error[at]),
                    share=float(size[inside].sum() / whole),
                )
            )
    return found


def carried(tokens: GapTokens, counts: Sequence[int] = (1, 10, 100)) -> dict[int, float]:
    """Return the share of the sum of all absolute gaps that the largest 1, 10 and 100 tokens carry.

    Without a gap it is empty.
    """
    size = np.sort(np.abs(tokens.gap))[::-1]
    whole = float(size.sum())
    return {count: float(size[:count].sum() / whole) for count in counts if whole}
