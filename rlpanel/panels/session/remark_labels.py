"""Short texts of remarks on steps whose samples may not be what they seem."""

from __future__ import annotations

from rlpanel.panels.language.labels import marked, tr, trn
from rlpanel.store.snapshot.remarks import Remark
from rlpanel.store.snapshot.snapshot import Snapshot

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
