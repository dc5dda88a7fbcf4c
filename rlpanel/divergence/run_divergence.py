"""Compares two runs step by step: where the second leaves the first, and what cannot be said about that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.divergence.paired_streams import PairedStream, paired_streams
from rlpanel.divergence.parting import Parting, detectable, find_partings, limits_of
from rlpanel.divergence.parting_samples import SamplePair, samples_of
from rlpanel.divergence.step_pairs import Align, StepPairs, pair_steps
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.window_scan import MIN_STEPS
from rlpanel.number_text import number
from rlpanel.settings import FindingSettings
from rlpanel.sources.config.run_config import SettingPair, compare_configs, read_run_config
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.alignment import compared_reward
from rlpanel.store.snapshot.run_view import RunView

#: Streams that are read between two reports of progress.
_BATCH = 8
#: Fewer common steps leave little power, and this share of a run's steps without a counterpart is named.
FEW_STEPS, _UNPAIRED = 16, 0.1
#: Prompts are shared if this share of those of both runs is.
_SHARED = 0.5
#: Ranges of a reward that differ by this factor are different scales.
_SCALE = 3.0
#: Numbers whose smallest difference that would be found is reported.
_POWER_OF = ("reward", "response_tokens", "response_chars", "kl_k3_mean")


@dataclass(frozen=True)
class ComparedSide:
    """A run that is compared.

    Attributes
    ----------
    index : RunIndex
    view : RunView
    """

    index: RunIndex
    view: RunView


@dataclass(frozen=True)
class Caveat:
    """A statement about what cannot be claimed.

    Attributes
    ----------
    text : str
        Template with names in braces.
    values : tuple of (str, object)
    """

    text: str
    values: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        return self.text.format(**dict(self.values))


@dataclass(frozen=True)
class Detectable:
    """The smallest lasting difference from the middle on that is found in 80 of 100 cases.

    Attributes
    ----------
    name, column : str
    size : float
        In the displayed unit.
    """

    name: str
    column: str
    size: float


@dataclass(frozen=True)
class Divergence:
    """Result for two runs; before that, how far the comparison is.

    Attributes
    ----------
    done : int
        Number of streams that were compared so far.
    pairs : StepPairs, optional
        None until the comparison is complete.
    partings : tuple of Parting
        Streams in which the runs part, the earliest first.
    tested : int
        Number of streams that were tested.
    only_one : tuple of str
        Streams that only one run has.
    by_prompt : int
        Pairs of steps that were compared prompt by prompt.
    caveats : tuple of Caveat
    settings : tuple of SettingPair
        Settings that differ.
    hidden : int
        Settings of both runs that are hidden, and not compared.
    has_settings : (bool, bool)
        Whether a configuration was found in each run's folder.
    samples : tuple of SamplePair
        Samples that show the first parting.
    powers : tuple of Detectable
    """

    done: int
    pairs: StepPairs | None = None
    partings: tuple[Parting, ...] = ()
    tested: int = 0
    only_one: tuple[str, ...] = ()
    by_prompt: int = 0
    caveats: tuple[Caveat, ...] = ()
    settings: tuple[SettingPair, ...] = ()
    hidden: int = 0
    has_settings: tuple[bool, bool] = (False, False)
    samples: tuple[SamplePair, ...] = ()
    powers: tuple[Detectable, ...] = ()


def find_divergence(here: ComparedSide, there: ComparedSide, align: Align = "step") -> Iterator[Divergence]:
    """Yield how far the comparison is, and at last its result.

    Parameters
    ----------
    here, there : ComparedSide
    align : {"step", "samples", "tokens", "time"}

    Raises
    ------
    SettingError
        If a run does not log what the axis needs.
    """
    now = time.time()
    mine, theirs = (RuleContext(side.view, FindingSettings(), now) for side in (here, there))
    pairs = pair_steps(mine.snapshot, theirs.snapshot, mine.steps, theirs.steps, align)
    rewards, ignored = _reward_caveats(mine, theirs)
    shared = _shared_prompts(mine, theirs)
    streams: list[PairedStream] = []
    only_one: list[str] = []
    if len(pairs) >= MIN_STEPS:
        for each in paired_streams(mine, theirs, pairs, ignored):
            if isinstance(each, str):
                only_one.append(each)
            elif np.isfinite(each.difference).sum() >= MIN_STEPS:
                streams.append(each)
            if (len(streams) + len(only_one)) % _BATCH == 0:
                yield Divergence(len(streams))
    partings = find_partings(streams, levels=shared >= _SHARED) if streams else []
    configs = [read_run_config(side.index.path, side.index.root) for side in (here, there)]
    by_prompt = max((int(each.by_prompt.sum()) for each in streams), default=0)
    limits = limits_of(streams, len(pairs)) if streams else np.empty(0)
    yield Divergence(
        done=len(streams),
        pairs=pairs,
        partings=tuple(partings),
        tested=len(streams),
        only_one=tuple(only_one),
        by_prompt=by_prompt,
        caveats=(*_step_caveats(mine, theirs, pairs), *rewards, *_prompt_caveats(mine, theirs, shared, by_prompt)),
        settings=tuple(compare_configs(*configs)) if all(each.files for each in configs) else (),
        hidden=sum(each.hidden for each in configs),
        has_settings=(bool(configs[0].files), bool(configs[1].files)),
        samples=tuple(samples_of(partings[0], mine, theirs, pairs)) if partings else (),
        powers=tuple(
            Detectable(each.stream.name, each.stream.column, detectable(each, float(limit)))
            for each, limit in zip(streams, limits, strict=True)
            if each.stream.column in _POWER_OF and not each.stream.name.startswith(("spread", "samples"))
        ),
    )


def sentence(found: Divergence) -> str:
    """Return the result in a sentence or two."""
    pairs = found.pairs
    if pairs is None or len(pairs) < MIN_STEPS:
        common = 0 if pairs is None else len(pairs)
        return f"The runs have {common} common steps; {MIN_STEPS} are needed to compare them."
    if not found.partings:
        power = next((each for each in found.powers if np.isfinite(each.size)), None)
        text = f"No difference beyond the noise of both runs in {len(pairs):,} common steps."
        if power is not None:
            text += (
                f" A lasting difference in {power.name} of {number(power.size)} from the middle on would be "
                "found in 80 of 100 cases."
            )
        return text
    first = found.partings[0]
    step = int(pairs.first_there[first.onset])
    where = "from the first step on" if first.from_start else f"from step {step:,} on"
    error = f" ± {number(first.error)}" if np.isfinite(first.error) else ""
    more = len(found.partings) - 1
    rest = f" {more:,} further numbers part later or at the same step." if more else ""
    return (
        f"The second run leaves the first {where}: {first.stream.stream.name} differs by "
        f"{number(first.difference, sign=True)}{error} ({number(first.here)} and {number(first.there)}).{rest}"
    )


def _step_caveats(mine: RuleContext, theirs: RuleContext, pairs: StepPairs) -> Iterator[Caveat]:
    """Yield what few, unpaired or mixed steps leave open."""
    if len(pairs) < MIN_STEPS:
        yield Caveat("The runs have {count} common steps. Align by samples or time, or log more steps.",
                     (("count", len(pairs)),))  # fmt: skip
        return
    if len(pairs) < FEW_STEPS:
        yield Caveat(
            "With {count} common steps, the noise between steps is not known: only large differences are found.",
            (("count", len(pairs)),),
        )
    for context, pair, name in ((mine, pairs.here, "first"), (theirs, pairs.there, "second")):
        left = int((pair < 0).sum())
        if left > _UNPAIRED * len(pair):
            yield Caveat(
                "{left} of {total} steps of the {run} run have no counterpart.",
                (("left", left), ("total", len(pair)), ("run", name)),
            )
        if context.snapshot.older:
            yield Caveat(
                "The {run} run was resumed: {count} samples of older attempts are left out.",
                (("run", name), ("count", context.snapshot.older)),
            )
        if any(remark.kind == "attempts" for remark in context.snapshot.remarks):
            yield Caveat(
                "Some steps of the {run} run may hold samples of two attempts.", (("run", name),)
            )
        if context.view.grouped and len(context.steps):
            from rlpanel.findings.engine.places import GROUPS
            from rlpanel.findings.engine.signal import each_sample

            if np.median(context.table(each_sample)[GROUPS, 0]) < 2:
                yield Caveat(
                    "The {run} run has one group a step: its errors come from the noise between steps alone.",
                    (("run", name),),
                )
    yield Caveat("Two runs cannot separate the effect of a setting from that of the seed: repeat both with other seeds.")


def _prompt_caveats(mine: RuleContext, theirs: RuleContext, shared: float, by_prompt: int) -> Iterator[Caveat]:
    """Yield what other prompts leave open."""
    if shared < _SHARED:
        yield Caveat(
            "The runs share {share:.0%} of their prompts: levels are not compared, only what changes later.",
            (("share", shared),),
        )
    elif not by_prompt:
        yield Caveat(
            "The runs share {share:.0%} of their prompts, but not in the same steps: means are compared.",
            (("share", shared),),
        )


def _reward_caveats(mine: RuleContext, theirs: RuleContext) -> tuple[list[Caveat], frozenset[str]]:
    """Return what changed reward functions leave open, and the columns that are not compared."""
    found, ignored = [], set[str]()
    reward = compared_reward(mine.snapshot, theirs.snapshot)
    if reward.only_here or reward.only_there:
        ignored |= {"reward", "advantage"}
        found.append(
            Caveat(
                "Reward functions differ (only in the first run: {here}; only in the second: {there}): "
                "the reward is not compared.",
                (("here", ", ".join(reward.only_here) or "–"), ("there", ", ".join(reward.only_there) or "–")),
            )
        )
    elif reward.weighting == "different":
        ignored |= {"reward", "advantage"}
        found.append(Caveat("The weights of the reward functions differ: the reward is not compared."))
    for column in mine.snapshot.numbers:
        is_reward = column == "reward" or column.startswith("rewards/")
        if is_reward and column not in ignored and theirs.snapshot.has_number(column):
            sizes = [_range(context, column) for context in (mine, theirs)]
            if min(sizes) > 0 and max(sizes) > _SCALE * min(sizes):
                ignored.add(column)
                found.append(
                    Caveat(
                        "{column} has another scale from the start (range {here} and {there}): "
                        "it is not compared.",
                        (("column", column), ("here", number(sizes[0])), ("there", number(sizes[1]))),
                    )
                )
    return found, frozenset(ignored)


def _range(context: RuleContext, column: str) -> float:
    """Return the range of a column in the first steps; 0 if it is not known."""
    size = min(len(context.steps), 5)
    low, high = (context.snapshot.steps.stat(column, part)[:size] for part in (MIN, MAX))
    if not np.isfinite(low).any():
        return 0.0
    return float(np.nanmax(high) - np.nanmin(low))


def _shared_prompts(mine: RuleContext, theirs: RuleContext) -> float:
    """Return the share of the prompts of both runs that the other one has, too: the smaller one."""
    sets = [np.unique(context.snapshot.prompts(context.rows)) for context in (mine, theirs)]
    common = len(np.intersect1d(*sets))
    return min(common / max(len(each), 1) for each in sets)
