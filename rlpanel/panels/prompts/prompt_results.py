"""Results of the page of prompts: pass rates, classes, costs, and the categories that limit them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlpanel.panels.prompts.grid_figure import import_plots
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.prompt_classes import CLASSES, PromptCosts, costs_of_prompts
from rlpanel.store.snapshot.prompt_grid import GridBuilder, PromptGrid
from rlpanel.store.snapshot.prompts import unsolved_prompts
from rlpanel.store.snapshot.snapshot import Snapshot

# -- prompt categories ---------------------------------------------------------------------------------
# Categories of prompts: values of labels such as data source or language, to limit the grid and the list.


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


# -- prompt results ------------------------------------------------------------------------------------
# Results of the page of prompts: pass rates, classes, costs and categories of the samples that were read.


#: Not a class: prompts of any class whose mean reward never came up to the reference's.
BELOW = "below"


@dataclass(frozen=True)
class PromptResults:
    """Results for all rows of a snapshot.

    Attributes
    ----------
    snapshot : Snapshot
    costs : PromptCosts
    order : numpy.ndarray
        Prompts by class, in the order of the grid's lanes.
    categories : tuple of Category
    below : numpy.ndarray or None
        Prompts that never came up to the reference; None without rewards of a reference.
    """

    snapshot: Snapshot
    costs: PromptCosts
    order: np.ndarray
    categories: tuple[Category, ...]
    below: np.ndarray | None

    def in_category(self, category: str) -> np.ndarray:
        """Return the prompts of a category in the order of the grid's lanes."""
        inside = prompts_of(self.snapshot, self.costs.grid.newest, category)
        return self.order[inside[self.order]]

    def of_class(self, name: str, prompts: np.ndarray) -> np.ndarray:
        """Return those of some prompts that have a class, or are `BELOW`; all for an empty name."""
        if not name:
            return prompts
        if name == BELOW:
            return prompts[np.isin(prompts, self.below)] if self.below is not None else prompts[:0]
        return prompts[self.costs.classes[prompts] == CLASSES.index(name)]


@dataclass(frozen=True)
class RowsRead:
    """Number of rows that were read so far, and of all."""

    read: int
    total: int


class PromptReading:
    """The prompts of a run as they were read so far, shared by all open pages that show them.

    Attributes
    ----------
    builder : GridBuilder
        Keeps what it read, so that a stopped reading goes on.
    """

    def __init__(self) -> None:
        self.builder = GridBuilder()
        self._lock, self._key = threading.Lock(), (-1, -1, -1)
        self._costs: weakref.ref[PromptCosts] | None = None

    def costs(self, snapshot: Snapshot, grid: PromptGrid, least: int) -> PromptCosts:
        """Return classes and costs of the prompts; a page that asks meanwhile waits for them."""
        key = snapshot.version, snapshot.scalars.version, least
        with self._lock:
            known = self._costs() if self._costs is not None else None
            if known is None or known.grid is not grid or key != self._key:
                known = costs_of_prompts(snapshot, grid, least)
                _sum_up(known)
                self._costs, self._key = weakref.ref(known), key
            return known


_lock = threading.Lock()
#: Of the process, but held by the run's index and the pages: a reading ends with either.
_readings: weakref.WeakKeyDictionary[
    RunIndex, weakref.WeakValueDictionary[tuple[str, bool], PromptReading]
] = weakref.WeakKeyDictionary()


def reading_of(index: RunIndex, snapshot: Snapshot) -> PromptReading:
    """Return the reading of a run's split, which its open pages share."""
    key = snapshot.split, snapshot.counts_rows
    with _lock:
        of_run = _readings.setdefault(index, weakref.WeakValueDictionary())
        found = of_run.get(key)
        if found is None:
            found = of_run[key] = PromptReading()
        return found


def read_results(
    snapshot: Snapshot, reading: PromptReading, least: int
) -> Iterator[RowsRead | PromptResults]:
    """Read the rows that a reading lacks; yields its progress, and the results at last.

    Parameters
    ----------
    snapshot : Snapshot
    reading : PromptReading
    least : int
        Steps at which a prompt must be seen to have a class.
    """
    for progress in reading.builder.update(snapshot):
        if progress.grid is None:
            yield RowsRead(progress.read, progress.total)
            continue
        import_plots()
        costs = reading.costs(snapshot, progress.grid, least)
        newest = progress.grid.newest
        yield PromptResults(
            snapshot,
            costs,
            costs.order,
            categories_of(snapshot, newest),
            _below(snapshot, newest, least) if snapshot.has_number("ref_reward") else None,
        )


def _sum_up(costs: PromptCosts) -> None:
    """Compute the sums of prompts that the page shows, which their objects keep.

    Over 20 million cells they take seconds, which the event loop would spend when it shows them.
    """
    grid = costs.grid
    _ = grid.visits, grid.samples_of_prompts, grid.cost_of_prompts, costs.order, costs.first_and_last


def _below(snapshot: Snapshot, newest: np.ndarray, least: int) -> np.ndarray:
    """Return the prompts whose mean reward was at no step above that of the reference's responses."""
    rows = np.array([prompt.row for prompt in unsolved_prompts(snapshot, least)], int)
    return np.flatnonzero(np.isin(snapshot.prompts(newest), snapshot.prompts(rows)))
