"""Rules on ranks that repeat samples: those of another rank, or their own of the step before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.block_tables import MEAN, SAMPLES
from rlpanel.findings.engine.change import percent, span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import long_stretches, mark, signal
from rlpanel.store.snapshot.snapshot import Snapshot

#: Shorter responses repeat by chance.
_SHORTEST = 16
#: Share of a rank's samples that repeats others.
_REPEATED = 0.5
#: Steps in a row.
_STEPS = 2


def _keys(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return a hash of prompt and response of each row, shape (N,)."""
    prompt, response = (snapshot.metadata(name)[rows] for name in ("prompt_hash", "response_hash"))
    return prompt ^ (response * np.uint64(3))


def _known(rows: RowBatch) -> np.ndarray:
    """Return the mask of rows whose response is long enough to be compared, shape (N,)."""
    return rows.number("response_chars") >= _SHORTEST


@signal("equals_lower_rank", "response_chars")
def _equals_lower_rank(rows: RowBatch) -> np.ndarray:
    """Mark samples that a lower rank has in the same step."""
    key, rank = _keys(rows.view.snapshot, rows.rows), rows.metadata("rank")
    order = np.lexsort((rank, key, rows.position))
    sorted_key, sorted_step = key[order], rows.position[order]
    first = np.append(True, (np.diff(sorted_step) != 0) | (sorted_key[1:] != sorted_key[:-1]))[: len(order)]
    lowest = np.empty_like(rank)
    lowest[order] = rank[order][np.flatnonzero(first)][np.cumsum(first) - 1]
    # Where a rank repeats its own samples, too, all responses are alike and no rank copies another.
    own = np.append(False, (np.diff(rank[order]) == 0) & ~first[1:])[: len(order)]
    repeated = np.empty(len(order), bool)
    repeated[order] = own | np.append(own[1:], False)[: len(order)]
    return mark((lowest < rank) & ~repeated, _known(rows))


@signal("equals_step_before", "response_chars")
def _equals_step_before(rows: RowBatch) -> np.ndarray:
    """Mark samples that the same rank has in the step before."""
    snapshot, around = rows.view.snapshot, rows.with_step_before()
    every = snapshot.steps.values
    step, rank = (snapshot.metadata(name) for name in ("step", "rank"))
    known = _triples(_keys(snapshot, around), rank[around], np.searchsorted(every, step[around]))
    wanted = _triples(
        _keys(snapshot, rows.rows), rank[rows.rows], np.searchsorted(every, step[rows.rows]) - 1
    )
    return mark(np.isin(wanted, known), _known(rows))


def _triples(key: np.ndarray, rank: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return a hash of key, rank and step, shape (N,)."""
    mixed = (rank.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= (step.astype(np.int64) + 1).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    return key.astype(np.uint64) ^ mixed


@rule("Rank repeats another rank")
def rank_repeats(context: RuleContext) -> Iterator[Finding]:
    """Half of a rank's samples equal samples of a lower rank in the same step, two steps in a row.

    Prompt and response must be equal, and the response must have at least 16 characters. Lines that are equal
    in all fields count here, although they count once elsewhere.
    """
    names, ranks = context.ranks()
    if not names or not context.available(_equals_lower_rank):
        return
    table = context.table(_equals_lower_rank)[:, ranks]
    copies = _copied_lines(context, names)
    with np.errstate(all="ignore"):
        total = np.nan_to_num(table[SAMPLES]) + copies
        share = np.nan_to_num((np.nan_to_num(table[MEAN] * table[SAMPLES]) + copies) / total)
    for rank, name in enumerate(names):
        mask = long_stretches(share[rank] >= _REPEATED, min(_STEPS, share.shape[1]))
        if mask.any():
            source = _source(context, int(name), mask)
            yield _finding(
                context,
                mask,
                share[rank],
                f"Rank {name} repeats the samples of {source} in {span(context.steps, mask)}.",
                "Check the seed and the data shard of each rank.",
                name,
            )


@rule("Rank repeats itself")
def rank_stale(context: RuleContext) -> Iterator[Finding]:
    """Half of a rank's samples equal its own samples of the step before, two steps in a row.

    Prompt and response must be equal, and the response must have at least 16 characters.
    """
    if not context.available(_equals_step_before):
        return
    means = np.nan_to_num(context.table(_equals_step_before)[MEAN])
    names, ranks = context.ranks()
    whole, shares = means[0], means[ranks]
    least = min(_STEPS, len(whole))
    stale = [long_stretches(share >= _REPEATED, least) for share in shares]
    found = [rank for rank, mask in enumerate(stale) if mask.any()]
    advice = "Check whether the engine still generates, and with new weights."
    if found and len(found) < len(names):
        for rank in found:
            where = span(context.steps, stale[rank])
            sentence = f"Rank {names[rank]} repeats its samples of the step before in {where}."
            yield _finding(context, stale[rank], shares[rank], sentence, advice, names[rank])
        return
    mask = long_stretches(whole >= _REPEATED, least)
    if mask.any():
        sentence = f"The samples of {span(context.steps, mask)} repeat those of the step before."
        yield _finding(context, mask, whole, sentence, advice, "")


def _finding(
    context: RuleContext, mask: np.ndarray, share: np.ndarray, sentence: str, advice: str, rank: str
) -> Finding:
    return Finding(
        severity=severity_of(context, mask, harmful=True),
        sentence=sentence,
        evidence=(f"{percent(float(share[mask].mean()))} of the samples are equal in prompt and response.",),
        advice=advice,
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        worst=int(context.steps[int(np.argmax(np.where(mask, share, -1)))]),
        rank=int(rank) if rank else None,
        where=f"rank == {rank}" if rank else "",
        subject=rank,
    )


def _copied_lines(context: RuleContext, names: list[str]) -> np.ndarray:
    """Return how many lines of each rank and step equal an earlier line in all fields, shape (R, S)."""
    snapshot = context.snapshot
    rows = snapshot.duplicate_rows
    rank, step = (snapshot.metadata(name)[rows] for name in ("rank", "step"))
    ranks = np.array([int(name) for name in names])
    inside = np.isin(rank, ranks) & np.isin(step, context.steps)
    cell = np.searchsorted(ranks, rank[inside]) * len(context.steps)
    cell += np.searchsorted(context.steps, step[inside])
    counts = np.bincount(cell, minlength=len(ranks) * len(context.steps))
    return counts.reshape(len(ranks), len(context.steps)).astype(float)


def _source(context: RuleContext, rank: int, mask: np.ndarray) -> str:
    """Return which lower rank has most of a rank's samples in the marked steps, in words."""
    snapshot = context.snapshot
    rows = np.sort(np.concatenate([context.rows, snapshot.duplicate_rows]))
    rows = rows[np.isin(snapshot.metadata("step")[rows], context.steps[mask])]
    ranks, key = snapshot.metadata("rank")[rows], _keys(snapshot, rows)
    others = [
        (int(np.isin(key[ranks == rank], key[ranks == other]).sum()), -int(other))
        for other in np.unique(ranks[ranks < rank]).tolist()
    ]
    return f"rank {-max(others)[1]}" if others else "another rank"
