"""Adds to findings on curves what the change comes from, and finds gaps at the ends of responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.analysis.change_causes import cause_sentences, change_causes, next_check
from rlpanel.analysis.change_sentences import part_sentences
from rlpanel.analysis.difference import ContrastSide
from rlpanel.analysis.reward_parts import PARTS
from rlpanel.analysis.step_change import explain_rows
from rlpanel.analysis.step_windows import (
    WINDOW_STEPS,
    StepWindows,
    range_of,
    range_words,
    rows_in,
    windows_at,
)
from rlpanel.errors import RLPanelError
from rlpanel.findings.engine.finding import Finding
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts, fetch_record
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.sample_places import spread_rows
from rlpanel.store.snapshot.snapshot import Snapshot

# -- gap places ----------------------------------------------------------------------------------------
# Finds differences of logprobs that lie at the first or the last token of the responses.
#
# The first token differs after a wrong start of the sequence or a shift, the last one by the end token.


#: Logprobs of the other side, by the color of a finding, and its name.
OTHER_SIDE = {
    "engine_log_ratio": ("rollout_logprobs", "trainer and engine"),
    "kl_k3": ("ref_logprobs", "policy and reference"),
}
#: Samples that are read, fewest of them, and fewest tokens of one.
_READ, _MIN_READ, _MIN_TOKENS = 24, 4, 8
#: Share of all differences at one place that is named.
_SHARE = 0.5


def gap_place(index: RunIndex, snapshot: Snapshot, rows: np.ndarray, color: str) -> str:
    """Return a sentence if half of the differences of logprobs are at the first or last tokens; else empty.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
        Affected rows; some of them are read.
    color : str
        Which logprobs are compared, see `OTHER_SIDE`.
    """
    other, sides = OTHER_SIDE[color]
    gaps = np.array(list(_gaps(index, snapshot, spread_rows(rows, _READ), other))).reshape(-1, 3)
    total = float(gaps[:, 2].sum())
    if len(gaps) < _MIN_READ or not total > 0:
        return ""
    for at, name in enumerate(("first", "last")):
        share = float(gaps[:, at].sum()) / total
        if share >= _SHARE:
            return (
                f"{share:.0%} of the differences between {sides} are at the {name} token of the response, "
                f"{gaps[:, at].mean():.2f} nats there on average; {len(gaps):,} responses were read."
            )
    return ""


def _gaps(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, other: str
) -> Iterator[tuple[float, float, float]]:
    """Yield the absolute differences at the first and the last token, and their sum over the response."""
    for row in rows.tolist():
        try:
            arrays = fetch_record(index, snapshot, row).arrays
        except (RLPanelError, OSError, IndexError):  # the line has changed meanwhile
            continue
        own, theirs = arrays.get("logprobs"), arrays.get(other)
        if own is None or theirs is None or len(own) != len(theirs):
            continue
        mask = arrays.get("loss_mask")
        gap = np.abs(np.asarray(own, float) - np.asarray(theirs, float))
        if mask is not None and len(mask) == len(gap):
            gap = gap[np.asarray(mask, float) > 0]
        gap = gap[np.isfinite(gap)]
        if len(gap) >= _MIN_TOKENS:
            yield float(gap[0]), float(gap[-1]), float(gap.sum())


# -- explained -----------------------------------------------------------------------------------------
# Adds to findings on curves what the change comes from, once for each finding.
#
# A rule sees that a curve changed. Here the first affected steps are compared with those before: parts of the
# reward, labels, prompts that were seen before, all columns, and the words of some responses. Of differences
# between logprobs it is said if they are at the first or last token.


#: Rules on curves: they see a change, and do not know where it comes from.
_ON_CURVES = frozenset({"sustained_change", "reward_jumps", "held_out", "evaluation_falls", "best_falls"})
#: Rules on responses that are equal: the most frequent one is quoted.
_ON_EQUAL = frozenset({"duplicates", "collapse"})
#: Rules on differences of logprobs: the tokens are named if they are the first or last ones.
_ON_TOKENS = frozenset({"engine", "engine_change", "kl_spike"})
#: Shortest response that is quoted, and most characters of it; shorter ones are equal by chance.
_MIN_CHARS, _QUOTED = 16, 120
#: Responses that are read of each window.
_TEXTS = 160
#: The first window with this share of the largest change shows it: a slide is not over in its first steps.
_REACHED = 0.7

#: What was compared: the finding, its curve, its split and place, and the windows.
Key = tuple[object, ...]


@dataclass(frozen=True)
class Explanation:
    """Result of the comparison of two windows for a finding.

    Attributes
    ----------
    evidence : tuple of str
    advice : str
    """

    evidence: tuple[str, ...]
    advice: str


def explained(
    findings: Sequence[Finding],
    view: RunView,
    index: RunIndex | None,
    known: Mapping[Key, Explanation],
) -> tuple[list[Finding], dict[Key, Explanation]]:
    """Return the findings with their causes, and what to hand to the next check.

    Parameters
    ----------
    findings : sequence of Finding
        After merging: the leading ones are explained, and the reward among their symptoms.
    view : RunView
        The checked split.
    index : RunIndex, optional
        Through which texts are read; without it only columns are compared.
    known : mapping
        Explanations of the check before. Those whose windows have not changed are not computed again.
    """
    kept: dict[Key, Explanation] = {}

    def explain(finding: Finding, lead: Finding | None = None) -> Finding:
        symptoms = tuple(explain(symptom, finding) for symptom in finding.symptoms)
        finding = replace(finding, symptoms=symptoms)
        wanted = _ON_CURVES | _ON_EQUAL | _ON_TOKENS
        if lead is not None:  # what the leading one says of the same tokens is not said again
            said = lead.rule in _ON_TOKENS and lead.color == finding.color
            wanted = (_ON_CURVES if finding.column == "reward" else frozenset()) | (
                frozenset() if said else _ON_TOKENS
            )
        if finding.rule not in wanted or not finding.steps:
            return finding
        found, key, windows = _explanation(finding, view, index, known)
        if found is None or windows is None:
            return finding
        kept[key] = found
        evidence = (*finding.evidence, *found.evidence)
        return replace(finding, evidence=evidence, advice=found.advice or finding.advice, compared=windows)

    return [explain(finding) for finding in findings], kept


def _explanation(
    finding: Finding, view: RunView, index: RunIndex | None, known: Mapping[Key, Explanation]
) -> tuple[Explanation | None, Key, StepWindows | None]:
    if finding.split:
        view = view.in_split(finding.split)
    windows = _windows(finding, view)
    if windows is None:
        return None, (), None
    after, before = (rows_of_place(view, finding, rows_in(view.snapshot, bounds)) for bounds in windows)
    place = (finding.rank, finding.category, finding.split)
    key = (finding.key, finding.column, *place, *windows, len(after), len(before))
    if key in known:
        return known[key], key, windows
    try:
        if finding.rule in _ON_TOKENS:
            return _place_of_gap(finding, view, index, after), key, windows
        if finding.rule in _ON_EQUAL:
            return _quote(view, index, windows.after, after), key, windows
        return _compare(finding, view, index, windows, after, before), key, windows
    except RLPanelError:  # the curve has no value for each sample, or lines changed meanwhile
        return None, key, None


def _compare(
    finding: Finding,
    view: RunView,
    index: RunIndex | None,
    windows: StepWindows,
    after: np.ndarray,
    before: np.ndarray,
) -> Explanation:
    change = explain_rows(view, finding.column, after, before, windows)
    step = view.snapshot.metadata("step")
    earlier = rows_of_place(view, finding, np.flatnonzero(view.snapshot.alive & (step < windows.after[0])))
    a, b = (
        # Without an index no text is read, so that it is not looked at.
        ContrastSide(range_words(bounds), index, view, rows)  # type: ignore[arg-type]
        for bounds, rows in zip(windows, (after, before), strict=True)
    )
    causes = change_causes(a, b, change, earlier, _TEXTS if index is not None else 0)
    found = cause_sentences(causes)
    if found and finding.column.startswith(PARTS):
        whole = explain_rows(view, "reward", after, before, windows)
        found = [text for text in part_sentences(whole) if f"part {finding.column}" in text] + found
    return Explanation(tuple(found), next_check(causes) if found else "")


def _place_of_gap(
    finding: Finding, view: RunView, index: RunIndex | None, rows: np.ndarray
) -> Explanation | None:
    if index is None or finding.color not in OTHER_SIDE:
        return None
    text = gap_place(index, view.snapshot, rows, finding.color)
    return Explanation((text,) if text else (), "")


def _quote(
    view: RunView, index: RunIndex | None, bounds: tuple[int, int], rows: np.ndarray
) -> Explanation | None:
    """Return the most frequent response of some rows; None without an index, or if none occurs twice."""
    snapshot = view.snapshot
    if index is None or not snapshot.has_number("response_chars"):
        return None
    long = rows[snapshot.number("response_chars")[rows] >= _MIN_CHARS]
    hashes, first, counts = np.unique(
        snapshot.metadata("response_hash")[long], return_index=True, return_counts=True
    )
    if not len(hashes) or counts.max() < 2:
        return None
    row = long[first[counts.argmax()]]
    texts = next(iter(fetch_all_texts(index, snapshot, np.array([row]))), None)
    text = " ".join((texts or {}).get("response", "").split())
    if not text:
        return None
    text = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
    equal = long[snapshot.metadata("response_hash")[long] == hashes[counts.argmax()]]
    prompts = len(np.unique(snapshot.prompts(equal)))
    to = f", to {prompts:,} prompts" if prompts > 1 else ""
    count = f"{len(equal):,} of {len(rows):,} responses{to}"
    return Explanation((f"Most frequent in {range_words(bounds)}, {count}: “{text}”.",), "")


def _windows(finding: Finding, view: RunView) -> StepWindows | None:
    """Return the first window of the affected steps in which the change is nearly complete.

    The windows begin after 0, 5, 15, 35, … affected steps, so that those of a growing run seldom change.
    """
    steps = view.snapshot.steps.values
    first = windows_at(steps, finding.steps[0], finding.steps[-1])
    if first is None:
        return None
    onset = int(np.searchsorted(steps, finding.steps[0]))
    last = int(np.searchsorted(steps, finding.steps[-1], side="right"))
    begins, width = [0], WINDOW_STEPS
    while onset + begins[-1] + width + WINDOW_STEPS <= last:
        begins.append(begins[-1] + width)
        width *= 2
    tried = [first.after, *(range_of(steps[onset + at : onset + at + WINDOW_STEPS]) for at in begins[1:])]
    before = _level(finding, view, first.before)
    gaps = np.array([abs(_level(finding, view, bounds) - before) for bounds in tried])
    if not np.isfinite(gaps).any():
        return first
    chosen = int(np.argmax(gaps >= _REACHED * np.nanmax(gaps)))
    return StepWindows(tried[chosen], first.before)


def _level(finding: Finding, view: RunView, bounds: tuple[int, int]) -> float:
    """Return the mean of the finding's column in its place; NaN without one."""
    if not view.snapshot.has_number(finding.column):
        return float("nan")
    values = view.snapshot.counted(
        finding.column, rows_of_place(view, finding, rows_in(view.snapshot, bounds))
    )
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float("nan")


def rows_of_place(view: RunView, finding: Finding, rows: np.ndarray) -> np.ndarray:
    """Return the rows that are of the finding's rank and category."""
    snapshot = view.snapshot
    if finding.rank is not None:
        rows = rows[snapshot.metadata("rank")[rows] == finding.rank]
    label, _, value = finding.category.partition(" = ")
    if label and label in snapshot.labels:
        codes, names = snapshot.label_codes(label)
        rows = rows[codes[rows] == (names.index(value) if value in names else -2)]
    return rows
