"""Rule on a change of any number of a run from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rlpanel.findings.engine.change import number, percent
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.streams import PRIMARY, Stream, all_scaled, streams_of
from rlpanel.findings.engine.two_windows import AFTER, Jump, jumps, schedules, thresholds
from rlpanel.store.columns.step_stats import MAX, MIN

#: Steps with one false alarm among all streams together.
STEPS_PER_ALARM = 5000
#: Newest steps that are looked at.
_MAX_STEPS = 300
#: Streams that change this close to the largest change belong to it; theirs may be weaker by this much.
_NEAR, _WEAKER = 3, 1.5
#: Rows of a sentence and of the evidence, and findings of a run.
_ROWS, _MORE, _MAX_FINDINGS = 3, 6, 3
#: Streams whose noise has this correlation are named once.
_SAME = 0.8
#: Counts of a step: more of them do no harm.
_COUNTS = frozenset({"samples per step", "groups per step"})
#: Shares of the change of the tokens' number that the characters' may have, if a token has other text: what
#: goes the other way has not changed the number of tokens.
_SAME_TEXT = (-0.5, 0.25)
#: A change this many times the smallest one of interest is large; one of the reward always is.
_LARGE = 1.5


@rule("Something changed")
def something_changed(context: RuleContext) -> Iterator[Finding]:
    """Any number of the run jumps from one step to the next, up or down.

    Compared are 4 or 8 steps with the 20 before: means, spreads, commonest and missing values of all columns,
    mixes of labels, counts, the reward with each label, numbers and new phrases of the texts, and the
    trainer's scalars. Slow changes do not count, and trends are taken off. All tests together raise one false
    alarm in 5,000 steps. A warning if the change is large and goes on, else an info, as are more samples per
    step, numbers per token where only the tokens have other text, and numbers other than rewards that jump
    about as far at equal distances from the first step on, as in a schedule.
    """
    first = max(0, len(context.steps) - _MAX_STEPS)
    streams = list(streams_of(context, first))
    values = all_scaled(streams)
    floor = np.empty(values.shape)
    for row, stream in zip(floor, streams, strict=True):
        row[:] = stream.floor
    limit = thresholds(np.array([stream.weight for stream in streams]), STEPS_PER_ALARM)
    least = np.array([stream.least for stream in streams])
    found = {jump.row: jump for jump in jumps(values, floor, least, limit - _WEAKER)}
    leading = sorted((each for each in found.values() if each.z >= limit[each.row]), key=lambda each: -each.z)
    for _ in range(_MAX_FINDINGS):
        if not leading:
            return
        at = leading[0].at
        family = [each for each in found.values() if abs(each.at - at) <= _NEAR]
        leading = [each for each in leading if abs(each.at - at) > _NEAR]
        family.sort(key=lambda each: -each.z * min(streams[each.row].weight, 2.0) ** 0.5)
        rows = _distinct(family, values)
        yield _finding(context, streams, rows, values, first)


def _distinct(family: Sequence[Jump], values: np.ndarray) -> list[Jump]:
    """Return the changes without those of streams whose noise is that of one before."""
    kept: list[Jump] = []
    noise: list[np.ndarray] = []
    for jump in family:
        start, stop = max(0, jump.at - 20), min(values.shape[1], jump.at + 8)
        own = values[jump.row, start:stop].copy()
        own[: jump.at - start] -= np.nanmean(own[: jump.at - start])
        own[jump.at - start :] -= np.nanmean(own[jump.at - start :])
        own = np.nan_to_num(own)
        own /= max(float(np.sqrt((own * own).sum())), 1e-12)
        if all(len(own) != len(other) or abs(float((own * other).sum())) < _SAME for other in noise):
            kept.append(jump)
            noise.append(own)
    return kept


def _finding(
    context: RuleContext, streams: Sequence[Stream], rows: Sequence[Jump], values: np.ndarray, first: int
) -> Finding:
    lead, stream = rows[0], streams[rows[0].row]
    mask = np.zeros(len(context.steps), bool)
    last = len(values[0]) - 1 if stream.fades else _last(values[lead.row], lead)
    mask[first + lead.at : first + last + 1] = True
    steps = context.steps[mask]
    texts = [_row(streams[each.row], each) for each in rows[: _ROWS + _MORE]]
    severity = severity_of(context, mask, harmful=False)
    is_large = any(
        streams[each.row].weight == PRIMARY or abs(each.size) >= _LARGE * streams[each.row].least
        for each in rows
    )
    every = _schedule(streams, rows, values, first)
    has_more = stream.name in _COUNTS and lead.size > 0
    unit = _other_unit(context, [streams[each.row] for each in rows], first + lead.at)
    if not is_large or has_more or unit or every or _starts(context, stream.column, first + lead.at):
        severity = "info"
    return Finding(
        severity=severity,
        sentence=f"Something changed at step {steps[0]:,}: {'; '.join(texts[:_ROWS])}.",
        evidence=(
            *([f"Also: {'; '.join(texts[_ROWS:])}."] if len(texts) > _ROWS else []),
            *([unit] if unit else []),
            *([f"It jumps about as far every {every:,} logged steps, as a schedule does."] if every else []),
            f"{len(streams):,} numbers of each step were compared with the 20 steps before. The first one "
            f"differs by {lead.z:.1f} standard errors.",
        ),
        advice="Compare samples of this step and of the one before; then what a restart, a new version, or a "
        "schedule changed at this step.",
        steps=tuple(steps.tolist()),
        ongoing=bool(mask[-1]),
        column=next((streams[each.row].column for each in rows if streams[each.row].column), ""),
        where=next((streams[each.row].where for each in rows if streams[each.row].where), ""),
        sort=stream.column if stream.column and lead.size < 0 else f"-{stream.column}" * bool(stream.column),
        tab=stream.tab,
        subject=stream.name,
    )


def _schedule(streams: Sequence[Stream], rows: Sequence[Jump], values: np.ndarray, first: int) -> int:
    """Return after how many steps all streams of a change jump again; 0 if one does not.

    Rewards never jump by plan, however often they do.
    """
    if any(streams[each.row].weight == PRIMARY for each in rows):
        return 0
    return next(
        (
            every
            for every in schedules(values[rows[0].row], rows[0].at, first)
            if all(
                any(abs(own - every) <= 1 for own in schedules(values[each.row], each.at, first))
                for each in rows[1:]
            )
        ),
        0,
    )


def _other_unit(context: RuleContext, streams: Sequence[Stream], at: int) -> str:
    """Return a sentence if only numbers per token changed, since a token has other text; else empty.

    Then responses have more or fewer tokens than before, and as many characters.
    """
    columns = {stream.column for stream in streams}
    if "response_tokens" not in columns or not all(
        column == "response_tokens" or column.endswith("_mean") for column in columns
    ):
        return ""
    tokens, chars = (context.series(name) for name in ("response_tokens", "response_chars"))
    if tokens is None or chars is None:
        return ""
    # Lengths have a trend: steps further before would have other texts.
    near = max(AFTER)
    parts = slice(max(0, at - near), at), slice(at, at + near)
    (old_tokens, new_tokens), (old, new) = (
        [float(np.nanmean(values[part])) for part in parts] for values in (tokens, chars)
    )
    with np.errstate(all="ignore"):
        share = np.log(new / old) / np.log(new_tokens / old_tokens)
    if not _SAME_TEXT[0] < share < _SAME_TEXT[1]:
        return ""
    return (
        f"Responses have {number(new)} characters on average ({number(old)} before): a token has other text, "
        f"{number(new / new_tokens)} characters instead of {number(old / old_tokens)}. The tokenizer may be "
        "another one."
    )


def _starts(context: RuleContext, column: str, at: int) -> bool:
    """Return True for a part of the reward that was always 0: it is switched on, as in a plan."""
    if not column.startswith("rewards/"):
        return False
    return (
        not np.nan_to_num(context.snapshot.steps.stat(column, MIN)[:at]).any()
        and not np.nan_to_num(context.snapshot.steps.stat(column, MAX)[:at]).any()
    )


def _last(values: np.ndarray, jump: Jump) -> int:
    """Return the last position until which the mean of five steps keeps a third of the change."""
    away = (values[jump.at :] - jump.before) / jump.size if jump.size else np.ones(1)
    away = np.where(np.isfinite(away), away, 1.0)
    if len(away) < 5:
        return len(values) - 1
    back = np.flatnonzero(np.convolve(away, np.ones(5) / 5, mode="valid") < 1 / 3)
    return len(values) - 1 if not len(back) else jump.at + max(int(back[0]), 1)


def _row(stream: Stream, jump: Jump) -> str:
    """Return a change in words, such as ``reward 0.69 (0.95 before)``."""
    if stream.scale == "share":
        before, after = (round(float(np.sin(each)) ** 2, 5) for each in (jump.before, jump.after))
        if stream.is_percent:
            return f"{stream.name} {percent(after)} ({percent(before)} before)"
    elif stream.scale == "factor":
        before, after = float(np.exp(jump.before)), float(np.exp(jump.after))
    else:  # of a mean, the rounding is left
        before, after = (
            0.0 if abs(each) < 1e-9 * abs(jump.size) else each for each in (jump.before, jump.after)
        )
    return f"{stream.name} {number(after)} ({number(before)} before)"
