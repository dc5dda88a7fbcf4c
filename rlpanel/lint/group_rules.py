"""Lint rules on groups and prompts, from the columns of whole steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpanel.findings.engine.signal import SIGNALS, RowBatch, mark
from rlpanel.findings.rules import prompt_data  # noqa: F401  registers the signal
from rlpanel.lint.lint_rule import Marks, lint_rule
from rlpanel.metrics.engine.trainer_names import count
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.snapshot.step_metric_cache import NO_TEXT

_PART = "groups and prompts"
#: Surprisal in nats of a response that does not occur twice by chance: below 2⁻³⁰ per pair.
_RARE = 21.0
#: Characters of such a response where no logprobs are logged.
_LONG = 200
#: Share of the groups that have the usual size, from which on another size is a fault.
_USUAL = 0.8


def _sizes(rows: RowBatch) -> np.ndarray:
    """Return the number of samples of each row's group; of episodes with several samples, of episodes."""
    outcome = rows.has_outcome.astype(float)
    return np.bincount(rows.group, outcome)[rows.group]


def _logged(rows: RowBatch) -> np.ndarray:
    """Return a mask of the rows of logged groups; none of an evaluation, whose samples are not compared."""
    codes, split = rows.view.snapshot.group_codes, rows.view.snapshot.split
    return np.zeros(len(rows), bool) if codes is None or split != TRAIN else codes[rows.rows] >= 0


def _prompts(rows: RowBatch) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of each row's prompt, and a mask of those that log one."""
    hashes = rows.view.snapshot.prompts(rows.rows)
    return hashes, hashes != NO_TEXT


def named_size(logged: Mapping[str, Any]) -> int | None:
    """Return the size of a group that ``run.json`` names; None if it names none."""
    keys = ("num_generations", "group_size", "n_samples_per_prompt", "n")
    return next((size for key in keys if (size := count(logged, key)) is not None), None)


def usual_size(rows: RowBatch, logged: Mapping[str, Any]) -> int | None:
    """Return the size of a group: as ``run.json`` names it, else that of most groups; None without one."""
    if (named := named_size(logged)) is not None:
        return named
    grouped = _logged(rows) & rows.has_outcome
    if not grouped.any():
        return None
    sizes = np.bincount(rows.group[grouped])
    values, counts = np.unique(sizes[sizes > 0], return_counts=True)
    return int(values[counts.argmax()]) if counts.max() >= _USUAL * counts.sum() else None


@lint_rule("A group has one prompt", _PART, "group", "prompt", otherwise="group and prompt", scope="steps")
def one_prompt(rows: RowBatch) -> Marks:
    """Samples with one group id in a step have different prompts.

    Not of agents, nor of episodes with several samples, whose prompts differ by turn.
    """
    values = np.where(_logged(rows) & _prompts(rows)[1], SIGNALS["mixed_prompts"].values(rows), np.nan)
    return Marks(
        values, dict.fromkeys(np.flatnonzero(values == 1)[:10].tolist(), "several prompts in its group")
    )


@lint_rule(
    "A prompt has one group",
    _PART,
    "group",
    "prompt",
    otherwise="group and prompt, and num_generations in run.json: a prompt has several groups of equal size",
    scope="steps",
)
def one_group(rows: RowBatch) -> Marks:
    """A prompt of a step is in several groups, and one of them has fewer samples than most groups.

    Groups with as many samples as ``num_generations`` are a prompt that was drawn twice. Without it, whole
    groups of one prompt may be parts of a larger one.
    """
    hashes, has_prompt = _prompts(rows)
    known = _logged(rows) & has_prompt
    values = np.full(len(rows), np.nan)
    if not known.any() or rows.view.snapshot.has_episodes:
        return Marks(values)
    logged = rows.view.snapshot.constants.logged
    size = usual_size(rows, logged)
    order = np.lexsort((rows.group, hashes, rows.position))
    order = order[known[order]]
    new_prompt = np.ones(len(order), bool)
    new_prompt[1:] = (np.diff(hashes[order]) != 0) | (np.diff(rows.position[order]) != 0)
    new_group = np.ones(len(order), bool)
    new_group[1:] = new_prompt[1:] | (np.diff(rows.group[order]) != 0)
    prompt = np.cumsum(new_prompt) - 1
    groups = np.bincount(prompt, new_group)
    smallest = np.full(len(groups), np.inf)
    np.minimum.at(smallest, prompt, _sizes(rows)[order])
    # Groups of one sample each never compare anything, whatever most groups are like.
    part = np.maximum(smallest, 0) < (size or 0)
    split = (groups > 1) & (part | (smallest == 1))
    open_ = (groups > 1) & ~split if named_size(logged) is None else np.zeros(len(groups), bool)
    values[order] = np.where(open_, np.nan, split)[prompt]
    failed = order[split[prompt]][:10]
    details = {int(at): "its prompt is in several groups, one of them not whole" for at in failed}
    return Marks(values, details, unclear=int(open_[prompt].sum()))


