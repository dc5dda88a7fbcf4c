"""Categories of prompts: values of labels such as data source or language, to limit the grid and the list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlpanel.store.snapshot.snapshot import Snapshot

#: Stands for prompts of any category.
ALL = ""
#: Labels that say how a rollout went or where it came from, and not what its prompt is about.
_OF_ROLLOUTS = frozenset(
    {
        "split",
        "status",
        "status_reason",
        "finish_reason",
        "episode",
        "group",
        "session",
        "session_id",
        "trial",
    }
)
#: Most values of a label that is offered, and most categories.
MAX_VALUES, MAX_CATEGORIES = 24, 60


class Category(NamedTuple):
    """A value of a label: its key in the address, and its title."""

    key: str
    title: str


def categories_of(snapshot: Snapshot, newest: np.ndarray) -> tuple[Category, ...]:
    """Return the values of labels with 2 to 24 values, by the newest sample of each prompt."""
    found: list[Category] = []
    for label in snapshot.labels:
        if label in _OF_ROLLOUTS:
            continue
        codes, names = snapshot.label_codes(label)
        used = np.unique(codes[newest])
        used = used[used >= 0]
        if 2 <= len(used) <= MAX_VALUES:
            values = sorted(names[code] for code in used.tolist())
            found += [Category(f"{label}={value}", f"{label}: {value[:60]}") for value in values]
    return tuple(found[:MAX_CATEGORIES])


def prompts_of(snapshot: Snapshot, newest: np.ndarray, category: str) -> np.ndarray:
    """Return a mask of the prompts of a category, shape (P,); none for one that the run lacks."""
    if category == ALL:
        return np.ones(len(newest), bool)
    label, _, value = category.partition("=")
    if label not in snapshot.labels:
        return np.zeros(len(newest), bool)
    codes, names = snapshot.label_codes(label)
    return codes[newest] == (names.index(value) if value in names else -2)
