"""Counts what a run's numbers leave out, and says it in one sentence for all commands, tools and Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.store.columns.row_table import DUPLICATE, OLDER, counts
from rlpanel.store.snapshot.snapshot import Snapshot

#: Number of steps that the sentence names.
_NAMED = 8


@dataclass(frozen=True)
class Omissions:
    """Counts of what the numbers of a run or of one split leave out.

    Attributes
    ----------
    samples : int
        Number of samples that count.
    older_attempts, duplicates, discarded : int
        Numbers of samples: of attempts that a restarted job logged again, of lines that were logged twice,
        and of those that failed by the environment's fault or that the trainer discarded.
    bad_lines, unread_files : int
        Numbers of lines and files that could not be read, of all splits.
    empty_lines : int
        Number of lines that hold no sample, such as padding of a batch.
    restarts : tuple of int
        Steps at which newer attempts begin.
    """

    samples: int = 0
    older_attempts: int = 0
    duplicates: int = 0
    discarded: int = 0
    bad_lines: int = 0
    unread_files: int = 0
    restarts: tuple[int, ...] = ()
    empty_lines: int = 0

    @property
    def excluded(self) -> int:
        """Number of samples that were read and do not count."""
        return self.older_attempts + self.duplicates + self.discarded

    @property
    def sentence(self) -> str:
        """All counts in words; empty if nothing is left out."""
        parts = []
        if self.excluded:
            reasons = [
                (self.older_attempts, f"of older attempts ({self._restarted}the newest attempt counts)"),
                (self.duplicates, "logged twice"),
                (self.discarded, "discarded, as failed or not trained on"),
            ]
            named = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
            parts.append(
                f"{self.excluded:,} of {self.samples + self.excluded:,} samples are excluded: {named}"
            )
        if self.bad_lines:
            parts.append(f"{_number(self.bad_lines, 'bad line')} left out")
        if self.empty_lines:
            parts.append(f"{_number(self.empty_lines, 'line')} without a sample, such as padding")
        if self.unread_files:
            parts.append(f"{_number(self.unread_files, 'file')} not read")
        return "; ".join(parts)

    @property
    def listed(self) -> dict[str, object]:
        """The counts above zero as plain values with the sentence, for JSON; empty if nothing is left out."""
        names = ("older_attempts", "duplicates", "discarded", "bad_lines", "empty_lines", "unread_files")
        found = {name: value for name in names if (value := getattr(self, name))}
        if not found:
            return {}
        return (
            found
            | ({"restarts": list(self.restarts)} if self.older_attempts else {})
            | {"sentence": self.sentence}
        )

    @property
    def _restarted(self) -> str:
        if not self.restarts:
            return ""
        named = ", ".join(f"{step:,}" for step in self.restarts[:_NAMED])
        several = "s" * (len(self.restarts) > 1)
        return f"restarted at step{several} {named}{', …' * (len(self.restarts) > _NAMED)}; "


def left_out(snapshot: Snapshot, *, all_splits: bool = False) -> Omissions:
    """Count what a snapshot's numbers leave out: those of its split, or of all splits."""
    files = {"bad_lines": snapshot.bad_count, "empty_lines": snapshot.empty_count}
    files["unread_files"] = len(snapshot.unread)
    if all_splits:  # here, the samples that were discarded are a split of their own
        state = snapshot.state
        older, twice = (int(np.count_nonzero(state == kind)) for kind in (OLDER, DUPLICATE))
        samples = int(np.count_nonzero(counts(state)))
        return Omissions(samples, older, twice, **files, restarts=snapshot.restarts)
    discarded = int(snapshot.discarded_steps.samples.sum())
    found = snapshot.samples, snapshot.older, snapshot.duplicates, discarded
    return Omissions(*found, **files, restarts=snapshot.restarts)


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
