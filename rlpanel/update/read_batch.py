"""Reads the samples of some steps from a run's lines as a batch, group by group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlpanel.drift.gap_tokens import MAX_PLACES, NO_PLACES, PULSE
from rlpanel.errors import RLPanelError
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.sources.records.record_types import Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.update.update_batch import BatchReading, UpdateBatch

#: Most tokens that are read; of more, whole groups are left out.
MAX_TOKENS = 20_000_000
#: Characters of a token where a run logs only texts.
_CHARS = 4
#: Field of a batch → array of a record.
_ARRAYS = {
    "logprobs": "logprobs",
    "old": "old_logprobs",
    "new": "new_logprobs",
    "engine": "rollout_logprobs",
    "reference": "ref_logprobs",
    "advantages": "advantages",
}
#: Arrays that say how long a sample is, most trusted first.
_LENGTHS = ("logprobs", "old_logprobs", "new_logprobs", "rollout_logprobs", "loss_mask", "advantages")


@dataclass
class _BatchReader:
    """Collects the arrays of samples."""

    codes: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, list[np.ndarray | None]] = field(default_factory=dict)
    masks: list[np.ndarray] = field(default_factory=list)
    tokens: list[np.ndarray | None] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    size: int = 0
    unreadable: int = 0
    without_tokens: int = 0
    unequal: int = 0
    lengths_from_text: int = 0
    has_mask: bool = False

    def add(self, at: int, record: Record) -> None:
        """Add a sample."""
        count = self._count(record)
        if not count:
            self.without_tokens += 1
            return
        mask = self._fitting(record, "loss_mask", count)
        self.has_mask |= mask is not None
        self.masks.append(np.ones(count, bool) if mask is None else mask != 0)
        for name, key in _ARRAYS.items():
            array = self._fitting(record, key, count)
            self.arrays.setdefault(name, []).append(None if array is None else array.astype(np.float32))
        codes, names = self.codes, record.tokens
        if names is not None and len(names) == count:
            found = np.fromiter((codes.setdefault(name, len(codes)) for name in names), np.int32, count)
            self.tokens.append(found)
        else:
            self.tokens.append(None)
        self.counts.append(count)
        self.kept.append(at)
        self.size += count

    def _count(self, record: Record) -> int:
        if record.tokens:
            return len(record.tokens)
        for name in _LENGTHS:
            if name in record.arrays and len(record.arrays[name]):
                return len(record.arrays[name])
        logged = record.numbers.get("response_tokens", float("nan"))
        if logged > 0 and np.isfinite(logged):
            return int(logged)
        response = record.texts.get("response", "")
        self.lengths_from_text += bool(response)
        return -(-len(response) // _CHARS)

    def _fitting(self, record: Record, name: str, count: int) -> np.ndarray | None:
        array = record.arrays.get(name)
        if array is None:
            return None
        self.unequal += len(array) != count
        return array if len(array) == count else None

    def flat(self, pieces: list[np.ndarray | None]) -> np.ndarray | None:
        """Return the arrays of all samples, concatenated; None if no sample has one. Empties the list."""
        if not any(piece is not None for piece in pieces):
            return None
        found = np.full(self.size, np.nan, np.float32)
        at = 0
        for count, piece in zip(self.counts, pieces, strict=True):
            if piece is not None:
                found[at : at + count] = piece
            at += count
        pieces.clear()
        return found

    def flat_tokens(self) -> np.ndarray | None:
        """Return the codes of all tokens; -1 where a sample has none, and None if none has."""
        if not any(piece is not None for piece in self.tokens):
            return None
        pairs = zip(self.counts, self.tokens, strict=True)
        return np.concatenate([np.full(n, -1, np.int32) if each is None else each for n, each in pairs])


def rows_by_group(view: RunView, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in the order of their groups, and the index of each one's group; shape (N,) both."""
    steps = np.unique(view.snapshot.metadata("step")[rows])
    group = RowBatch(view, rows, steps).group
    order = np.lexsort((rows, group))
    return rows[order], np.asarray(group[order], np.int64)


def read_update_batch(
    index: RunIndex, view: RunView, rows: np.ndarray, most_tokens: int = MAX_TOKENS
) -> Iterator[UpdateBatch | int]:
    """Read rows; yield how many samples were read, now and then, and last the batch.

    If there are more than ``most_tokens`` tokens, groups in even distances are read; the reading says how
    many samples were left out.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    rows : ndarray of int, shape (N,)
        Rows of the snapshot, ascending.
    most_tokens : int
    """
    snapshot = view.snapshot
    total = len(rows)
    rows, group = rows_by_group(view, rows)
    rows, group = _limited(snapshot, rows, group, most_tokens)
    reader, last = _BatchReader(), time.monotonic()
    for at, row in enumerate(rows.tolist()):
        try:
            record = fetch_record(index, snapshot, row)
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            reader.unreadable += 1
            continue
        reader.add(at, record)
        if time.monotonic() - last > PULSE:
            last = time.monotonic()
            yield at + 1
    yield _batch(view, reader, rows, group, total)


