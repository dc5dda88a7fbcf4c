"""Streams: numbers of each step for all that a run has, so that one rule watches them all.

Means and spreads of all columns, missing and commonest values, the mix of labels, counts, the reward with
each label, the texts that were read, and the trainer's scalars. No row of an earlier step is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from rlpanel.findings.engine.column_stats import HIGHEST, KNOWN, LOWEST, LOWEST_MEAN, SPREADS, VARYING
from rlpanel.findings.engine.column_stats import SAMPLES as ALL
from rlpanel.findings.engine.places import (
    GROUPS,
    MEAN,
    RANK,
    SAMPLES,
    WHOLE,
    WHOLE_RUN,
    Place,
    PlaceSeries,
    rows_by_dimension,
)
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import SIGNALS, RowBatch, Signal, column_signal, each_sample, signal
from rlpanel.metrics.engine.column_info import computed_columns, describe
from rlpanel.store.columns.step_stats import COUNT
from rlpanel.store.columns.step_stats import MEAN as MEAN_OF_STEP

Scale = Literal["factor", "share", "level"]

#: Smallest changes of interest: of a factor's logarithm, of the angle of a share (see `all_scaled`; about
#: 12 points around a half, and 4 points from 0), and in standard deviations of the samples.
MIN_FACTOR, MIN_ANGLE, MIN_SPREADS = 0.2, 0.15, 0.35
#: Parts of the budget of false alarms: the reward, an usual stream, and one of many that are alike.
PRIMARY, USUAL, SECONDARY = 10.0, 1.0, 0.2
#: End of the name of a stream that is a scalar of the trainer.
TRAINERS = " of the trainer"


@dataclass(frozen=True)
class Stream:
    """A number of each step.

    Attributes
    ----------
    name : str
        What it is, in plain English.
    values : ndarray of float, shape (S,)
        As displayed; NaN where it is not defined.
    scale : str
        ``factor``: positive, changes are factors; ``share``: from 0 to 1; ``level``: any number.
    least : float
        Smallest change of interest, in the scale of the test.
    floor : ndarray of float, shape (S,), or float
        Variance in the scale of the test that the number of samples leaves at least.
    weight : float
        Part of the budget of false alarms.
    column, where, tab : str
        See `rlpanel.findings.engine.finding.Finding`.
    is_percent : bool
        True for a share that is shown in percent.
    fades : bool
        True if it returns by itself: what is new does not stay new.
    signal : Signal, optional
        The number of each sample whose mean it is; None if it is of the whole step.
    place : Place
        The part of the samples that it is about; its share of them if there is no signal.
    text : str
        Key of the texts' number that it is the mean of, see `StepTexts.numbers`; empty if it is of none.
    """

    name: str
    values: np.ndarray
    scale: Scale
    least: float
    floor: np.ndarray | float = 0.0
    weight: float = USUAL
    column: str = ""
    where: str = ""
    tab: str = ""
    is_percent: bool = False
    fades: bool = False
    signal: Signal | None = None
    place: Place = WHOLE_RUN
    text: str = ""

    @property
    def scaled(self) -> np.ndarray:
        """The values in the scale of the test, see `all_scaled`, shape (S,)."""
        found: np.ndarray = all_scaled([self])[0]
        return found


def all_scaled(streams: Sequence[Stream]) -> np.ndarray:
    """Return the values in the scale of the test: logarithms of factors, angles of shares, shape (K, S).

    The angle ``arcsin(sqrt(share))`` has the same variance for rare and for frequent features.
    """
    values = np.array([stream.values for stream in streams], float)
    scales = np.array([stream.scale for stream in streams])
    with np.errstate(all="ignore"):
        factor, share = scales == "factor", scales == "share"
        values[factor] = np.log(np.where(values[factor] > 0, values[factor], np.nan))
        values[share] = np.arcsin(np.sqrt(np.clip(values[share], 0, 1)))
    return values


def streams_of(context: RuleContext, first: int = 0) -> Iterator[Stream]:
    """Yield the streams of a run.

    The steps before the one at the position ``first`` are left out, but decide what counts as a change.
    """
    yield from _columns(context, first)
    yield from _contents(context, first)
    yield from texts_streams(context, first=first)
    yield from _scalars(context, first)


def share_stream(
    name: str,
    values: np.ndarray,
    size: np.ndarray,
    *,
    column: str = "",
    where: str = "",
    tab: str = "",
    fades: bool = False,
    **source: Any,
) -> Stream:
    """Return the stream of a share of some independent samples."""
    floor = 0.25 / np.maximum(size, 1)
    return Stream(name, values, "share", MIN_ANGLE, floor, USUAL, column, where, tab, True, fades, **source)


#: Columns that other columns determine.
_FOLLOWS = ("advantage", "engine_shift", "ref_shift")


def _columns(context: RuleContext, first: int) -> Iterator[Stream]:
    """Yield missing values, mean, spread and commonest value of each number column."""
    snapshot, size, commonest = context.snapshot, len(context.steps), 0
    steps, computed, has_tokens = snapshot.steps, computed_columns(), snapshot.has_number("response_tokens")
    columns = [
        name
        for name in snapshot.numbers
        if name not in _FOLLOWS
        and not name.endswith("_sum")
        # The number of characters is the same length in another unit.
        and not (name == "response_chars" and has_tokens)
    ]
    stats, spreads = context.step_stats.of(columns, first)
    all_levels = _levels_of(context.step_stats.facts(columns), stats, spreads)
    for column, count, mean, spread, level in zip(
        columns, stats[COUNT], stats[MEAN_OF_STEP], spreads, all_levels, strict=True
    ):
        if not level.samples:
            continue
        is_reward = column == "reward" or column.startswith("rewards/")
        label, weight = describe(column).label, PRIMARY if is_reward else USUAL
        expected = np.maximum(steps.expected(column)[:size], 1)
        if level.samples < expected.sum():
            expected = expected[first:]
            where = f"missing(`{column}`)"
            yield share_stream(
                f"samples without {label}",
                1 - count / expected,
                np.sqrt(expected),
                where=where,
                signal=_missing(column),
            )
        if not level.lowest < level.highest:
            continue
        own = column_signal(column)
        if level.lowest >= 0 and level.highest <= 1 and _is_binary(context, column):
            yield Stream(label, mean, "share", MIN_ANGLE, 0.25 / np.sqrt(count), weight, column, signal=own)
            continue
        floor = level.floor
        if level.lowest >= 0 and level.lowest_mean > 0 and not is_reward:
            yield Stream(label, mean, "factor", MIN_FACTOR, floor / mean**2, weight, column, signal=own)
        else:
            yield Stream(label, mean, "level", MIN_SPREADS * level.spread, floor, weight, column, signal=own)
        # The few prompts of a step say little about the spread of their lengths.
        if column != "prompt_chars" and level.varying > 0.5:
            share = 0.5 / np.maximum(np.sqrt(count), 1)
            weight = USUAL if is_reward else SECONDARY
            yield Stream(f"spread of {label}", spread, "factor", 2 * MIN_FACTOR, share, weight, column)
        if column not in computed and commonest < _MAX_COMMONEST:
            commonest += 1
            common = _commonest(column)
            name, values = (
                f"samples with the commonest exact value of {label}",
                context.table(common)[MEAN, 0, first:],
            )
            yield share_stream(name, values, np.sqrt(count), column=column, signal=common)


class _Level(NamedTuple):
    """Facts about a column over all steps, from which its streams are made.

    Smallest and largest value, smallest mean of a step, mean standard deviation of a step's samples, share of
    the steps whose samples vary, and the variance of each step's mean.
    """

    samples: float
    lowest: float
    highest: float
    lowest_mean: float
    spread: float
    varying: float
    floor: np.ndarray


def _levels_of(facts: np.ndarray, stats: np.ndarray, spreads: np.ndarray) -> list[_Level]:
    """Return the level of each column: all columns at once, since each call of numpy takes time."""
    some = np.maximum(facts[KNOWN], 1)
    usual = facts[SPREADS] / some
    parts = *facts[[ALL, LOWEST, HIGHEST, LOWEST_MEAN]], usual, facts[VARYING] / some
    floor = np.where(np.isfinite(spreads), spreads, usual[:, None]) ** 2 / np.maximum(stats[COUNT], 1)
    levels = zip(*(part.tolist() for part in parts), floor, strict=True)
    return [_Level(*level) for level in levels]


#: Columns whose commonest value is compared: each takes time.
_MAX_COMMONEST = 4


def _is_binary(context: RuleContext, column: str) -> bool:
    """Return True if the newest step has 0 and 1 only."""
    rows = context.snapshot.rows_of(int(context.steps[-1]))
    values = context.snapshot.number(column)[rows]
    return bool(((values == 0) | (values == 1)).all())


def _commonest(column: str) -> Signal:
    """Return the signal of samples with the commonest exact value of their step."""
    name = f"commonest {column}"
    if name not in SIGNALS:
        SIGNALS[name] = Signal(name, "share", (column,), lambda rows: _has_commonest(rows, column))
    return SIGNALS[name]


def _missing(column: str) -> Signal:
    """Return the signal of samples without a value."""
    return Signal(f"missing {column}", "share", (column,), lambda rows: np.isnan(rows.number(column)) * 1.0)


def _has_commonest(rows: RowBatch, column: str) -> np.ndarray:
    values, step = rows.number(column), rows.position
    known = np.flatnonzero(np.isfinite(values))
    found = np.full(len(values), np.nan)
    if not len(known):
        return found
    order = known[np.lexsort((values[known], step[known]))]
    new = np.r_[True, (np.diff(step[order]) != 0) | (np.diff(values[order]) != 0)]
    run = np.cumsum(new) - 1
    size = np.bincount(run)
    most = np.zeros(len(rows.steps), int)
    np.maximum.at(most, step[order[new]], size)
    # Of several values that are equally common, the first is taken.
    first = np.unique(step[order[new]][size == most[step[order[new]]]], return_index=True)[1]
    chosen = np.zeros(len(size), bool)
    chosen[np.flatnonzero(size == most[step[order[new]]])[first]] = True
    found[order] = chosen[run]
    return found


#: Step metrics that are shares, in plain English.
_SHARES_OF_A_STEP = {
    "zero_variance_groups": "groups of equal rewards",
    "repeated_responses": "responses that equal another one of the step",
}


@signal("distinct_prompts")
def _distinct_prompts(rows: RowBatch) -> np.ndarray:
    """Return 1 / n for a prompt that n samples of the step share; the sum counts each prompt once."""
    hashes, step = rows.metadata("prompt_hash"), rows.position
    order = np.lexsort((hashes, step))
    new = np.r_[True, (np.diff(step[order]) != 0) | (np.diff(hashes[order]) != 0)][: len(order)]
    run = np.cumsum(new) - 1
    found = np.empty(len(order))
    found[order] = 1 / np.bincount(run)[run]
    return found


def _contents(context: RuleContext, first: int) -> Iterator[Stream]:
    """Yield counts, the mix of labels, the reward with each label, and its correlation with the length."""
    table, series = context.table(each_sample)[..., first:], context.place_series
    samples, groups = table[SAMPLES, 0], table[GROUPS, 0]
    yield Stream("samples per step", samples, "factor", MIN_FACTOR, 1e-4)
    if context.view.grouped:
        yield Stream("groups per step", groups, "factor", MIN_FACTOR, 1e-4)
    distinct = context.table(_distinct_prompts)[MEAN, 0, first:]
    yield Stream("distinct prompts per sample", distinct, "factor", MIN_FACTOR, 1e-4, tab="group")
    for name, rows in rows_by_dimension(series.places).items():
        if name in (WHOLE, RANK) or len(rows) < 2:
            continue
        for row in rows.tolist():
            share, place = table[SAMPLES, row] / np.maximum(samples, 1), series.places[row]
            yield share_stream(f"samples with {place.text}", share, groups, where=place.where, place=place)
    if context.available(column_signal("reward")):
        yield from _rewards_by_place(context, series, table, first)
    for metric, text in _SHARES_OF_A_STEP.items():
        values = context.series(metric)
        if values is not None:
            yield share_stream(text, values[first:], groups)
    curve = context.series("length_reward_correlation")
    if curve is not None:
        label = "correlation of length and reward"
        yield Stream(label, curve[first:], "level", 0.25, 1 / np.maximum(samples, 1), SECONDARY)


def _rewards_by_place(
    context: RuleContext, series: PlaceSeries, table: np.ndarray, first: int
) -> Iterator[Stream]:
    """Yield the mean reward with each label and of each rank, less that of the other samples of the step."""
    mean, samples = context.table(column_signal("reward"))[MEAN, :, first:], table[SAMPLES]
    spread = context.spread("reward")
    if not np.isfinite(spread):
        return  # each step has one sample
    for name, rows in rows_by_dimension(series.places).items():
        for row in rows.tolist() if name != WHOLE and len(rows) > 1 else ():
            place, others = series.places[row], samples[0] - samples[row]
            with np.errstate(all="ignore"):
                rest = (mean[0] * samples[0] - mean[row] * samples[row]) / others
            gap = np.where((samples[row] > 0) & (others > 0), mean[row] - rest, np.nan)
            yield Stream(
                f"reward {'on' if name == RANK else 'with'} {place.text}, less that of the others",
                gap,
                "level",
                2 * MIN_SPREADS * spread,
                spread**2 / np.maximum(table[GROUPS, row], 1),
                SECONDARY,
                column="reward",
                where=place.where,
                signal=column_signal("reward"),
                place=place,
            )


#: Numbers of the texts in plain English, and whether they are shares; see `step_texts.numbers_of`.
_TEXTS = {
    "loops": ("repeated sequences inside a response", True, ""),
    "boxes": ("boxed answers of a response", False, ""),
    "truth_missing": ("samples without a ground truth", True, "reference"),
    "truth_in_prompt": ("prompts with the ground truth", True, "reference"),
    "truth_changed": ("prompts with another ground truth than before", True, "reference"),
    "prompt_words": ("overlap of a response with its prompt, as a share of the prompt's words", False, ""),
    "truth_chars": ("length of a ground truth", False, "reference"),
    "empty_results": ("empty tool results", True, "conversation"),
    "result_chars": ("length of a tool result", False, "conversation"),
    "repeated_results": ("tool results that another call has, too", True, "conversation"),
    "truth_in_results": ("tool results with the ground truth", True, "conversation"),
    "equal_calls": ("rollouts with equal calls", True, "conversation"),
    "trained_results": ("tool results in the loss", True, "conversation"),
    "untrained_turns": ("turns of the policy outside of the loss", True, "conversation"),
    "unanswered": ("rollouts without an answer", True, "conversation"),
    "new response": ("new phrases in responses", True, ""),
    "new result": ("new phrases in tool results", True, "conversation"),
    "new prompt begin": ("prompts with a new beginning", True, "reference"),
    "new prompt end": ("prompts with a new end", True, "reference"),
}


def texts_streams(context: RuleContext, *, constant: bool = False, first: int = 0) -> Iterator[Stream]:
    """Yield the numbers of the texts that were read; also ``constant`` ones, for a comparison of runs.

    The steps before the one at the position ``first`` are left out.
    """
    if context.texts is None:
        return
    moments = context.texts_moments
    size = np.zeros(0)
    for name, (text, is_share, tab) in _TEXTS.items():
        if name not in moments:
            continue
        mean, variance = moments[name].T
        known = np.isfinite(mean)
        if not known.any() or (not constant and np.ptp(mean[known]) == 0):
            continue
        if is_share:
            if not len(size):
                size = context.texts.sizes(context.steps[first:].tolist())
            share = mean[first:]
            yield share_stream(text, share, np.sqrt(size), tab=tab, fades=name.startswith("new "), text=name)
        elif name in ("result_chars", "truth_chars"):  # a mean of logarithms
            yield Stream(
                text, np.exp(mean[first:]), "factor", MIN_FACTOR, variance[first:], tab=tab, text=name
            )
        else:
            least = MIN_FACTOR * max(float(np.median(mean[known])), 1.0)
            yield Stream(text, mean[first:], "level", least, variance[first:], tab=tab, text=name)


def scalar_values(context: RuleContext, name: str) -> np.ndarray:
    """Return a trainer's scalar at each step, shape (S,); NaN where it is not logged."""
    series = context.snapshot.scalars.series(name)
    if not len(series.steps):
        return np.full(len(context.steps), np.nan)
    at = np.searchsorted(series.steps, context.steps).clip(max=len(series.steps) - 1)
    return np.where(series.steps[at] == context.steps, series.values[at], np.nan)


def _scalars(context: RuleContext, first: int) -> Iterator[Stream]:
    """Yield the trainer's scalars."""
    scalars = context.snapshot.scalars
    for name in scalars.names:
        if name == "reward":
            continue
        values = scalar_values(context, name)
        known = values[np.isfinite(values)]
        if len(known) and np.ptp(known) > 0:
            is_factor = bool(known.min() > 0)
            least = 2 * MIN_FACTOR if is_factor else float(known.std())
            yield Stream(f"{name}{TRAINERS}", values[first:], "factor" if is_factor else "level", least)
