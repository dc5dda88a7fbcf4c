"""Matches the prompts of two runs: by exact text, then by text without chat template and padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlpanel.board_url import NEWEST
from rlpanel.errors import RLPanelError
from rlpanel.metrics.win_rate import WinRate, win_rate_of
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_texts
from rlpanel.store.snapshot.alignment import ComparedReward, compared_reward
from rlpanel.store.snapshot.prompt_pairs import (
    Keys,
    PromptPairs,
    candidate_rows,
    exact_keys,
    pair_prompts,
    run_side,
    text_keys,
)
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.prompt_parts import TextStyle, without_system

if TYPE_CHECKING:
    import pandas as pd

#: Maximum number of prompts of a run whose texts are read to match them without chat template.
MAX_READ = 4000
#: Maximum number of listed prompts: half with the lowest, half with the highest difference.
MAX_LISTED = 500

#: The compared number of each sample of the two runs.
Rewards = tuple[np.ndarray, np.ndarray]

EXACT = "Matched by exact text"
BY_WORDS = "Matched by text without chat template, padding and whitespace"
TOO_MANY = f"Matched by exact text; chat templates are removed only up to {MAX_READ:,} prompts"


@dataclass(frozen=True)
class ComparedRun:
    """A run in the comparison, and the choice of its samples (``at``, see `board_url.NEWEST`)."""

    index: RunIndex
    view: RunView
    at: str = NEWEST

    @property
    def snapshot(self) -> Snapshot:
        """The run's data."""
        return self.view.snapshot


@dataclass(frozen=True)
class RunComparison:
    """Result of comparing two runs.

    Attributes
    ----------
    here, there : ComparedRun
        The selected run and the run it is compared with.
    reward : ComparedReward
        The number that is compared; all rewards and differences of ``pairs`` are this number.
    pairs : PromptPairs
    how : str
        Description of the way prompts were matched.
    listed : ndarray of int, shape (L,)
        Indices of the listed pairs, by ascending difference.
    prompts : list of str
        Prompts of the listed pairs, as logged.
    """

    here: ComparedRun
    there: ComparedRun
    reward: ComparedReward
    pairs: PromptPairs
    how: str
    listed: np.ndarray
    prompts: list[str]

    @property
    def rate(self) -> WinRate:
        """Win rate and mean difference over the prompts by which no step was chosen."""
        return win_rate_of(self.pairs.difference[self.pairs.held_out])


class Prompts:
    """Cache of prompt texts by their hash, for one pair of runs.

    Parameters
    ----------
    style : TextStyle
    max_read : int
        Most prompts of one run whose texts are read.
    """

    def __init__(self, style: TextStyle, max_read: int = MAX_READ) -> None:
        self._style, self.max_read = style, max_read
        self._texts: dict[int, str] = {}

    def keys(self, runs: tuple[ComparedRun, ComparedRun], rewards: Rewards) -> Keys | None:
        """Return match keys by prompt text without template; None if a run has too many prompts to read."""
        row_of = [_row_by_prompt(run, values) for run, values in zip(runs, rewards, strict=True)]
        if max(map(len, row_of)) > self.max_read:
            return None
        for run, rows in zip(runs, row_of, strict=True):
            for key, row in rows.items():
                if key not in self._texts:
                    self._texts[key] = prompt_of(run, row) or ""
        hashes = {key for rows in row_of for key in rows if self._texts[key]}
        return text_keys({key: without_system(self._texts[key], self._style) for key in hashes})

    def text(self, run: ComparedRun, row: int) -> str:
        """Return the prompt of a row."""
        key = int(run.snapshot.metadata("prompt_hash")[row])
        if key not in self._texts:
            self._texts[key] = prompt_of(run, row) or ""
        return self._texts[key]


def compare_runs(
    here: ComparedRun, there: ComparedRun, prompts: Prompts, max_listed: int = MAX_LISTED
) -> Iterator[RunComparison]:
    """Yield the comparison: a single result, as `BackgroundTask` expects an iterator."""
    reward = compared_reward(here.snapshot, there.snapshot)
    runs, rewards = (here, there), (reward.values(here.snapshot), reward.values(there.snapshot))
    pairs, how = _match(runs, rewards, exact_keys), EXACT
    if pairs.only_here and pairs.only_there:
        keys = prompts.keys(runs, rewards)
        how = TOO_MANY if keys is None else how
        by_text = pairs if keys is None else _match(runs, rewards, keys)
        if len(by_text) > len(pairs) or by_text.only_here + by_text.only_there < (
            pairs.only_here + pairs.only_there
        ):
            pairs, how = by_text, BY_WORDS
    listed = np.argsort(pairs.difference, kind="stable")
    if len(listed) > max_listed:
        listed = np.concatenate([listed[: max_listed // 2], listed[-max_listed // 2 :]])
    texts = [prompts.text(here, row) for row in pairs.here.row[listed].tolist()]
    yield RunComparison(here, there, reward, pairs, how, listed, texts)


def pairs_frame(comparison: RunComparison, prompts: Prompts) -> pd.DataFrame:
    """Return one row per prompt, by ascending difference; ``against_`` marks columns of the other run.

    Rewards are the compared number. Each ``uid`` is the sample that represents the prompt. Prompts by which a
    best step was chosen are not ``in_win_rate``. The prompt texts are left out if there are more
    than ``prompts`` may read.
    """
    import pandas as pd

    pairs, columns = comparison.pairs, dict[str, object]()
    sides = ((comparison.here, pairs.here, ""), (comparison.there, pairs.there, "against_"))
    for run, side, prefix in sides:
        numbers = {"reward": side.reward, "samples": side.samples, "step": side.step}
        columns |= {f"{prefix}{name}": values for name, values in numbers.items()}
        columns[f"{prefix}uid"] = run.snapshot.uids(side.row)
    columns["difference"] = pairs.difference
    columns["in_win_rate"] = pairs.held_out
    if len(pairs) <= prompts.max_read:
        columns["prompt"] = [prompts.text(comparison.here, row) for row in pairs.here.row.tolist()]
    return pd.DataFrame(columns).sort_values("difference", kind="stable", ignore_index=True)


def prompt_of(run: ComparedRun, row: int) -> str | None:
    """Return the prompt of a row; None if its line can no longer be read."""
    try:
        return fetch_texts(run.index, run.snapshot, row).get("prompt")
    except (RLPanelError, IndexError):
        return None


def _match(runs: tuple[ComparedRun, ComparedRun], rewards: Rewards, keys: Keys) -> PromptPairs:
    here, there = (
        run_side(run.snapshot, run.at, values, keys) for run, values in zip(runs, rewards, strict=True)
    )
    return pair_prompts(here, there)


def _row_by_prompt(run: ComparedRun, reward: np.ndarray) -> dict[int, int]:
    """Return one row of each prompt, by the prompt's hash."""
    rows = candidate_rows(run.snapshot, run.at, reward)
    hashes, first = np.unique(run.snapshot.metadata("prompt_hash")[rows], return_index=True)
    return dict(zip(hashes.tolist(), rows[first].tolist(), strict=True))
