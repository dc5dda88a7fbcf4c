"""Tests of single causes of the gap between trainer and engine.

Each test measures what share of the gap goes away without its cause; `gap_causes` weighs the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rlpanel.drift.gap_cause_kinds import Cause
from rlpanel.drift.gap_levels import capped, level_means, relative_gap, surprisal_range
from rlpanel.drift.gap_tokens import GapTokens
from rlpanel.number_text import number

#: Gain of correlation, and share of samples, of a shift by one token.
_SHIFTED, _SHIFTED_SAMPLES = 0.4, 0.5
#: Fewest tokens in a row with an engine's logprob of 0 that the engine did not sample, and their surprisal.
_FILLED, _SURPRISED = 6, 0.3
#: Least factor between two levels of a dimension, and standard errors.
_FACTOR, _Z = 1.5, 5.0
#: Share of a cause that is named, and of one that is mentioned.
_NAMED, MENTIONED = 0.5, 0.12
#: With a pattern this clear, such as three times the gap at an age, a smaller share is enough.
_CLEAR_FACTOR, _CLEAR_SHARE = 2.5, 0.25
#: Share that the engine's temperature must explain: with the entropy it is nearly all of the gap.
_TEMPERED, _TEMPERED_WITHOUT_ENTROPY = 0.65, 0.4
#: Positions that count as the begin, and share of a response that counts as its end.
_BEGIN, _END = 16, 0.5
#: Share of one-sided gaps, of a support that is cut off.
_ONE_SIDED = 0.97
#: Multiple of the median from which a relative gap belongs to the tail: 1.6% of a Laplace distribution do.
_BODY = 6.0
#: Share of the gap in the tail that few tokens must carry, and the most tokens that are few.
_TAIL, _FEW = 0.15, 0.12


def fitting_causes(tokens: GapTokens) -> Iterator[Cause]:
    """Yield what explains at least a small part of the gap of trained tokens."""
    shift = _shift(tokens)
    if shift is not None:
        yield shift
        return
    filled = _filled(tokens)
    share = float(np.abs(capped(tokens))[filled].sum() / np.abs(capped(tokens)).sum())
    if share >= MENTIONED:
        yield Cause(
            "mask",
            share,
            f"{filled.mean():.0%} of the trained tokens lie in stretches where the engine's logprob is 0 and "
            "the trainer's is not: the engine did not sample them",
        )
        if share >= _NAMED:
            return
        tokens = tokens.only(~filled)
    pointwise = [cause for cause in (_temperature(tokens), _support(tokens)) if cause is not None]
    yield from sorted(pointwise, key=lambda cause: -cause.share)[:1]
    relative = relative_gap(tokens)
    place, inside = _place(tokens, relative)
    if place is not None:
        # Inside the place, a failed sync since a step is the better description.
        there = tokens.only(inside)
        since = _since(there, relative_gap(there))
        yield place if since is None else replace(since, sentence=f"{place.sentence}; {since.sentence}")
        return
    stale, relative = _stale(tokens, relative)
    along, elsewhere = _along(tokens, relative)
    # The large gaps of the first tokens after another prompt are few, too: the other tokens decide.
    routing = _routing(tokens, relative) or _tail(relative, elsewhere)
    for cause in (stale, _since(tokens, relative), along, routing):
        if cause is not None:
            yield cause


def _shift(tokens: GapTokens) -> Cause | None:
    known = tokens.shift[np.isfinite(tokens.shift)]
    part = float((known > _SHIFTED).mean()) if len(known) else 0.0
    if part < _SHIFTED_SAMPLES:
        return None
    same = tokens.sample[1:] == tokens.sample[:-1]
    shifted = min(
        float(np.abs(np.clip(a[same], -3, 3)).mean())
        for a in (tokens.trainer[1:] - tokens.engine[:-1], tokens.trainer[:-1] - tokens.engine[1:])
    )
    share = max(1 - shifted / float(np.abs(capped(tokens)).mean()), 0.0)
    return Cause("shift", share, f"{part:.0%} of the samples agree better after a shift by one token")


def _filled(tokens: GapTokens) -> np.ndarray:
    """Return the tokens in stretches with an engine's logprob of exactly 0 and another one of the trainer."""
    zero = tokens.engine == 0
    begins = zero & ~np.concatenate([[False], zero[:-1] & (tokens.sample[1:] == tokens.sample[:-1])])
    stretch = np.where(zero, np.cumsum(begins) - 1, -1)
    count = int(begins.sum())
    if not count:
        return np.zeros(len(zero), bool)
    length = np.bincount(stretch[zero], minlength=count)
    surprisal = np.bincount(stretch[zero], -tokens.trainer[zero], count) / length
    wrong = (length >= _FILLED) & (surprisal > _SURPRISED)
    return zero & wrong[stretch]


