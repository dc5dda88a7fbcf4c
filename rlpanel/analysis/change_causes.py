"""Looks for the cause of a change between two windows: shares, prompts seen before, and what else differs.

Nothing here decides that a curve changed; a finding or a viewer does. The rows of the windows may be those of
a rank or a category only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.change_sentences import HALF, mix_share, standing_out
from rlpanel.analysis.difference import ContrastSide, Difference, label_of
from rlpanel.analysis.reward_parts import PARTS
from rlpanel.analysis.selection_contrast import contrast
from rlpanel.analysis.step_change import ChangePart, StepChange
from rlpanel.analysis.step_windows import range_words, rows_in
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.store.columns.scalar_log import GRADIENT_NORM, LEARNING_RATE
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

#: Fewest prompts whose means are compared.
_MIN_PROMPTS = 5
#: Standard errors of a mean over prompts from which on it is a change.
_SURE = 2.0
#: Differences that a sentence names, and their least effect in standard deviations.
FIRST_ROWS, _EFFECT = 3, 0.4
#: Factor of a change of the learning rate or the gradient norm that is named.
_FACTOR = 3.0
#: Columns that say how far the policy is from the reference or from itself.
_DRIFT = ("kl_", "log_ratio", "ratio_")
#: Longest quoted text.
_MAX_CHARS = 60


@dataclass(frozen=True)
class PromptChange:
    """Mean rewards of prompts that were seen before, then and now.

    Attributes
    ----------
    prompts, all_prompts : int
        Number of such prompts, and of all prompts of the steps.
    value, before : float
        Mean over these prompts now, and where they were seen last.
    error : float
        Standard error of the difference over prompts.
    """

    prompts: int
    all_prompts: int
    value: float
    before: float
    error: float

    @property
    def change(self) -> float:
        """Mean over the prompts now, less that of then."""
        return self.value - self.before


def prompt_change(view: RunView, column: str, after: np.ndarray, earlier: np.ndarray) -> PromptChange | None:
    """Compare the prompts of some rows with the last step before that had them; None for too few.

    Parameters
    ----------
    view : RunView
    column : str
    after : ndarray of int
    earlier : ndarray of int
        Rows of all steps before the change.
    """
    snapshot = view.snapshot
    if not snapshot.has_number("prompt_chars"):
        return None
    prompts, all_count = snapshot.prompts(after), 0
    values = view.counted(column, after)
    prompts, values = prompts[np.isfinite(values)], values[np.isfinite(values)]
    names, codes = np.unique(prompts, return_inverse=True)
    all_count = len(names)
    if not all_count:
        return None
    now = np.bincount(codes, values) / np.bincount(codes)
    known = view.counted(column, earlier)
    of_known = snapshot.prompts(earlier)
    at = np.searchsorted(names, of_known).clip(max=all_count - 1)
    same = (names[at] == of_known) & np.isfinite(known)
    at, known, step = at[same], known[same], snapshot.metadata("step")[earlier][same]
    last = np.full(all_count, -1, np.int64)
    np.maximum.at(last, at, step)
    newest = step == last[at]
    count = np.bincount(at[newest], minlength=all_count)
    seen = count > 0
    if seen.sum() < _MIN_PROMPTS:
        return None
    then = np.bincount(at[newest], known[newest], all_count)[seen] / count[seen]
    gap = now[seen] - then
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return PromptChange(int(seen.sum()), all_count, float(now[seen].mean()), float(then.mean()), error)


@dataclass(frozen=True)
class ChangeCauses:
    """Likely causes of a change.

    Attributes
    ----------
    change : StepChange
    prompts : PromptChange or None
    differences : tuple of Difference
        What else differs between the windows, the largest first.
    compared, texts : int
        Numbers of things that were compared, and of responses that were read.
    moved_scalars : tuple of str
        The trainer's scalars that changed by a factor, in words.
    """

    change: StepChange
    prompts: PromptChange | None
    differences: tuple[Difference, ...]
    compared: int
    texts: int
    moved_scalars: tuple[str, ...] = ()

    @property
    def old_prompts_changed(self) -> bool | None:
        """True if prompts that were seen before changed as well, False if not, None if it is not known."""
        found, change = self.prompts, self.change.change
        if found is None:
            return None
        if found.change * change > 0 and abs(found.change) >= max(HALF * abs(change), _SURE * found.error):
            return True
        near = abs(found.change) + _SURE * found.error
        return False if found.change * change <= 0 or near < HALF * abs(change) else None

    @property
    def missing_part(self) -> ChangePart | None:
        """The part of the reward that is missing now, if most of the change is its."""
        part = next(iter(self.change.of_kind("part")), None)
        lost = part is not None and part.where and part.share >= HALF
        return part if lost else None

    @property
    def mixed_label(self) -> str:
        """The label whose mix makes most of the change; empty without one."""
        kinds = [kind for kind in self.change.kinds if kind not in ("part", "sample", "samples", "group")]
        return next((kind for kind in kinds if kind != "rank" and mix_share(self.change, kind) >= HALF), "")


def change_causes(
    a: ContrastSide,
    b: ContrastSide,
    change: StepChange,
    earlier: np.ndarray,
    texts: int,
) -> ChangeCauses:
    """Look for causes of a change; reads at most ``texts`` responses of each window.

    Parameters
    ----------
    a, b : ContrastSide
        Samples of the steps, and of those that they are compared with.
    change : StepChange
    earlier : ndarray of int
        Rows of all steps before the change.
    texts : int
    """
    *_, found = contrast(a, b, exclude=consequences(a.view, change.column), texts=texts)
    return ChangeCauses(
        change,
        prompt_change(a.view, change.column, a.rows, earlier),
        found.differences,
        found.columns_tried + found.features_tried,
        found.texts_total,
        moved_scalars(a.view, change),
    )


def causes_between(index: RunIndex, view: RunView, change: StepChange, texts: int = 160) -> ChangeCauses:
    """Look for causes of the change of whole windows; see `change_causes`."""
    a, b = (
        ContrastSide(range_words(bounds), index, view, rows_in(view.snapshot, bounds))
        for bounds in (change.steps, change.since)
    )
    step = view.snapshot.metadata("step")
    earlier = np.flatnonzero(view.snapshot.alive & (step < change.steps[0]))
    return change_causes(a, b, change, earlier, texts)


def moved_scalars(view: RunView, change: StepChange) -> tuple[str, ...]:
    """Return the learning rates and gradient norms that changed by a factor, with both levels."""
    found = []
    scalars = view.snapshot.scalars
    for name in scalars.names:
        if not (LEARNING_RATE.search(name) or GRADIENT_NORM.search(name)):
            continue
        series = scalars.series(name)
        now, before = (
            series.values[(series.steps >= first) & (series.steps <= last)]
            for first, last in (change.steps, change.since)
        )
        if not len(now) or not len(before):
            continue
        level, earlier = float(np.median(now)), float(np.median(before))
        if min(level, earlier) > 0 and max(level, earlier) >= _FACTOR * min(level, earlier):
            found.append(f"{name} {number(level)} after {number(earlier)}")
    return tuple(found)


def consequences(view: RunView, column: str) -> set[str]:
    """Return the columns that say the same as a curve, such as a reward's parts and advantages."""
    numbers = set(view.snapshot.numbers)
    if column.endswith("reward") or column.startswith(PARTS):
        same = ("advantage", "token_advantage", "reward", "return", "value")
        found = {name for name in numbers if name.startswith((PARTS, *same)) or name.endswith("reward")}
    else:
        base = column.partition("_")[0]
        found = {name for name in numbers if name.partition("_")[0] == base}
        if column.startswith("response_"):
            found |= {name for name in numbers if name.endswith("_sum")}
    return found | {column, "finish_reason"} if column.startswith("response_") else found | {column}


