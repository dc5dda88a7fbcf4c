"""Rule on a class of samples, such as a data source, of which none gets a reward any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.column_stats import HIGHEST, LOWEST
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import MEAN, SAMPLES, Place
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import SIGNALS, RowBatch, Signal, mark
from rlpanel.findings.rules.held_out import copies, reward_parts

#: Fewest steps and samples of a class without a reward, and most of the other samples that have none.
_MIN_STEPS, _MIN_SAMPLES, _OTHERS = 4, 24, 0.9
#: Chance of such a stretch, had the class gone on as before, for one of many classes.
_CHANCE = 1e-6


@dataclass(frozen=True)
class _Stretch:
    """The newest steps in which all samples of a class have the lowest value of a reward."""

    place: Place
    column: str
    lowest: float
    mask: np.ndarray
    samples: int
    before: float
    chance: float


def _at_lowest(column: str, lowest: float) -> Signal:
    """Return the signal of samples with the lowest value of a reward; it is registered when first used."""
    name = f"{column} == {lowest:g}"
    if name not in SIGNALS:

        def values(rows: RowBatch) -> np.ndarray:
            reward = rows.number(column)
            return mark(reward <= lowest, np.isfinite(reward))

        SIGNALS[name] = Signal(name, "share", (column,), values)
    return SIGNALS[name]


def _stretches(context: RuleContext, column: str) -> Iterator[_Stretch]:
    """Yield the classes of which no sample gets more than the lowest value, up to the newest step."""
    lowest, highest = context.step_stats.facts([column])[[LOWEST, HIGHEST], 0].tolist()
    if not lowest < highest:
        return
    table = context.table(_at_lowest(column, lowest))
    share, samples = table[MEAN], table[SAMPLES]
    # Most classes get more in the newest steps.
    has_more = np.logical_or.accumulate(((samples > 0) & (share < 1))[:, ::-1], axis=1)
    newest = ((samples > 0)[:, ::-1] & ~has_more).sum(axis=1)
    for row in np.flatnonzero(newest >= _MIN_STEPS).tolist():
        place = context.place_series.places[row]
        if not place:
            continue
        used = np.flatnonzero(samples[row] > 0)
        others = np.flatnonzero(share[row, used] < 1)
        start = int(others[-1]) + 1 if len(others) else 0
        late, early = used[start:], used[:start]
        size = int(samples[row, late].sum())
        if len(late) < _MIN_STEPS or len(early) < _MIN_STEPS or size < _MIN_SAMPLES:
            continue
        rest = (share[0, late] * samples[0, late]).sum() - size
        if rest > _OTHERS * max(samples[0, late].sum() - size, 1):
            continue
        usual = ((share[row, early] == 1).sum() + 1) / (len(early) + 2)
        mask = np.arange(len(context.steps)) >= late[0]
        before = float((share[row, early] * samples[row, early]).sum() / samples[row, early].sum())
        yield _Stretch(place, column, lowest, mask, size, before, float(usual ** len(late)))


@rule("A class without reward")
def class_unrewarded(context: RuleContext) -> Iterator[Finding]:
    """All samples with a label, or of a rank, have the lowest value of a reward in the newest steps.

    At least four steps and 24 samples; the chance of so many such steps in a row, from the share of them
    before, is below one in a million; and a tenth of the other samples gets more.
    """
    shown = set(copies(context))
    columns = [name for name in reward_parts(context) if name not in shown]
    for column in ["reward", *columns]:
        if not context.snapshot.is_stored(column):
            continue
        found = [each for each in _stretches(context, column) if each.chance < _CHANCE]
        if found:
            yield _finding(context, min(found, key=lambda each: (each.chance, -each.samples)))


def _finding(context: RuleContext, found: _Stretch) -> Finding:
    steps = context.steps[found.mask]
    text = f"on {found.place.text}" if found.place.rank is not None else f"with {found.place.text}"
    return Finding(
        severity=severity_of(context, found.mask, harmful=True),
        sentence=f"From step {steps[0]:,} on, all {found.samples:,} samples {text} have the lowest value of "
        f"{found.column}, {number(found.lowest)}; {percent(found.before)} of them had it before.",
        evidence=("Other samples of these steps still get more.",),
        advice="Run the reward function by hand on such a sample: its parser, its time-out, the ground "
        "truth. A policy that forgets a class does not do so all at once.",
        steps=tuple(steps.tolist()),
        ongoing=True,
        rank=found.place.rank,
        category=found.place.category,
        column=found.column,
        where=found.place.where,
        subject=found.column,
    )