def _without(gap: np.ndarray, model: np.ndarray) -> float:
    """Return the share of the mean absolute gap that goes away without a model of it."""
    return float(1 - np.abs(gap - model).mean() / np.abs(gap).mean())


def _temperature(tokens: GapTokens) -> Cause | None:
    """Test whether the gap follows logprob + entropy, as the first order of another temperature does."""
    gap = capped(tokens)
    middle = (tokens.trainer + tokens.engine) / 2
    known = np.isfinite(tokens.entropy)
    if known.mean() > 0.9:
        x = np.where(known, middle + tokens.entropy, 0.0)
        slope = float((x * gap).sum() / (x * x).sum()) if (x * x).sum() else 0.0
        share = _without(gap, slope * x)
        if share < MENTIONED or slope >= 1:
            return None
        text = f"the gap fits an engine's temperature of about {1 / (1 - slope):.2f} times the trainer's"
        return Cause("temperature", share, text, clear=share >= _TEMPERED)
    curve = _curve(tokens, gap)
    share = _without(gap, curve[surprisal_range(tokens)])
    # Another temperature moves likely tokens one way and unlikely ones the other way.
    if share < MENTIONED or np.sign(curve[3]) == np.sign(curve[-4]):
        return None
    side = "above" if curve[-4] < 0 else "below"
    return Cause(
        "temperature",
        share,
        f"likely and unlikely tokens differ as with an engine's temperature {side} that of the trainer",
        clear=share >= _TEMPERED_WITHOUT_ENTROPY,
    )


def _curve(tokens: GapTokens, gap: np.ndarray) -> np.ndarray:
    """Return the mean gap by range of likelihood, shape (24,)."""
    ranges = surprisal_range(tokens)
    count = np.maximum(np.bincount(ranges, minlength=24), 1)
    return np.bincount(ranges, gap, 24) / count


def _support(tokens: GapTokens) -> Cause | None:
    """Test whether the engine holds all tokens likelier, as after a renormalisation over fewer tokens."""
    gap = capped(tokens)
    large = np.abs(gap) > np.abs(gap).mean() / 2
    part = float((gap[large] < 0).mean())
    if part < _ONE_SIDED:
        return None
    share = float(-gap[large].sum() / np.abs(gap).sum())
    mass = float(np.exp(np.median(gap[large])))
    return Cause(
        "support",
        share,
        f"{part:.0%} of the larger gaps have the engine above the trainer; it samples from about {mass:.0%} "
        "of the probability",
    )


def _place(tokens: GapTokens, relative: np.ndarray) -> tuple[Cause | None, np.ndarray]:
    """Test ranks and labels: one value has a larger gap than all others together."""
    best, inside = None, np.zeros(len(relative), bool)
    values: dict[str, Sequence[object]] = {"rank": tokens.ranks.tolist(), **tokens.labels}
    for name, of_sample in values.items():
        known = sorted({value for value in of_sample if value is not None}, key=str)
        if len(known) < 2:
            continue
        code = {value: at for at, value in enumerate(known)}
        codes = np.array([code.get(value, -1) for value in of_sample])[tokens.sample]
        mean, error, _ = level_means(tokens, relative, codes, len(known))
        if np.isfinite(mean).sum() < 2:
            continue
        top = int(np.nanargmax(mean))
        others = np.delete(mean, top)
        usual, spread = np.nanmedian(others), np.nanmax(others)
        if not (mean[top] > _FACTOR * usual and mean[top] - spread > _Z * error[top]):
            continue
        share = float(1 - usual / mean[top])
        if best is None or share > best.share:
            text = f"with {name} {known[top]} the gap is {_factor_text(mean[top], usual)} that of the others"
            best = Cause("place", share, text)
            inside = codes == top
    return best, inside