def cause_sentences(causes: ChangeCauses) -> list[str]:
    """Return what a change comes from, whether old prompts changed too, and what else differs."""
    change = causes.change
    if not change.change or change.is_noise:
        return []
    return [*standing_out(change), *other_sentences(causes)]


def other_sentences(causes: ChangeCauses) -> list[str]:
    """Return what else is known of a change: old prompts, the trainer's scalars, and what differs."""
    found = []
    if text := prompt_sentence(causes):
        found.append(text)
    if causes.moved_scalars:
        found.append(f"The trainer's scalars moved: {'; '.join(causes.moved_scalars)}.")
    return [*found, difference_sentence(causes)]


def prompt_sentence(causes: ChangeCauses) -> str:
    """Return whether prompts that were seen before changed too; empty if it is not known."""
    found, changed = causes.prompts, causes.old_prompts_changed
    if found is None or changed is None:
        return ""
    verb = "rose" if causes.change.change > 0 else "fell"
    which = f"Prompts that were seen before ({found.prompts:,} of {found.all_prompts:,})"
    levels = f"{number(found.before)} when they were last seen, then {number(found.value)}"
    return f"{which} {verb} as well: {levels}." if changed else f"{which} did not change like this: {levels}."


def difference_sentence(causes: ChangeCauses) -> str:
    """Return the largest differences between the windows, or that there is none."""
    shown = first_rows(causes.differences)
    windows = f"{range_words(causes.change.steps)} and {range_words(causes.change.since)}"
    read = f" and the words of {causes.texts:,} responses" if causes.texts else ""
    if not shown:
        compared = f"{causes.compared:,} thing{'s' if causes.compared != 1 else ''} compared{read}"
        return f"Nothing else differs clearly between {windows}, of {compared}."
    return f"Also different in {range_words(causes.change.steps)}: {'; '.join(map(difference_text, shown))}."