def _limited(
    snapshot: Snapshot, rows: np.ndarray, group: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of whole groups in even distances, with at most about so many tokens."""
    if not snapshot.has_number("response_tokens") or not len(rows):
        return rows, group
    length = np.nan_to_num(snapshot.number("response_tokens")[rows])
    wanted = float(length.sum()) / most
    if wanted <= 1:
        return rows, group
    number = int(group.max()) + 1
    chosen = np.unique(np.linspace(0, number - 1, max(int(number / wanted), 1)).round().astype(int))
    keep = np.isin(group, chosen)
    return rows[keep], group[keep]


def _batch(
    view: RunView, reader: _BatchReader, rows: np.ndarray, group: np.ndarray, total: int
) -> UpdateBatch:
    snapshot = view.snapshot
    kept = np.array(reader.kept, np.int64)
    read, rows = len(rows), rows[kept]
    _, group = np.unique(group[kept], return_inverse=True)
    flat = {name: reader.flat(pieces) for name, pieces in reader.arrays.items()}
    logprobs = flat.pop("logprobs", None)
    old, new = flat.pop("old", None), flat.pop("new", None)
    # The names of the two sides of an update, as in `rlpanel.metrics.engine.derived_arrays`.
    if new is None:
        new, logprobs = logprobs, None
    elif old is None:
        old = logprobs
    mask = np.concatenate(reader.masks) if reader.masks else np.empty(0, bool)
    episode, outcome, reward = _episodes(snapshot, rows)
    parts = {
        name.removeprefix("rewards/"): snapshot.number(name)[rows]
        for name in snapshot.numbers
        if name.startswith("rewards/")
    }
    labels = {}
    for name in snapshot.labels:
        values = snapshot.label(name, rows)
        if name not in NO_PLACES and 2 <= len(set(values)) <= MAX_PLACES:
            labels[name] = values
    number: dict[str, np.ndarray] = {
        name: _number(snapshot, name, rows) for name in ("advantage", "truncated")
    }
    unscored = sum(
        int((~np.isfinite(array) & mask).sum())
        for array in (flat.get("engine"), flat.get("reference"), old, new)
        if array is not None
    )
    return UpdateBatch(
        counts=np.array(reader.counts, np.int64),
        group=group.astype(np.int64),
        reward=reward,
        mask=mask,
        episode=episode,
        outcome=outcome,
        old=old,
        new=new,
        token=reader.flat_tokens(),
        tokens=list(reader.codes),
        rows=rows,
        steps=snapshot.metadata("step")[rows],
        ranks=snapshot.metadata("rank")[rows],
        prompts=np.unique(snapshot.prompts(rows), return_inverse=True)[1],
        parts=parts,
        part_weights=declared_weights(snapshot, list(parts)),
        labels=labels,
        reading=BatchReading(
            read=read,
            total=total,
            unreadable=reader.unreadable,
            without_tokens=reader.without_tokens,
            unequal=reader.unequal,
            unscored=unscored,
            lengths_from_text=reader.lengths_from_text,
            has_mask=reader.has_mask,
            has_critic=snapshot.has_number("value_mean"),
            is_grouped=view.grouped,
        ),
        engine=flat.get("engine"),
        reference=flat.get("reference"),
        advantages=flat.get("advantages"),
        **number,
    )


def declared_weights(snapshot: Snapshot, parts: Sequence[str]) -> dict[str, float]:
    """Return the weights that the run logs for parts of the reward, by part."""
    declared = snapshot.constants.get("reward_weights")
    if not isinstance(declared, Mapping):
        return {}
    return {name: float(declared[name]) for name in parts if name in declared}


def _number(snapshot: Snapshot, name: str, rows: np.ndarray) -> np.ndarray:
    return snapshot.number(name)[rows] if snapshot.has_number(name) else np.full(len(rows), np.nan)


def _episodes(snapshot: Snapshot, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return index of each row's episode, the rows whose outcome counts, and the reward of the episode."""
    reward = _number(snapshot, "reward", rows)
    further = snapshot.further
    outcome = np.ones(len(rows), bool) if further is None else ~further[rows]
    if not snapshot.has_episodes:
        return np.arange(len(rows)), outcome, reward
    codes = snapshot.label_codes("episode")[0][rows].astype(np.int64)
    # Rows without an episode stay alone.
    codes = np.where(codes >= 0, codes, -1 - np.arange(len(rows)))
    steps = snapshot.metadata("step")[rows]
    _, episode = np.unique(np.stack([steps, codes]), axis=1, return_inverse=True)
    last = np.full(int(episode.max()) + 1 if len(episode) else 0, np.nan)
    last[episode[outcome]] = reward[outcome]
    return episode.ravel(), outcome, last[episode.ravel()]