def _stale(tokens: GapTokens, relative: np.ndarray) -> tuple[Cause | None, np.ndarray]:
    """Test whether the gap grows with the age of the weights; also return the relative gap without that."""
    known = np.isfinite(tokens.age)
    ages = np.unique(tokens.age[known])
    if len(ages) < 2:
        return None, relative
    ends = np.unique(np.quantile(ages, np.linspace(0, 1, min(len(ages), 12) + 1)[:-1], method="nearest"))
    codes = np.where(known, np.searchsorted(ends, tokens.age, "right") - 1, -1)
    mean, error, samples = level_means(tokens, relative, codes, len(ends))
    full = np.flatnonzero(np.isfinite(mean))
    if len(full) < 2:
        return None, relative
    low, high = full[0], full[-1]
    z = (mean[high] - mean[low]) / np.hypot(error[high], error[low])
    rises = np.corrcoef(full, mean[full])[0, 1] if len(full) > 2 else 1.0
    share = float(1 - mean[low] / np.average(mean[full], weights=samples[full]))
    adjusted = np.where(codes >= 0, relative / np.where(mean > 0, mean, 1.0)[codes], relative)
    if z < _Z or rises < 0.5 or share < MENTIONED:
        return None, relative
    return (
        Cause(
            "stale",
            share,
            f"it is {_factor_text(mean[high], mean[low])} as large at an age of {ends[high]:g} updates and "
            f"more as at {ends[low]:g}",
            clear=_is_clear(share, mean[high] / max(mean[low], 1e-9)),
        ),
        adjusted,
    )


def _since(tokens: GapTokens, relative: np.ndarray) -> Cause | None:
    """Test whether the gap begins, or begins to grow, at a step."""
    steps = np.unique(tokens.steps)
    if len(steps) < 4:
        return None
    codes = np.searchsorted(steps, tokens.steps)[tokens.sample]
    mean, error, _ = level_means(tokens, relative, codes, len(steps))
    full = np.isfinite(mean)
    steps, mean, error = steps[full], mean[full], np.maximum(error[full], 1e-3)
    if len(steps) < 4:
        return None
    at = steps.astype(float)
    weight = 1 / error
    line = _misfit(np.vander(at, 2), mean, weight)
    best = min(range(1, len(steps) - 1), key=lambda first: _misfit(_since_parts(at, first), mean, weight))
    before, after = mean[:best], mean[best:]
    z = (after.mean() - before.mean()) / np.hypot(before.std() / np.sqrt(len(before)), error.mean())
    share = float(1 - before.mean() / mean.mean())
    # A gap that grows evenly from the first step on has no onset.
    misfit = _misfit(_since_parts(at, best), mean, weight)
    if after.mean() < _FACTOR * before.mean() or z < _Z or share < MENTIONED or misfit > 0.5 * line:
        return None
    grows = len(after) > 2 and after[-2:].mean() > 1.3 * after[:2].mean()
    factor = _factor_text(after.mean(), before.mean())
    return Cause(
        "sync",
        share,
        f"since step {steps[best]} it is {factor} that before{', and grows' if grows else ''}",
        clear=_is_clear(share, after.mean() / max(before.mean(), 1e-9)),
    )


def _since_parts(at: np.ndarray, first: int) -> np.ndarray:
    """Return the columns of a fit: a level, another one since a step, and a line since then."""
    after = np.arange(len(at)) >= first
    return np.stack([np.ones(len(at)), after, after * (at - at[first])], 1)


