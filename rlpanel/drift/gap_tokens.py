"""Reads the tokens of a run's samples that have logprobs of both trainer and engine, as flat arrays.

At most `MAX_SAMPLES` samples of at most `MAX_STEPS` steps are read, in even distances over the run. What was
left out is counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rlpanel.drift.expert_load import ExpertLoad
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.metrics.logged_arrays import shifts
from rlpanel.sources.records.record_types import Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.snapshot.snapshot import Snapshot

#: Most samples, steps and tokens that are read.
MAX_SAMPLES, MAX_STEPS, MAX_TOKENS = 768, 24, 4_000_000
#: Seconds between two progress results.
PULSE = 0.25
#: Most values of a label that is a place, such as an engine or an environment.
MAX_PLACES = 64
#: Labels that describe the outcome of a sample and not its place.
NO_PLACES = frozenset({
    "group", "split", "status", "status_reason", "finish_reason", "episode", "trajectory", "field_remarks",
})  # fmt: skip
#: Names of numbers that are the id of a place and measure nothing, such as ``engine_id`` and ``batch_index``.
_PLACE_IDS = re.compile(
    r"(?:.*[._])?(?:engine|worker|server|replica|node|host|gpu|device|shard|actor|batch|micro_?batch|env"
    r"|environment|machine|instance|process|pod|slot|lane|cluster|partition|dp|tp|pp|ep)"
    r"(?:[._]?(?:id|index|idx|rank|number|no))?"
)

#: Columns of tokens by the fields that the trainer logs.
_LOGGED = {"dropped": "is_masked", "weight": "correction_weights", "routing": "routing_mismatch"}


@dataclass(frozen=True)
class GapTokens:
    """Tokens that have a finite logprob of both trainer and engine.

    Attributes
    ----------
    trainer, engine : ndarray of float, shape (T,)
        Logprobs in nats.
    entropy : ndarray of float, shape (T,)
        Entropy of the trainer's distribution in nats; NaN where it is not logged.
    trained : ndarray of bool, shape (T,)
        Whether the token takes part in the loss.
    position, turn, in_turn : ndarray of int, shape (T,)
        Position in the response, index of the turn, and position in the turn, from 0. A turn is a stretch
        of trained tokens.
    age : ndarray of float, shape (T,)
        Updates between the weights that sampled the token and those of the trainer; NaN where not logged.
    token : ndarray of int, shape (T,)
        Index in ``tokens``; -1 where no tokens are logged.
    dropped, weight, routing : ndarray of float, shape (T,)
        What the trainer logged: 1 for a token that its correction took out of the loss, the weight that it
        gave, and the share of layers with other experts. NaN where it is not logged.
    sample : ndarray of int, shape (T,)
        Index of the token's sample.
    rows, steps, ranks : ndarray of int, shape (N,)
        Row, step and rank of each sample.
    rewards : ndarray of float, shape (N,)
        Reward of each sample; NaN where it is not logged.
    labels : dict of str to list
        Labels that have a few values, by name: one value or None per sample.
    other_numbers : tuple of str
        Numbers of the run's own that have a few whole values, and may be places, but are not compared.
    tokens : list of str
        Strings of the tokens.
    shift : ndarray of float, shape (N,)
        Gain of correlation by a shift of one token, see `rlpanel.metrics.logged_arrays.shifts`.
    read, total : int
        Samples that were read, and samples of the run.
    unreadable, without, unequal, unscored : int
        Samples whose line changed meanwhile, samples without both arrays, samples whose arrays differ in
        length, and tokens without a finite logprob of both.
    has_mask : bool
        Whether a loss mask is logged.
    experts : ExpertLoad
        Load of the experts of all samples that were read.
    """

    trainer: np.ndarray
    engine: np.ndarray
    entropy: np.ndarray
    trained: np.ndarray
    position: np.ndarray
    turn: np.ndarray
    in_turn: np.ndarray
    age: np.ndarray
    token: np.ndarray
    dropped: np.ndarray
    weight: np.ndarray
    routing: np.ndarray
    sample: np.ndarray
    rows: np.ndarray
    steps: np.ndarray
    ranks: np.ndarray
    rewards: np.ndarray
    labels: dict[str, list[str | None]]
    other_numbers: tuple[str, ...]
    tokens: list[str]
    shift: np.ndarray
    read: int
    total: int
    unreadable: int = 0
    without: int = 0
    unequal: int = 0
    unscored: int = 0
    has_mask: bool = False
    experts: ExpertLoad = field(default_factory=ExpertLoad)

    @cached_property
    def gap(self) -> np.ndarray:
        """Trainer's logprob minus the engine's, shape (T,), in nats."""
        return self.trainer - self.engine

    def only(self, keep: np.ndarray) -> GapTokens:
        """Return the tokens of a mask, shape (T,)."""
        names = ("trainer", "engine", "entropy", "trained", "position", "turn", "in_turn", "age", "token")
        columns = {name: getattr(self, name)[keep] for name in (*names, *_LOGGED, "sample")}
        return replace(self, **columns)


@dataclass
class _Reader:
    """Collects the tokens of samples."""

    codes: dict[str, int] = field(default_factory=dict)
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    versions: list[np.ndarray] = field(default_factory=list)
    trainer_versions: list[float] = field(default_factory=list)
    unreadable: int = 0
    without: int = 0
    unequal: int = 0
    unscored: int = 0
    size: int = 0
    has_mask: bool = False
    experts: ExpertLoad = field(default_factory=ExpertLoad)

    def add(self, row: int, record: Record) -> None:
        """Add the tokens of a sample."""
        self.experts.add(record.experts)
        trainer, engine = record.arrays.get("logprobs"), record.arrays.get("rollout_logprobs")
        if trainer is None or engine is None or not len(trainer):
            self.without += 1
            return
        if len(trainer) != len(engine):
            self.unequal += 1
            return
        count = len(trainer)
        mask = _as_long(record.arrays.get("loss_mask"), count)
        self.has_mask |= mask is not None
        trained = np.ones(count, bool) if mask is None else mask != 0
        turn, in_turn = turns_of(trained)
        names = record.tokens if record.tokens is not None and len(record.tokens) == count else None
        entropy = _as_long(record.arrays.get("entropy"), count)
        scored = np.isfinite(trainer) & np.isfinite(engine)
        self.unscored += int((~scored).sum())
        columns = {
            "trainer": trainer,
            "engine": engine,
            "entropy": np.full(count, np.nan) if entropy is None else entropy,
            "trained": trained,
            "position": np.arange(count),
            "turn": turn,
            "in_turn": in_turn,
            "version": _versions(record, count),
            "token": np.full(count, -1)
            if names is None
            else np.array([self.codes.setdefault(name, len(self.codes)) for name in names]),
            "sample": np.full(count, len(self.rows)),
        }
        for name, field_name in _LOGGED.items():
            logged = _as_long(record.arrays.get(field_name), count)
            columns[name] = np.full(count, np.nan) if logged is None else logged.astype(float)
        for name, column in columns.items():
            self.columns.setdefault(name, []).append(column[scored])
        self.trainer_versions.append(record.numbers.get("trainer_version", np.nan))
        self.rows.append(row)
        self.size += count

    def column(self, name: str) -> np.ndarray:
        """Return the values of a column for all tokens."""
        parts = self.columns.get(name)
        return np.concatenate(parts) if parts else np.empty(0)


def _as_long(array: np.ndarray | None, count: int) -> np.ndarray | None:
    return array if array is not None and len(array) == count else None


def _versions(record: Record, count: int) -> np.ndarray:
    """Return the version of the policy that sampled each token; NaN where it is not logged.

    If only the first and the last version are logged, the first one counts for all tokens. A negative version
    of a token marks one that no policy sampled, as in AReaL's ``versions``.
    """
    logged = _as_long(record.arrays.get("token_version"), count)
    if logged is not None:
        return np.where(logged >= 0, logged, np.nan)
    versions = () if record.agent is None else record.agent.policy_versions
    if not versions:
        return np.full(count, np.nan)
    if any(tokens < 0 for _, tokens in versions):
        return np.full(count, float(versions[0][0]))
    each = np.repeat([float(version) for version, _ in versions], [tokens for _, tokens in versions])
    return each if len(each) == count else np.full(count, np.nan)


def turns_of(trained: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the turn of each token, and its position in the turn.

    A turn begins with the first trained token after others; tokens before it belong to the turn before.

    Parameters
    ----------
    trained : ndarray of bool, shape (T,)

    Returns
    -------
    turn, in_turn : ndarray of int, shape (T,)
    """
    begins = trained & ~np.concatenate([[False], trained[:-1]])
    turn = np.maximum(np.cumsum(begins) - 1, 0)
    at = np.arange(len(trained))
    start = np.maximum.accumulate(np.where(begins, at, 0))
    return turn, at - start


