"""Read the tokens of many samples and tally them: a piece of work for a thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.compute import token_values
from rlpanel.metrics.token_tally import TokenTally
from rlpanel.panels.tokens.display_text import Encoding, detect
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch_record
from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds between two words about the progress.
PULSE = 0.25

VALUE_ERROR = "value_error"


@dataclass(frozen=True)
class TallyProgress:
    """What was tallied; the tally's sample numbers are places in ``samples``.

    Attributes
    ----------
    samples : tuple of (str, int)
        Uid and line hash of the samples wanted, in the order they are read.
    read : int
        How many of them were read.
    tally : TokenTally
        Nobody changes it any more.
    encoding : str or None
        How the log spells tokens; None before one was seen.
    """

    samples: tuple[tuple[str, int], ...] = ()
    read: int = 0
    tally: TokenTally = field(default_factory=TokenTally)
    encoding: Encoding | None = None

    @cached_property
    def known(self) -> frozenset[tuple[str, int]]:
        """The samples that were read."""
        return frozenset(self.samples[: self.read])

    @property
    def whole(self) -> bool:
        """Whether all samples were read."""
        return self.read == len(self.samples)


@dataclass(frozen=True)
class TokenReader:
    """Reads samples' tokens as they are to be counted: the KL estimator, and which tokens are pads."""

    index: RunIndex
    kl: str
    pad_token: str

    def read(self, snapshot: Snapshot, rows: np.ndarray, before: TallyProgress) -> Iterator[TallyProgress]:
        """Tally ``rows`` beside what ``before`` holds; a reading at once, some on the way, the whole last."""
        samples = before.samples[: before.read] + tuple(named(snapshot, rows))
        now = replace(before, samples=samples, tally=before.tally.copy())
        yield replace(now, tally=before.tally)
        told = time.monotonic()
        for row in rows.tolist():
            now = self._add(now, snapshot, row)
            if time.monotonic() - told > PULSE and not now.whole:
                told = time.monotonic()
                yield replace(now, tally=now.tally.copy())
        yield now

    def _add(self, reading: TallyProgress, snapshot: Snapshot, row: int) -> TallyProgress:
        """``reading`` with one more sample; its tally is changed."""
        after = replace(reading, read=reading.read + 1)
        try:
            record = fetch_record(self.index, snapshot, row)
        except (RLPanelError, IndexError):  # its file changed under us; the index follows in a moment
            return after
        if not record.tokens:
            return after
        keep = self._kept(record.tokens, record.arrays.get("loss_mask"))
        reading.tally.add(reading.read, record.tokens, measures(record.arrays, self.kl), keep)
        return replace(after, encoding=reading.encoding or detect(record.tokens))

    def _kept(self, tokens: Sequence[str], mask: np.ndarray | None) -> np.ndarray:
        """Which tokens count: not pads, not those outside the loss."""
        keep = np.array([not self.pad_token or token != self.pad_token for token in tokens], bool)
        return keep & (mask != 0) if mask is not None and len(mask) == len(keep) else keep


def named(snapshot: Snapshot, rows: np.ndarray) -> list[tuple[str, int]]:
    """Uid and line hash of each row: a file that was written anew has other lines at the same places."""
    return list(zip(snapshot.uids(rows), snapshot.place("hash")[rows].tolist(), strict=True))


def measures(arrays: Mapping[str, np.ndarray], kl: str) -> dict[str, np.ndarray]:
    """What tokens are ranked by, as far as these arrays allow: KL, surprisal, how far the critic was off."""
    values = token_values(arrays)
    found = {name: values.get(name) for name in (kl, "surprisal")}
    value, returned = values.get("value"), values.get("token_return")
    if value is not None and returned is not None and len(value) == len(returned):
        found[VALUE_ERROR] = np.abs(value - returned)
    return {name: array for name, array in found.items() if array is not None}
