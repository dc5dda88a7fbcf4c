"""Compares a new run with its baselines, number by number, with samples that show a worsening."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.analysis.run_comparison import ComparedRun
from rlpanel.board_url import STEP
from rlpanel.findings.engine.change_statistic import rise_onset
from rlpanel.gate.gate_numbers import GateNumber, numbers_of
from rlpanel.gate.gate_result import (
    CANNOT_TELL,
    PASSED,
    SUSPICIOUS,
    WORSE,
    GateResult,
    GateSample,
    NumberResult,
    WindowValues,
    found_sentence,
)
from rlpanel.gate.run_notes import (
    MAX_WINDOWS,
    MIN_STEPS,
    other_prompts,
    other_scale,
    range_notes,
    run_notes,
)
from rlpanel.gate.run_series import AlignedWindows, GateRun, NumberSeries, align
from rlpanel.gate.spread_test import (
    ALPHA,
    LAST,
    WHOLE,
    RunContrast,
    contrasts,
    detectable,
    enough_baselines,
    first_window,
    holm,
    quantile,
    standard_error,
    window_means,
    worsening_of,
)

# -- worst samples -------------------------------------------------------------------------------------
# Samples of the new run that show a worsening, with what the baselines have for the same prompt.


def worst_samples(
    number: GateNumber, runs: Sequence[GateRun], steps: tuple[int, int], effect: float, most: int
) -> tuple[GateSample, ...]:
    """Return samples of some steps that lie farthest from the baselines on their prompt, one for each prompt.

    Parameters
    ----------
    number : GateNumber
    runs : sequence of GateRun
        The new run first.
    steps : tuple of int
        First and last step of the new run.
    effect : float
        New run minus baselines; its sign is the side.
    most : int
    """
    new, *others = runs
    snapshot = new.run.snapshot
    sums, weights = new.parts(number)
    step = snapshot.metadata("step")[new.rows.rows]
    chosen = np.flatnonzero((weights > 0) & (step >= steps[0]) & (step <= steps[1]))
    if not len(chosen) or most < 1:
        return ()
    values = sums[chosen] / weights[chosen]
    hashes, prompt = np.unique(snapshot.prompts(new.rows.rows[chosen]), return_inverse=True)
    usual = _of_prompts(number, others, hashes, steps)[prompt]
    worsening = np.sign(effect) * (_distance(number, values) - _distance(number, usual))
    # Prompts that no baseline has come last.
    order = np.lexsort((-np.sign(effect) * _distance(number, values), -worsening))
    _, first = np.unique(prompt[order], return_index=True)
    picked = order[np.sort(first)[:most]]
    return tuple(
        GateSample(
            snapshot.uid(int(new.rows.rows[chosen[at]])),
            int(new.rows.rows[chosen[at]]),
            int(step[chosen[at]]),
            float(values[at]),
            float(usual[at]),
        )
        for at in picked.tolist()
    )


def _distance(number: GateNumber, values: np.ndarray) -> np.ndarray:
    return values if number.aim is None else np.abs(values - number.aim)


def _of_prompts(
    number: GateNumber, others: Sequence[GateRun], hashes: np.ndarray, steps: tuple[int, int]
) -> np.ndarray:
    """Return the mean over the baselines' samples of each prompt, shape (P,): in the steps, else in all."""
    totals = np.zeros((4, len(hashes)))
    for run in others:
        sums, weights = run.parts(number)
        snapshot = run.run.snapshot
        prompts = snapshot.prompts(run.rows.rows)
        at = np.searchsorted(hashes, prompts).clip(max=len(hashes) - 1)
        found = (weights > 0) & (hashes[at] == prompts)
        step = snapshot.metadata("step")[run.rows.rows]
        inside = found & (step >= steps[0]) & (step <= steps[1])
        for row, mask in ((0, inside), (2, found)):
            totals[row] += np.bincount(at[mask], sums[mask], len(hashes))
            totals[row + 1] += np.bincount(at[mask], weights[mask], len(hashes))
    with np.errstate(all="ignore"):
        return np.where(totals[1] > 0, totals[0] / totals[1], totals[2] / totals[3])


# -- compare to baselines ------------------------------------------------------------------------------
# Compares a new run with its baselines, number by number.


#: Degrees of freedom of two and three baselines.
_FEW_DEGREES = (1, 2)