@lint_rule(
    "A group is in one step",
    _PART,
    "group",
    "prompt",
    otherwise="group and prompt, and groups of one size",
    scope="steps",
    beside=True,
)
def one_step(rows: RowBatch) -> Marks:
    """A group is smaller than usual, and the rest of it, with its prompt, is in the step beside it.

    The two parts together are not larger than the usual group.
    """
    logged, size = _logged(rows), usual_size(rows, rows.view.snapshot.constants.logged)
    values = np.full(len(rows), np.nan)
    if size is None or size < 2 or rows.view.snapshot.has_episodes:
        return Marks(values)
    hashes, has_prompt = _prompts(rows)
    sizes, known = _sizes(rows), logged & has_prompt
    values[known] = 0
    partial = known & (sizes < size)
    codes = rows.view.snapshot.group_codes
    if not partial.any() or codes is None:
        return Marks(values)
    at = np.flatnonzero(partial)
    keys = np.stack([hashes[at], codes[rows.rows[at]].astype(np.uint64)])
    _, same = np.unique(keys, axis=1, return_inverse=True)
    same = same.reshape(-1)
    order = np.lexsort((rows.position[at], same))
    failed = np.zeros(len(at), bool)
    step, key, total = rows.position[at][order], same[order], sizes[at][order]
    border = np.flatnonzero((np.diff(key) == 0) & (np.diff(step) == 1))
    fits = border[total[border] + total[border + 1] <= size]
    for edge in fits.tolist():
        failed |= (same == key[edge]) & np.isin(rows.position[at], (step[edge], step[edge + 1]))
    values[at[failed]] = 1
    details = {int(each): "the rest of its group is in the next or last step" for each in at[failed][:10]}
    return Marks(values, details)


@lint_rule(
    "A group has one policy version",
    _PART,
    "group",
    "policy_version",
    otherwise="policy_version; in a tenth of the groups versions are mixed, as asynchronous trainers do",
    scope="steps",
    most=0.1,
)
def one_version(rows: RowBatch) -> Marks:
    """Samples of a group were sampled by different versions of the policy."""
    low, high = rows.logged("policy_version_min"), rows.logged("policy_version_max")
    known = np.isfinite(low) & np.isfinite(high) & _logged(rows)
    groups = int(rows.group.max()) + 1 if len(rows) else 0
    least, most = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(least, rows.group[known], low[known])
    np.maximum.at(most, rows.group[known], high[known])
    mixed = (most > least)[rows.group]
    details = {
        int(at): f"versions {least[rows.group[at]]:.0f} to {most[rows.group[at]]:.0f} in its group"
        for at in np.flatnonzero(mixed & known)[:10]
    }
    return Marks(mark(mixed, known), details)


@lint_rule(
    "Groups have one size",
    _PART,
    "group",
    otherwise="num_generations in run.json: the groups have no usual size",
    scope="steps",
)
def one_size(rows: RowBatch) -> Marks:
    """A group has more or fewer samples than ``num_generations``, or than most groups of these steps."""
    logged, size = _logged(rows), usual_size(rows, rows.view.snapshot.constants.logged)
    if size is None:
        return Marks(np.full(len(rows), np.nan))
    sizes = _sizes(rows)
    failed = logged & (sizes != size)
    details = {
        int(at): f"{sizes[at]:.0f} samples in its group, {size} are usual"
        for at in np.flatnonzero(failed)[:10]
    }
    return Marks(mark(failed, logged & rows.has_outcome), details)


@lint_rule(
    "A completion occurs once in its group",
    _PART,
    "group|prompt",
    "response",
    otherwise="logprobs, or responses of 200 characters or more",
    scope="steps",
)
def completion_once(rows: RowBatch) -> Marks:
    """A response that does not occur twice by chance is several times in the group.

    Its logprobs add up to less than -21, which is 2⁻³⁰; without logprobs, it has 200 characters or more.
    Equal seeds and copied rows do this.
    """
    hashes = rows.metadata("response_hash")
    surprisal, chars = rows.logged("surprisal_sum"), rows.logged("response_chars")
    rare = np.where(np.isfinite(surprisal), surprisal > _RARE, chars >= _LONG) & (hashes != NO_TEXT)
    if not rows.view.grouped or rows.view.snapshot.has_episodes:
        return Marks(np.full(len(rows), np.nan))
    order = np.lexsort((hashes, rows.group))
    same = (np.diff(rows.group[order]) == 0) & (np.diff(hashes[order]) == 0)
    again = np.zeros(len(rows), bool)
    again[order[1:]] |= same
    again[order[:-1]] |= same
    failed = again & rare
    details = dict.fromkeys(np.flatnonzero(failed)[:10].tolist(), "the same response is in its group again")
    return Marks(mark(failed, rare), details)
