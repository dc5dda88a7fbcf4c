"""Matches the prompts of two runs for the screen: by their text as logged, then by what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.panels.ui.prompt_text import clean
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch import fetch_texts
from rlpanel.store.snapshot.prompt_pairs import (
    NEWEST,
    Keys,
    PromptPairs,
    as_logged,
    keys_of,
    pair,
    rows_at,
    side,
)
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Prompts of a run whose texts are read to be matched by what they say.
MOST_READ = 4000
#: Prompts that are listed: those that lost most and those that won most.
MOST_LISTED = 500

EXACT = "matched by the text as logged"
BY_WORDS = "matched by text without template, pads and blanks"
TOO_MANY = f"matched by the text as logged; above {MOST_READ:,} prompts templates are not looked through"


@dataclass(frozen=True)
class ComparedRun:
    """A run in the comparison: its samples, and which of them (see `prompt_pairs.NEWEST`)."""

    index: RunIndex
    view: RunView
    at: str = NEWEST

    @property
    def snapshot(self) -> Snapshot:
        """The run's data."""
        return self.view.snapshot


@dataclass(frozen=True)
class RunComparison:
    """Two runs, compared.

    Attributes
    ----------
    here, there : ComparedRun
    pairs : PromptPairs
    how : str
        What prompts were matched by, in words.
    listed : ndarray of int, shape (L,)
        Places of the pairs that are listed, the smallest difference first.
    prompts : list of str
        Their prompts as they were logged.
    """

    here: ComparedRun
    there: ComparedRun
    pairs: PromptPairs
    how: str
    listed: np.ndarray
    prompts: list[str]


class Prompts:
    """Reads prompts by their hash and remembers them while the same two runs are compared."""

    def __init__(self, pad_token: str, system_end: str) -> None:
        self._pad, self._end = pad_token, system_end
        self._known: dict[int, str] = {}

    def keys(self, seats: tuple[ComparedRun, ComparedRun]) -> Keys | None:
        """Keys by what prompts say; None where there are too many to be read."""
        wanted = [_asked(seat) for seat in seats]
        if max(map(len, wanted)) > MOST_READ:
            return None
        for seat, rows in zip(seats, wanted, strict=True):
            for key, row in rows.items():
                if key not in self._known:
                    self._known[key] = prompt_of(seat, row) or ""
        hashes = {key for rows in wanted for key in rows if self._known[key]}
        return keys_of({key: clean(self._known[key], self._pad, self._end) for key in hashes})

    def text(self, seat: ComparedRun, row: int) -> str:
        """The prompt of a row."""
        key = int(seat.snapshot.place("prompt_hash")[row])
        if key not in self._known:
            self._known[key] = prompt_of(seat, row) or ""
        return self._known[key]


def compare_runs(here: ComparedRun, there: ComparedRun, prompts: Prompts) -> Iterator[RunComparison]:
    """The comparison: one result, for `Background`."""
    pairs, how = _match(here, there, as_logged), EXACT
    if pairs.alone_here and pairs.alone_there:
        keys = prompts.keys((here, there))
        how = TOO_MANY if keys is None else how
        by_words = pairs if keys is None else _match(here, there, keys)
        if len(by_words) > len(pairs) or by_words.alone_here + by_words.alone_there < (
            pairs.alone_here + pairs.alone_there
        ):
            pairs, how = by_words, BY_WORDS
    listed = np.argsort(pairs.difference, kind="stable")
    if len(listed) > MOST_LISTED:
        listed = np.concatenate([listed[: MOST_LISTED // 2], listed[-MOST_LISTED // 2 :]])
    texts = [prompts.text(here, row) for row in pairs.here.row[listed].tolist()]
    yield RunComparison(here, there, pairs, how, listed, texts)


def prompt_of(seat: ComparedRun, row: int) -> str | None:
    """A row's prompt; None where its bytes are gone."""
    try:
        return fetch_texts(seat.index, seat.snapshot, row).get("prompt")
    except (RLPanelError, IndexError):
        return None


def _match(here: ComparedRun, there: ComparedRun, keys: Keys) -> PromptPairs:
    return pair(side(here.snapshot, here.at, keys), side(there.snapshot, there.at, keys))


def _asked(seat: ComparedRun) -> dict[int, int]:
    """A row of each prompt, by the prompt's hash."""
    rows = rows_at(seat.snapshot, seat.at)
    hashes, first = np.unique(seat.snapshot.place("prompt_hash")[rows], return_index=True)
    return dict(zip(hashes.tolist(), rows[first].tolist(), strict=True))