@dataclass(frozen=True)
class _Tested:
    """A number with what its tests need."""

    number: GateNumber
    series: list[NumberSeries]
    by_window: np.ndarray
    noise: np.ndarray
    contrasts: list[RunContrast]


def compare_to_baselines(
    new: ComparedRun,
    baselines: Sequence[ComparedRun],
    on: Sequence[str] | None = None,
    windows: int = 10,
    axis: str = STEP,
    samples: int = 3,
) -> GateResult:
    """Return whether a run is worse than the spread of its baselines allows.

    Parameters
    ----------
    new : ComparedRun
    baselines : sequence of ComparedRun
        At least one.
    on : sequence of str, optional
        Names of numbers; by default those of `gate_numbers.USUAL` that a run logs.
    windows : int
        Number of windows over the common range.
    axis : {"step", "samples", "tokens"}
        What the runs are aligned by.
    samples : int
        Most samples that show a worsening.

    Raises
    ------
    SettingError
        If no run logs a number of this name.
    """
    runs = [GateRun(each, axis) for each in (new, *baselines)]
    numbers = numbers_of(on, [run.run.snapshot for run in runs])
    result = GateResult(runs[0].name, tuple(run.name for run in runs[1:]), axis, notes=run_notes(runs))
    positions = [run.positions for run in runs]
    lacking = [run.name for run, each in zip(runs, positions, strict=True) if each is None]
    if lacking:
        return _untold(result, numbers, f"{', '.join(lacking)} logs no response_tokens to align by")
    known = [each for each in positions if each is not None]
    aligned = align(known, min(max(windows, 1), MAX_WINDOWS))
    if aligned is None:
        return _untold(result, numbers, f"The runs have no {axis} in common")
    result = replace(
        result,
        low=aligned.low,
        high=aligned.high,
        steps=aligned.steps(0),
        windows=aligned.count,
        notes=(*result.notes, *range_notes(runs, aligned, windows)),
    )
    fewest = min(aligned.steps(run) for run in range(len(runs)))
    if fewest < MIN_STEPS:
        return _untold(result, numbers, f"The runs have {fewest} common steps, fewer than {MIN_STEPS}")
    note, reason = other_prompts(runs)
    result = replace(result, notes=(*result.notes, *([note] if note else [])))
    if reason:
        return _untold(result, numbers, reason)
    return _compared(result, runs, numbers, aligned, samples)


def _untold(result: GateResult, numbers: Sequence[GateNumber], reason: str) -> GateResult:
    return replace(
        result, numbers=tuple(NumberResult(each, CANNOT_TELL, f"{each.name}: {reason}.") for each in numbers)
    )


def _compared(
    result: GateResult,
    runs: list[GateRun],
    numbers: Sequence[GateNumber],
    aligned: AlignedWindows,
    samples: int,
) -> GateResult:
    tested, found = list[_Tested](), list[NumberResult]()
    for number in numbers:
        if reason := _reason(number) or other_scale(number, runs, begin=True):
            found.append(NumberResult(number, CANNOT_TELL, f"{number.name}: {reason}."))
            continue
        series = [run.series(number) for run in runs]
        means = [number.scaled(each.mean) for each in series]
        variances = [_scaled_variance(number, each) for each in series]
        by_window, noise = window_means(aligned, means, variances)
        most = number.most_between(min(each.spread for each in series))
        made = contrasts(by_window, noise, number.worse, most)
        if made:
            tested.append(_Tested(number, series, by_window, noise, made))
        else:
            reason = "no window has a value of every run"
            found.append(NumberResult(number, CANNOT_TELL, f"{number.name}: {reason}."))
    chances = [contrast.p for each in tested for contrast in each.contrasts]
    corrected: Iterator[float] = iter(holm(chances))
    for each in tested:
        chance = [next(corrected) for _ in each.contrasts]
        found.append(_judged(each, chance, len(chances), runs, aligned, samples))
    order = {WORSE: 0, CANNOT_TELL: 1, PASSED: 2}
    found.sort(key=lambda each: order[each.state])
    remarks = [f"{each.name}: {each.remark}." for each in numbers if each.remark]
    return replace(result, tests=len(chances), numbers=tuple(found), notes=(*result.notes, *remarks))


