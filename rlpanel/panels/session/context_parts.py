"""Parts of the context: steps that stand out on all curves, remarks on steps, and overlay runs."""

from __future__ import annotations

from dataclasses import dataclass

from rlpanel.board_url import MAX_OVERLAY_RUNS
from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.remarks import Remark
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

# -- marked steps --------------------------------------------------------------------------------------
# Steps that stand out on all curves: those of the opened finding, and those of a chain of changes.


@dataclass(frozen=True)
class MarkedSteps:
    """The affected steps of a finding.

    Attributes
    ----------
    steps : tuple of int
        Ascending; empty if the finding is about the whole run.
    color : str
        Name of the theme colour of the finding's severity.
    column : str
        Column of the finding's own curve; empty if it has none.
    text : str
        What the finding says, for whoever wonders what is shaded.
    sentence, advice : str
        What happened, and what to check next.
    evidence : tuple of str
        Its measured numbers, one sentence each.
    tool : str
        The tool that it is about; empty if it is about none.
    compared : (int, int) and (int, int), optional
        First and last step of those that its evidence compares, and of those before.
    """

    steps: tuple[int, ...]
    color: str
    column: str = ""
    text: str = ""
    sentence: str = ""
    advice: str = ""
    evidence: tuple[str, ...] = ()
    tool: str = ""
    compared: tuple[tuple[int, int], tuple[int, int]] | None = None


@dataclass(frozen=True)
class ChainMark:
    """A change of the chain that leads to a bad step.

    Attributes
    ----------
    step : int
        First step after it.
    text : str
        Its name and place with the levels before and after.
    effect : str
        Both levels alone.
    column : str
        The column that changed, or the name of the trainer's scalar.
    """

    step: int
    text: str
    effect: str
    column: str = ""


# -- remark labels -------------------------------------------------------------------------------------
# Short texts of remarks on steps whose samples may not be what they seem.


_LABELS = {
    "evaluation": marked("may hold evaluation samples"),
    "attempts": marked("may hold samples of two attempts"),
    "groups": marked("groups mix prompts"),
    "split": marked("split from the folder's name"),
    "epochs": marked("samples of several epochs"),
    "fields": marked("fields of another shape"),
}


def step_doubts(snapshot: Snapshot, step: int | None) -> list[str]:
    """Return what remarks say about a step."""
    return [kind_label(remark.kind) for remark in snapshot.remarks if step in remark.steps]


def kind_label(kind: str) -> str:
    """Return what remarks of a kind say in a few words; empty for another kind."""
    return tr(_LABELS[kind]) if kind in _LABELS else ""


def remark_title(remark: Remark) -> str:
    """Return a remark in a few words, with the number of its steps."""
    label = kind_label(remark.kind)
    if not remark.steps:
        return label
    count = trn("{count:,} step", "{count:,} steps", len(remark.steps))
    return f"{count} {label}"


# -- overlay run ---------------------------------------------------------------------------------------
# Overlay runs: other runs or splits whose curves are drawn over those of the selected run.


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