def chosen_rows(snapshot: Snapshot, most: int = MAX_SAMPLES) -> np.ndarray:
    """Return the rows to read: the same number of samples of each of some steps, even over the run."""
    values = snapshot.steps.values
    if not len(values):
        return np.empty(0, np.int64)
    steps = values[
        np.unique(np.linspace(0, len(values) - 1, min(MAX_STEPS, len(values))).round().astype(int))
    ]
    each = max(most // len(steps), 1)
    return np.concatenate([snapshot.sampled_rows(int(step), each) for step in steps])


def read_gap_tokens(index: RunIndex, snapshot: Snapshot, rows: np.ndarray) -> Iterator[GapTokens | int]:
    """Read the tokens of rows; yield how many samples were read, now and then, and last the tokens."""
    reader, read, last = _Reader(), 0, time.monotonic()
    for row in rows.tolist():
        read += 1
        try:
            record = fetch_record(index, snapshot, row)
        except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
            reader.unreadable += 1
            continue
        reader.add(row, record)
        if reader.size > MAX_TOKENS:
            break
        if time.monotonic() - last > PULSE:
            last = time.monotonic()
            yield read
    yield _gap_tokens(snapshot, reader, read)


def _gap_tokens(snapshot: Snapshot, reader: _Reader, read: int) -> GapTokens:
    kept = np.array(reader.rows, np.int64)
    sample = reader.column("sample").astype(np.int64)
    steps = snapshot.metadata("step")[kept]
    labels, other_numbers = _places(snapshot, kept)
    whole = {name: reader.column(name).astype(np.int64) for name in ("position", "turn", "in_turn", "token")}
    trainer, engine = reader.column("trainer"), reader.column("engine")
    rewards = snapshot.number("reward")[kept] if snapshot.has_number("reward") else np.full(len(kept), np.nan)
    return GapTokens(
        trainer=trainer,
        engine=engine,
        entropy=reader.column("entropy"),
        trained=reader.column("trained").astype(bool),
        age=_ages(reader.column("version"), np.array(reader.trainer_versions), steps, sample),
        **{name: reader.column(name).astype(float) for name in _LOGGED},
        sample=sample,
        rows=kept,
        steps=steps,
        ranks=snapshot.metadata("rank")[kept],
        rewards=rewards,
        labels=labels,
        other_numbers=other_numbers,
        tokens=list(reader.codes),
        shift=_shift(trainer, engine, sample, len(kept)),
        read=read,
        total=snapshot.samples,
        unreadable=reader.unreadable,
        without=reader.without,
        unequal=reader.unequal,
        unscored=reader.unscored,
        has_mask=reader.has_mask,
        experts=reader.experts,
        **whole,
    )


def _places(snapshot: Snapshot, rows: np.ndarray) -> tuple[dict[str, list[str | None]], tuple[str, ...]]:
    """Return the values of labels and ids by name, and the names of other numbers with a few whole values.

    Such a number may count an outcome, as attempts do, so it is named and not compared.
    """
    labels, others = {}, []
    for name in snapshot.labels:
        values = snapshot.label(name, rows)
        if name not in NO_PLACES and 2 <= len(set(values)) <= MAX_PLACES:
            labels[name] = values
    for name in snapshot.numbers:
        # A reward or a count of the library's own is known to be none.
        if name in labels or "/" in name or describe(name).definition.quantity:
            continue
        numbers = snapshot.number(name)[rows]
        whole = np.isnan(numbers) | (numbers == numbers // 1)
        if not 2 <= len(np.unique(numbers[np.isfinite(numbers)])) <= MAX_PLACES:
            continue
        if _PLACE_IDS.fullmatch(name):
            labels[name] = [f"{each:.0f}" if each == each // 1 else None for each in numbers.tolist()]
        elif whole.all():
            others.append(name)
    return labels, tuple(others)


def _shift(trainer: np.ndarray, engine: np.ndarray, sample: np.ndarray, count: int) -> np.ndarray:
    lengths, found = np.bincount(sample, minlength=count), np.full(count, np.nan)
    if lengths.any():
        found[lengths > 0] = shifts(trainer, engine, lengths[lengths > 0])
    return found


def _ages(version: np.ndarray, trainer: np.ndarray, steps: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Return the age of the weights of each token.

    Where the trainer's version is not logged, the newest version in the step stands for it.
    """
    if not len(version):
        return version
    newest = np.full(len(steps), -np.inf)
    np.maximum.at(newest, sample, np.where(np.isnan(version), -np.inf, version))
    _, at = np.unique(steps, return_inverse=True)
    of_step = np.full(at.max() + 1, -np.inf)
    np.maximum.at(of_step, at, newest)
    now = np.where(np.isnan(trainer), of_step[at], trainer)[sample]
    return np.where(np.isfinite(now), now - version, np.nan)