def difference_text(difference: Difference) -> str:
    """Return a difference with both levels, such as ``response length 15.2 after 68``."""
    tested = difference.tested
    if difference.kind in ("number", "script"):
        name = describe(difference.name).label if difference.kind == "number" else label_of(difference)
        if difference.kind == "number" and difference.name.endswith("_sum"):
            name = f"{name} of a whole response"  # the mean per token has the same label
        return f"{name} {number(tested.a)} after {number(tested.b)}"
    text = label_of(difference)
    text = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
    if difference.kind not in ("label", "missing"):
        text = f"a response {text}"
    return f"{text} in {_share(tested.a)} after {_share(tested.b)}"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.0995 or value <= 0 else f"{value:.1%}"


def next_check(causes: ChangeCauses) -> str:
    """Return what to check next, by what the causes rule out; empty if they do not decide it."""
    change, first = causes.change, causes.change.steps[0]
    is_reward = change.column.endswith("reward") or change.column.startswith(PARTS)
    if causes.missing_part is not None:
        return f"Read the errors and time-outs of the reward function {causes.missing_part.name}."
    if causes.mixed_label:
        return (
            f"The mix of {causes.mixed_label} changed, so compare within it before you blame the policy; "
            "then the data loader, the curriculum and filters."
        )
    if causes.old_prompts_changed is False:
        return f"The prompts from step {first:,} on differ, not how they are answered: check the data."
    if not is_reward:
        return ""
    texts = [each for each in first_rows(causes.differences) if _is_more_text(each)]
    quiet = not any(_is_of_responses(each) for each in causes.differences)
    if quiet and causes.texts:
        return (
            "No word, length or likelihood of the responses differs clearly: first compare the reward "
            f"function, its judge and the ground truths of step {first:,} with those before."
        )
    if causes.moved_scalars or any(each.name.startswith(_DRIFT) for each in first_rows(causes.differences)):
        return (
            f"The policy itself moved at step {first:,}: check the learning rate, the gradient norm, the KL "
            "coefficient and the weights that were loaded."
        )
    if texts:
        return f"Read responses of step {first:,} where one {label_of(texts[0])}, and compare their rewards."
    return f"Read responses of step {first:,} beside those before, sorted by {describe(change.column).label}."


def _is_more_text(difference: Difference) -> bool:
    """Return True if more responses have a text than before."""
    return difference.kind in ("word", "words", "opening") and difference.tested.effect > 0


def _is_of_responses(difference: Difference) -> bool:
    """Return True if a difference lies in what the policy writes, not in the data or the log."""
    if difference.kind in ("word", "words", "opening", "script"):
        return True
    written = ("response", "surprisal", "kl_", "log_ratio", "logprob", "token_entropy", "turns", "ended")
    return difference.kind == "number" and difference.name.startswith(written)


def first_rows(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that a sentence names: the largest, each quantity once."""
    named = {_quantity(each): each for each in reversed(differences) if abs(each.tested.effect) >= _EFFECT}
    return [each for each in differences if named.get(_quantity(each)) is each][:FIRST_ROWS]


def _quantity(difference: Difference) -> str:
    """Return what a difference is about: mean and sum of a token metric are about the same."""
    if difference.kind == "number":
        return describe(difference.name).label
    return f"{difference.kind} {difference.name}"