def _reason(number: GateNumber) -> str:
    """Return why a number cannot be compared; empty if it can."""
    if not number.logged:
        return "no run logs it"
    if number.missing:
        return f"it is not logged in {', '.join(number.missing)}"
    return number.doubt


def _scaled_variance(number: GateNumber, series: NumberSeries) -> np.ndarray:
    """Return the variances of the means in the scale of the test."""
    if number.scale != "log":
        return series.variance
    with np.errstate(all="ignore"):
        return np.where(series.mean > 0, series.variance / series.mean**2, np.nan)


def _judged(
    tested: _Tested,
    chances: list[float],
    tests: int,
    runs: list[GateRun],
    aligned: AlignedWindows,
    samples: int,
) -> NumberResult:
    number = tested.number
    best = int(np.argmin(chances))
    contrast, p = tested.contrasts[best], chances[best]
    sizes = {each.name: detectable(each, number.worse, tests) for each in tested.contrasts}
    result = NumberResult(
        number,
        PASSED,
        "",
        contrast,
        p,
        sizes[WHOLE],
        sizes.get(LAST, sizes[WHOLE]),
        windows=_windows(tested, runs[0], aligned),
    )
    window = None
    limit = np.log(2.0) if number.scale == "log" else max(each.spread for each in tested.series)
    if p < ALPHA and contrast.degrees:
        first = first_window(tested.by_window, tested.noise, number.worse)
        first = contrast.first if first is None else first
        begin = _first_step(tested, runs, aligned, first)
        window = result.windows[first]
        shown = worst_samples(number, runs, (min(begin, window.last), window.last), contrast.effect, samples)
        result = replace(result, state=WORSE, first_window=first + 1, first_step=begin, samples=shown)
    elif reason := other_scale(number, runs, begin=False):
        return replace(result, state=CANNOT_TELL, sentence=f"{number.name}: {reason}.")
    elif p < (SUSPICIOUS if contrast.degrees in _FEW_DEGREES else ALPHA) or sizes[WHOLE] > limit > 0:
        result = replace(result, state=CANNOT_TELL)
    needed = None
    if result.state == CANNOT_TELL and contrast.degrees:
        size = worsening_of(contrast.effect, number.worse) if p < SUSPICIOUS else limit
        needed = enough_baselines(contrast, size, number.worse, tests)
    sentence = found_sentence(result, len(runs) - 1, tests, window, needed)
    return replace(result, sentence=sentence)


def _windows(tested: _Tested, new: GateRun, aligned: AlignedWindows) -> tuple[WindowValues, ...]:
    made, count = [], len(tested.by_window) - 1
    for at in range(aligned.count):
        steps = new.steps[aligned.place[0] == at]
        values, noise = tested.by_window[:, at], tested.noise[:, at]
        middle, half = float(values[1:].mean()), float("nan")
        if count > 1 and np.isfinite(values).all():
            half = quantile(0.975, count - 1) * standard_error(values[1:], noise)
        made.append(
            WindowValues(
                int(steps[0]),
                int(steps[-1]),
                float(values[0]),
                tuple(values[1:].tolist()),
                middle - half,
                middle + half,
            )
        )
    return tuple(made)


def _first_step(tested: _Tested, runs: list[GateRun], aligned: AlignedWindows, window: int) -> int:
    """Return the step of the new run at which it leaves the baselines.

    It is looked for from the window before the first one outside of the spread, by the better fit of a step
    and of a slope after a constant level (`rise_onset`). The baselines are read off at the new run's
    positions.
    """
    new = runs[0]
    inside = (aligned.place[0] >= 0) & np.isfinite(tested.series[0].mean)
    at = new.positions
    assert at is not None
    others = []
    for run, series in zip(runs[1:], tested.series[1:], strict=True):
        known = np.isfinite(series.mean)
        assert run.positions is not None
        others.append(np.interp(at[inside], run.positions[known], tested.number.scaled(series.mean[known])))
    difference = tested.number.scaled(tested.series[0].mean[inside]) - np.mean(others, axis=0)
    place, steps = aligned.place[0][inside], new.steps[inside]
    if window == 0 or not len(steps):
        return int(steps[0]) if len(steps) else int(new.steps[0])
    stop = int(np.flatnonzero(place <= window + 1)[-1])
    return int(steps[rise_onset(difference[: stop + 1], 0, stop)])
