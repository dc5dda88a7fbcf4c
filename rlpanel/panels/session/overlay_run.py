"""Overlay runs: other runs or splits whose curves are drawn over those of the selected run."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel.board_url import MAX_OVERLAY_RUNS
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: First character of a split's key; no run's name begins with it.
SPLIT = "/"

#: Colours of overlay runs in the dark and light theme. None is the orange of the selected run, and the blue
#: of the reference comes last.
DARK = ("#63d2a6", "#b79cff", "#ff7eb6", "#4fd6e8", "#e6c34a", "#b5d957", "#c9a27e", "#6fb1ff")
LIGHT = ("#187a53", "#6d4cd0", "#c2317f", "#0c7283", "#846300", "#527108", "#8a5a2b", "#2468c4")


def split_label(label: str, snapshot: Snapshot) -> str:
    """Return a run's label, followed by the split's name if the run has several splits."""
    return f"{label} · {snapshot.split}" if snapshot.has_splits else label


@dataclass(frozen=True)
class OverlayRun:
    """Another run, or another split of the selected run.

    Attributes
    ----------
    key : str
        The run's name in the URL; for a split, a slash and the split's name. No run's name begins with a
        slash.
    label : str
        Label on screen.
    slot : int
        Index of the run's colour, which stays the same while the run is chosen.
    index : RunIndex
    view : RunView
    """

    key: str
    label: str
    slot: int
    index: RunIndex
    view: RunView

    @property
    def snapshot(self) -> Snapshot:
        """The run's data."""
        return self.view.snapshot

    @property
    def is_split(self) -> bool:
        """True if this is another split of the selected run."""
        return self.key.startswith(SPLIT)

    def color(self, dark: bool) -> str:
        """Return the run's colour in the dark or light theme."""
        return (DARK if dark else LIGHT)[self.slot % MAX_OVERLAY_RUNS]
