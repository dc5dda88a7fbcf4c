"""The runs that a session looks at beside the selected one."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Runs that may lie over the selected one.
MOST_OTHERS = 8

#: What the key of a split begins with; no run's name does.
SPLIT = "/"

#: Colours of runs in the dark and in the light; none is the orange of the selected run, and the blue of the
#: reference comes last.
DARK = ("#63d2a6", "#b79cff", "#ff7eb6", "#4fd6e8", "#e6c34a", "#b5d957", "#c9a27e", "#6fb1ff")
LIGHT = ("#1d8a5f", "#7352d6", "#c2317f", "#0f8296", "#9a7400", "#5b7d0a", "#8a5a2b", "#2c74d6")


def split_label(label: str, snapshot: Snapshot) -> str:
    """What a run is called where its splits may lie beside one another."""
    return f"{label} · {snapshot.split}" if snapshot.has_splits else label


@dataclass(frozen=True)
class OverlayRun:
    """Another run, or another split of the selected one.

    Attributes
    ----------
    key : str
        Its name in the address; of another split of the selected run that name after a slash, with which no
        run's name begins.
    label : str
        What a person reads.
    slot : int
        Which colour it has; kept while it is chosen.
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
        """Whether it is a split of the selected run."""
        return self.key.startswith(SPLIT)

    def color(self, dark: bool) -> str:
        """Its colour."""
        return (DARK if dark else LIGHT)[self.slot % MOST_OTHERS]
