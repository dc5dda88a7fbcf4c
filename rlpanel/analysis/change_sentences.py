"""Says in sentences what a change comes from; only what stands out is named."""

from __future__ import annotations

from rlpanel.analysis.step_change import NOISE, ChangePart, StepChange
from rlpanel.analysis.step_windows import range_words
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number

#: A rank, group or category stands out with at least this share of the change, and this many times its share
#: of the samples.
HALF, STANDS_OUT = 0.5, 1.5
#: Smallest share of the change of a part of the reward that is named.
_PART = 0.15
#: Share from which on a part is more than the whole change, and not just by rounding.
_WHOLE = 1.005
#: Standard errors by which the change of an element differs from that of the rest.
_SURE = 3.0
#: Distance from the whole change up to which a part of the reward is all of it.
_NEARLY = 0.03
#: If fewer samples than this carry the change, their rank and category are a coincidence.
_MANY = 3
#: Kinds of parts besides the labels of the samples.
_NO_LABELS = frozenset({"part", "sample", "samples", "group", "rank", "token", "position"})
#: Values of a label that a sentence names.
_VALUES = 3


def sentences(change: StepChange) -> list[str]:
    """Return what the change comes from, in a few sentences."""
    label = describe(change.column).label
    steps = f"from {range_words(change.since)} to {range_words(change.steps)}"
    if not change.change:
        return [f"{label} did not change {steps}."]
    if change.is_noise:
        more = "" if change.steps[0] < change.steps[1] else " Compare more steps to tell it from chance."
        return [
            f"The change of {label} {steps} is smaller than {NOISE:g} standard errors: nothing stands out."
            f"{more}"
        ]
    return standing_out(change) or [
        f"The change of {label} {steps} comes from many samples; no group or category stands out."
    ]


def standing_out(change: StepChange) -> list[str]:
    """Return a sentence on each part, label, rank or few samples that carry much of a change."""
    label, few = describe(change.column).label, change.of_kind("samples")
    found = part_sentences(change)
    if few:
        found.append(_few_sentence(change, few[0], label))
    mixed = [kind for kind in change.kinds if kind not in _NO_LABELS and mix_share(change, kind) >= HALF]
    found += [mix_sentence(change, kind) for kind in mixed]
    if not few or few[0].count >= _MANY:
        kinds = [kind for kind in change.kinds if kind not in mixed]
        found += [text for kind in kinds if (text := _kind_sentence(change, kind, label))]
    return found


def part_sentences(change: StepChange) -> list[str]:
    """Return how much of a reward's change each of its parts is, the largest first."""
    verb = "rise" if change.change > 0 else "fall"
    found = []
    for part in change.of_kind("part"):
        if part.share < _PART:
            continue
        amount = number(abs(part.contribution))
        whole = number(abs(change.change))
        of = f"of the reward's {verb} of {whole}"
        some = f"All {of}" if abs(part.share - 1) <= _NEARLY else f"{amount} {of}"
        missing, missing_before = (
            1 - part.count / change.samples,
            1 - part.count_before / change.samples_before,
        )
        if missing > missing_before:
            found.append(
                f"{some} is the part {part.name}, which {_share(missing)} of the samples lack "
                f"({_share(missing_before)} before)."
            )
        else:
            found.append(f"{some} is the part {part.name}: {number(part.value)} after {number(part.before)}.")
    return found


def mix_share(change: StepChange, kind: str) -> float:
    """Return the share of a change that follows from how often each value of a label occurs.

    Each value keeps its mean from before; one that is new has the mean of today.
    """
    moved = sum(
        (part.count / change.samples - part.count_before / change.samples_before)
        * ((part.before if part.count_before else part.value) - change.before)
        for part in change.of_kind(kind)
    )
    return float(moved / change.change)


def mix_sentence(change: StepChange, kind: str) -> str:
    """Return the share of a change that follows from the mix of a label, and the values that moved most."""
    moves = sorted(
        (
            (part.count / change.samples, part.count_before / change.samples_before, part.name)
            for part in change.of_kind(kind)
        ),
        key=lambda each: -abs(each[0] - each[1]),
    )[:_VALUES]
    listed = ", ".join(f"{name} {_share(before)} → {_share(now)}" for now, before, name in moves)
    share = mix_share(change, kind)
    amount = "all" if share > 2 - _WHOLE else f"{share:.0%}"
    return f"The mix of {kind} makes {amount} of the change of {describe(change.column).label}: {listed}."


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.0995 or value <= 0 else f"{value:.1%}"


def _few_sentence(change: StepChange, few: ChangePart, label: str) -> str:
    verb, them = ("carries", "it") if few.count == 1 else ("carry", "them")
    return (
        f"{few.name} samples {verb} {_carried(few, change)} of {label} in {range_words(change.steps)}: "
        f"without {them} it is {number(few.without)}, not {number(change.value)}."
    )


def _carried(part: ChangePart, change: StepChange) -> str:
    """Return a part's share of the change; above 1, where other parts lower it again, as amounts."""
    if part.share < _WHOLE:
        return f"{part.share:.0%} of the change"
    added, left = (number(value, sign=True) for value in (part.contribution, change.change))
    return f"more than the whole change ({added}, which others take back to {left})"


def _differs_from_the_rest(part: ChangePart, change: StepChange) -> bool:
    """Return True if an element changed otherwise than the rest, by more than chance."""
    size = part.count / change.samples
    if not part.count_before or not 0 < size < 1:
        return True
    own, rest = part.contribution / size, (change.change - part.contribution) / (1 - size)
    return abs(own - rest) >= _SURE * change.error * (1 / size + 1 / (1 - size)) ** 0.5


def _kind_sentence(change: StepChange, kind: str, label: str) -> str:
    """Return a sentence about the first part of a kind; empty if it does not stand out."""
    first = change.of_kind(kind)[0]
    size = first.count / change.samples
    if (
        kind in ("part", "sample", "samples")
        or first.share < HALF
        or first.share < STANDS_OUT * size
        or first.count < 2
        or not _differs_from_the_rest(first, change)
    ):
        return ""
    name = f"{kind} {first.name}" if kind in ("rank", "group") else f"{kind} = {first.name}"
    text = f"{name} carries {_carried(first, change)} of {label}"
    if not first.count_before:
        return f"{text}: its {first.count:,} of {change.samples:,} samples have {number(first.value)}."
    if abs(size * (first.value - first.before)) < HALF * abs(first.contribution):
        size_before = first.count_before / change.samples_before
        return f"{text}: its share of the samples went from {size_before:.0%} to {size:.0%}."
    return (
        f"{text}: its {first.count:,} of {change.samples:,} samples have {number(first.value)}, after "
        f"{number(first.before)} in {range_words(change.since)}."
    )