def _misfit(columns: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
    """Return the sum of squared errors of a weighted fit."""
    fit, *_ = np.linalg.lstsq(columns * weight[:, None], values * weight, rcond=None)
    return float((((columns @ fit - values) * weight) ** 2).sum())


def _along(tokens: GapTokens, relative: np.ndarray) -> tuple[Cause | None, np.ndarray]:
    """Test whether the gap falls or grows along the response; return also the tokens outside of its place."""
    everywhere = np.ones(len(relative), bool)
    length = np.zeros(len(tokens.rows))
    np.maximum.at(length, tokens.sample, tokens.position + 1)
    end = tokens.position >= np.maximum(_END * length[tokens.sample], 2 * _BEGIN)
    codes = np.where(tokens.position < _BEGIN, 0, np.where(end, 1, -1))
    (near, far), (near_error, far_error), _ = level_means(tokens, relative, codes, 2)
    z = (far - near) / np.hypot(near_error, far_error)
    if not np.isfinite(z) or abs(z) < _Z:
        return None, everywhere
    high, low, falls = max(near, far), min(near, far), bool(near > far)
    share = float(1 - low / relative.mean())
    if high < _FACTOR * low or share < MENTIONED:
        return None, everywhere
    where = f"in the first {_BEGIN} tokens", "in the second half"
    text = f"{where[not falls]} it is {_factor_text(high, low)} that {where[falls]}"
    cause = Cause("template" if falls else "position", share, text, _is_clear(share, high / low))
    return cause, codes != (0 if falls else 1)


def _routing(tokens: GapTokens, relative: np.ndarray) -> Cause | None:
    """Test whether tokens for which both sides chose other experts, as logged, have a larger gap."""
    known = np.isfinite(tokens.routing)
    if known.mean() < 0.5:
        return None
    codes = np.where(known, (tokens.routing > 0).astype(int), -1)
    (same, other), errors, _ = level_means(tokens, relative, codes, 2)
    z = (other - same) / np.hypot(*errors)
    if not np.isfinite(z) or z < _Z or other < _FACTOR * same:
        return None
    share = float(1 - same / relative[known].mean())
    if share < MENTIONED:
        return None
    text = (
        f"{codes[known].mean():.0%} of the tokens went to other experts in some layer, and their gap is "
        f"{_factor_text(other, same)} that of the others"
    )
    return Cause("routing", share, text, _is_clear(share, other / max(same, 1e-9)))


def _tail(relative: np.ndarray, among: np.ndarray) -> Cause | None:
    """Test whether few of some tokens carry the gap, given how likely they are."""
    total, relative = float(relative.sum()), relative[among]
    if not len(relative) or not relative.mean():
        return None
    body = _BODY * float(np.median(relative))
    tail = relative > body
    share = float((relative[tail] - body).sum() / total)
    if share < _TAIL or tail.mean() > _FEW:
        return None
    text = f"{tail.mean():.1%} of the tokens carry {relative[tail].sum() / total:.0%} of it"
    return Cause("routing", share, text, clear=share >= _CLEAR_SHARE)


def flat_rest(tokens: GapTokens, rest: float, causes: list[Cause]) -> Iterator[Cause]:
    """Yield precision for the rest of the gap, if it is alike on both sides."""
    gap = capped(tokens)
    negative = float((gap < 0).mean() / max((gap != 0).mean(), 1e-9))
    if not 0.35 < negative < 0.65:
        return
    text = "it is as large in all steps, positions and places, and alike on both sides"
    yield Cause("precision", rest, "the rest is alike on both sides" if causes else text, not causes)


def _is_clear(share: float, factor: float) -> bool:
    return share >= _NAMED or (share >= _CLEAR_SHARE and factor >= _CLEAR_FACTOR)


def _factor_text(high: float, low: float) -> str:
    factor = high / low if low > 0 else np.inf
    return f"{number(float(factor))} times" if factor < 1000 else "more than 1,000 times"
