"""How much of a run has been read."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlpanel.number_text import size_text


@dataclass(frozen=True)
class Progress:
    """Reading progress of a run.

    Attributes
    ----------
    bytes_read, bytes_total : int
        Bytes on disk, summed over all files that exist. They stay different while a file's last line has no
        newline, since an unfinished line is not read.
    caught_up : bool
        True if all complete lines found at the last check were read, or if the user stopped the backlog.
    halted : bool
        True if the user stopped the reading of a backlog.
    rate : float
        Bytes per second over the last seconds; 0 if it is not known yet.
    """

    bytes_read: int = 0
    bytes_total: int = 0
    caught_up: bool = False
    halted: bool = False
    rate: float = field(default=0.0, compare=False)

    @property
    def waiting(self) -> int:
        """Number of unread bytes: the backlog, and unfinished lines at the ends of files."""
        return self.bytes_total - self.bytes_read

    @property
    def fraction(self) -> float:
        """Share of bytes that were read, between 0 and 1; 1 if there are no bytes."""
        return self.bytes_read / self.bytes_total if self.bytes_total else 1.0


def describe(done: int, total: int, rate: float) -> str:
    """Return the progress as text: ``34% of 10.2 GB · 512 MB/s · 13 s left``."""
    share = done / total if total else 1.0
    words = [f"{min(share, 1.0):.0%} of {size_text(total)}"]
    if rate > 0:
        words += [f"{size_text(rate)}/s", f"{_duration((total - done) / rate)} left"]
    return " · ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
