"""Samples around a bad step, each one's number behind a change, and what a change explains of another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rlpanel.bisect.explained_share import (
    UNKNOWN,
    ExplainedShare,
    WindowSamples,
    explained_share,
    left_out_share,
)
from rlpanel.bisect.phrase_changes import holders, phrase_of
from rlpanel.bisect.run_changes import RunChange
from rlpanel.findings.engine.places import RANK, WHOLE, Place, codes_of, places_of
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.findings.engine.streams import Stream

#: Steps of the windows before and after a change.
BEFORE, AFTER = 20, 8
#: Trainer's scalars that are set by somebody: they can be a cause of what all samples do. Ratios of clipped
#: tokens or responses are measured.
SETTINGS = re.compile(
    r"(^|[/_.])(lr|learning_rate|beta|kl_coef\w*|kl_beta|kl_penalty|temperature|top_p|clip_?(range|eps)\w*|"
    r"entropy_coef\w*|weight_decay)($|[/_.])",
    re.IGNORECASE,
)
#: Quantile of the samples before beyond which a sample carries a change.
_USUAL = 0.95
#: Quantile of the samples that a rise moves least, and the part of the mean's shift that it has if all move.
_LEAST_MOVED, _MOVED = 0.1, 0.45
#: A change lies in places that carry this share of it and have at most that share of the samples.
_IN_PLACE, _MAX_OF_ALL, _MAX_PLACES = 0.75, 0.6, 3


@dataclass
class BisectWindow:
    """The samples of the steps around a bad one.

    Parameters
    ----------
    context : RuleContext
    first, stop : int
        Positions of the steps.
    target : str
        The number that went wrong.
    y : ndarray of float, shape (N,)
        Its value of each sample in these steps; NaN outside of the place that is asked about.
    other_y : ndarray of float, optional
        The same of all samples if ``y`` is of a place, or of the place that carries the change if ``y`` is of
        all. Where all samples of a place carry a cause, only the others show what it does; where few samples
        of the run do, the place shows it more clearly.
    """

    context: RuleContext
    first: int
    stop: int
    target: str
    y: np.ndarray
    other_y: np.ndarray | None = None
    _values: dict[int, np.ndarray | None] = field(default_factory=dict)

    @cached_property
    def batch(self) -> RowBatch:
        """The samples."""
        inside = (self.context.row_steps >= self.first) & (self.context.row_steps < self.stop)
        steps = self.context.steps[self.first : self.stop]
        return RowBatch(self.context.view, self.context.rows[inside], steps)

    @cached_property
    def position(self) -> np.ndarray:
        """Position of each sample's step among the complete steps, shape (N,)."""
        return self.batch.position + self.first

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Ranks and labels."""
        return places_of(self.batch)

    def inside(self, place: Place) -> np.ndarray:
        """Return the mask of the samples of a place, shape (N,)."""
        return codes_of(self.batch, (place,)) == 0

    def values(self, change: RunChange) -> np.ndarray | None:
        """Return the number of each sample behind a change; None for a number of the whole step."""
        key = id(change)
        if key not in self._values:
            self._values[key] = self._values_of(change.stream)
        return self._values[key]

    def _values_of(self, stream: Stream) -> np.ndarray | None:
        texts = self.context.texts
        if stream.text and texts is not None:
            return self._of_texts(stream.text)
        if stream.signal is None:
            return self.inside(stream.place).astype(float) if stream.place.dimension != WHOLE else None
        values = np.asarray(stream.signal.values(self.batch), float)
        return np.where(self.inside(stream.place), values, np.nan) if stream.place else values

    def _of_texts(self, name: str) -> np.ndarray | None:
        """Return a number of the texts that were read; NaN for the other samples, None if it has no such."""
        assert self.context.texts is not None
        found, phrase = np.full(len(self.batch), np.nan), phrase_of(name)
        for step in self.batch.steps.tolist():
            read = self.context.texts.steps.get(step)
            if read is None or (phrase is None and name not in read.numbers):
                continue
            at = np.searchsorted(self.batch.rows, read.rows).clip(max=len(found) - 1)
            same = self.batch.rows[at] == read.rows
            values = np.asarray(read.numbers[name], float) if phrase is None else holders(read, *phrase)
            found[at[same]] = values[same]
        return found if np.isfinite(found).any() else None

    def bounds(self, *ats: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the masks of the samples before the first and after the last of some positions."""
        low, high = min(ats), min(max(ats), self.stop - 1)
        before = (self.position < low) & (self.position >= low - BEFORE)
        return before, (self.position >= high) & (self.position < high + AFTER)

    def explained(self, cause: RunChange, effect: RunChange | None, onset: int) -> ExplainedShare:
        """Return the share of an effect, or of the target's change at ``onset``, that a change carries."""
        found = self._explained(cause, effect, onset, self.y)
        if found.is_clear or effect is not None or self.other_y is None:
            return found
        other = self._explained(cause, effect, onset, self.other_y)
        return other if other.is_clear else found

    def _explained(
        self, cause: RunChange, effect: RunChange | None, onset: int, y: np.ndarray
    ) -> ExplainedShare:
        x, at = self.values(cause), onset
        if effect is not None:
            found = self.values(effect)
            if found is None:
                return UNKNOWN
            y, at = found, effect.at
        if x is None:
            return UNKNOWN
        before, after = self.bounds(cause.at, at)
        chosen = before | after
        samples = WindowSamples(
            x[chosen], y[chosen], after[chosen], self.batch.group[chosen], self.position[chosen]
        )
        if cause.stream.place and cause.stream.column == self.target and cause.stream.signal is not None:
            return left_out_share(samples, self.inside(cause.stream.place)[chosen])
        return explained_share(samples, needs_x=bool(cause.stream.text))

    def carriers(self, change: RunChange) -> np.ndarray:
        """Return the mask of the samples from the change on that carry it; all if it is of the whole step."""
        before, after = self.bounds(change.at)
        x = self.values(change)
        if x is None:
            return after
        old, known = x[before & np.isfinite(x)], np.isfinite(x)
        if not len(old):
            return after & known
        sign = 1.0 if np.nanmean(np.where(after, x, np.nan)) >= old.mean() else -1.0
        limit = float(np.quantile(sign * old, _USUAL))
        if len(np.unique(x[known])) <= 2:  # a flag
            return after & known & (sign * x >= sign * x[known].mean())
        return after & known & (sign * x > limit)

    def moves_all(self, change: RunChange) -> bool:
        """Return True if even the samples that a change moves least have moved.

        If a part of the samples carries a rise, the lowest tenth is still about where it was. If all samples
        rise, it has risen, however wide their spread is.
        """
        x = self.values(change)
        if x is None:
            return True
        before, after = self.bounds(change.at)
        old, new = x[before & np.isfinite(x)], x[after & np.isfinite(x)]
        if not len(old) or not len(new):
            return False
        moved = float(new.mean() - old.mean())
        end = _LEAST_MOVED if moved > 0 else 1 - _LEAST_MOVED
        return bool(moved) and float(np.quantile(new, end) - np.quantile(old, end)) / moved >= _MOVED

    def where(self, change: RunChange) -> tuple[Place, ...]:
        """Return the few ranks or values of a label that carry a change; empty if it is everywhere."""
        if change.stream.place:
            return (change.stream.place,)
        x = self.values(change)
        if x is None:
            return ()
        before, after = self.bounds(change.at)
        before, after = before & np.isfinite(x), after & np.isfinite(x)
        if not before.any() or not after.any():
            return ()
        total = x[after].sum() - x[before].mean() * after.sum()
        best: tuple[float, tuple[Place, ...]] = (_MAX_OF_ALL, ())
        for dimension in dict.fromkeys(each.dimension for each in self.places if each):
            found = []
            for place in self.places:
                if place.dimension != dimension:
                    continue
                inside = self.inside(place)
                new, old = x[after & inside], x[before & inside]
                if len(new) and len(old):
                    found.append(((new.sum() - old.mean() * len(new)) / total, len(new) / after.sum(), place))
            found.sort(key=lambda each: -each[0] / each[1])
            share = size = 0.0
            for count, (part, part_size, _) in enumerate(found[:_MAX_PLACES], 1):
                share, size = share + part, size + part_size
                if share >= _IN_PLACE:
                    if size < best[0]:
                        best = size, tuple(each[2] for each in found[:count])
                    break
        return best[1]


def places_text(places: tuple[Place, ...]) -> str:
    """Return places in words: ``rank 3``, ``ranks 0 and 1``, ``env = web or code``."""
    if not places:
        return ""
    values = [each.value for each in places]
    if places[0].dimension == RANK:
        return f"rank {values[0]}" if len(values) == 1 else f"ranks {' and '.join(values)}"
    return f"{places[0].dimension} = {' or '.join(values)}"


def places_filter(places: tuple[Place, ...]) -> str:
    """Return the filter for the samples of some places."""
    parts = [each.where for each in places if each.where]
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
