"""Compares two runs step by step: where the second leaves the first, and the limits of that answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.divergence.held_out_parting import held_out_prompts, with_held_out
from rlpanel.divergence.paired_streams import PairedStream, paired_streams
from rlpanel.divergence.parting import (
    CHANCE,
    Parting,
    SamplePair,
    detectable,
    find_partings,
    limits_of,
    samples_of,
)
from rlpanel.divergence.step_pairs import HELD_OUT, Align, StepPairs, pair_steps, with_texts
from rlpanel.findings.engine.places import GROUPS
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import each_sample
from rlpanel.findings.engine.window_scan import MIN_STEPS
from rlpanel.number_text import number
from rlpanel.settings import FindingSettings
from rlpanel.sources.config.run_config import SettingPair, compare_configs, read_run_config
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.alignment import compared_reward
from rlpanel.store.snapshot.run_view import RunView

# -- divergence caveats --------------------------------------------------------------------------------
# Limits of a comparison of two runs: few or unpaired steps, other prompts, changed rewards, restarts.


#: Statements by name, with places for their values.
CAVEATS = {
    "no_steps": "The runs have {count} common steps. Align by samples or time, or log more steps.",
    "few_steps": "With {count} common steps, the noise between steps is not known: only large differences "
    "are found.",
    "unpaired": "{left} of {total} steps of {run} have no counterpart.",
    "resumed": "{run} was resumed: {count} samples of older attempts are left out.",
    "mixed": "Some steps of {run} may hold samples of two attempts.",
    "one_group": "{run} has one group a step: its errors come from the noise between steps alone.",
    "seed": "Two runs cannot separate the effect of a setting from that of the seed: repeat both with "
    "other seeds.",
    "other_prompts": "The runs share {share} of their prompts: levels are not compared, only what "
    "changes later.",
    "other_steps": "The runs share {share} of their prompts, but not in the same steps: means are compared.",
    "functions": "Reward functions differ (only in the first run: {here}; only in the second: {there}): the "
    "reward is not compared.",
    "weights": "The weights of the reward functions differ: the reward is not compared.",
    "large_evaluation": "The evaluation in the folder {folder} of {run} is too large and was not read: its "
    "prompts in the training are not looked for.",
    "scale": "{column} has another scale from the start (range {here} and {there}): it is not compared.",
}
#: Fewer common steps leave little power, and this share of a run's steps without a counterpart is named.
FEW_STEPS, _UNPAIRED = 16, 0.1
#: Prompts are shared if this share of those of both runs is.
SHARED = 0.5
#: Ranges of a reward that differ by this factor are different scales, and the first steps that are compared.
_SCALE, _FIRST = 3.0, 5


@dataclass(frozen=True)
class Caveat:
    """A statement about what cannot be claimed.

    Attributes
    ----------
    name : str
        Key of `CAVEATS`.
    values : tuple of (str, object)
    """

    name: str
    values: tuple[tuple[str, object], ...] = ()

    @property
    def text(self) -> str:
        """The statement with places for its values."""
        return CAVEATS[self.name]

    def __str__(self) -> str:
        return self.text.format(**dict(self.values))


def caveat(name: str, **values: object) -> Caveat:
    """Return a statement with its values."""
    return Caveat(name, tuple(values.items()))


def step_caveats(mine: RuleContext, theirs: RuleContext, pairs: StepPairs) -> Iterator[Caveat]:
    """Yield what few, unpaired or mixed steps leave open."""
    if len(pairs) < MIN_STEPS:
        yield caveat("no_steps", count=len(pairs))
        return
    if len(pairs) < FEW_STEPS:
        yield caveat("few_steps", count=len(pairs))
    for context, pair in ((mine, pairs.here), (theirs, pairs.there)):
        snapshot, left = context.snapshot, int((pair < 0).sum())
        if left > _UNPAIRED * len(pair):
            yield caveat("unpaired", left=left, total=len(pair), run=snapshot.name)
        if snapshot.older:
            yield caveat("resumed", run=snapshot.name, count=snapshot.older)
        if any(remark.kind == "attempts" for remark in snapshot.remarks):
            yield caveat("mixed", run=snapshot.name)
        if context.view.grouped and np.median(context.table(each_sample)[GROUPS, 0]) < 2:
            yield caveat("one_group", run=snapshot.name)
    yield caveat("seed")


def prompt_caveats(shared: float, by_prompt: int) -> Iterator[Caveat]:
    """Yield what other prompts leave open.

    Parameters
    ----------
    shared : float
        See `shared_prompts`.
    by_prompt : int
        Number of pairs of steps that are compared prompt by prompt.
    """
    if shared < SHARED:
        yield caveat("other_prompts", share=f"{shared:.0%}")
    elif not by_prompt:
        yield caveat("other_steps", share=f"{shared:.0%}")


def reward_caveats(mine: RuleContext, theirs: RuleContext) -> tuple[list[Caveat], frozenset[str]]:
    """Return what changed reward functions leave open, and the columns that are not compared."""
    found, ignored = list[Caveat](), set[str]()
    reward = compared_reward(mine.snapshot, theirs.snapshot)
    if reward.only_here or reward.only_there:
        ignored |= {"reward", "advantage"}
        here, there = (", ".join(names) or "–" for names in (reward.only_here, reward.only_there))
        found.append(caveat("functions", here=here, there=there))
    elif reward.weighting == "different":
        ignored |= {"reward", "advantage"}
        found.append(caveat("weights"))
    for column in mine.snapshot.numbers:
        is_reward = column == "reward" or column.startswith("rewards/")
        if is_reward and column not in ignored and theirs.snapshot.has_number(column):
            sizes = [_range(context, column) for context in (mine, theirs)]
            if min(sizes) > 0 and max(sizes) > _SCALE * min(sizes):
                ignored.add(column)
                here, there = (number(size) for size in sizes)
                found.append(caveat("scale", column=column, here=here, there=there))
    return found, frozenset(ignored)


def _range(context: RuleContext, column: str) -> float:
    """Return the range of a column in the first steps; 0 if it is not known."""
    size = min(len(context.steps), _FIRST)
    low, high = (context.snapshot.steps.stat(column, part)[:size] for part in (MIN, MAX))
    if not np.isfinite(low).any():
        return 0.0
    return float(np.nanmax(high) - np.nanmin(low))


def shared_prompts(mine: RuleContext, theirs: RuleContext) -> float:
    """Return the share of the prompts of both runs that the other one has, too: the smaller one."""
    sets = [np.unique(context.snapshot.prompts(context.rows)) for context in (mine, theirs)]
    common = len(np.intersect1d(sets[0], sets[1]))
    return min(common / max(len(each), 1) for each in sets)


# -- run divergence ------------------------------------------------------------------------------------
# Compares two runs step by step: where the second leaves the first, and what cannot be said about that.


#: Streams that are read between two reports of progress.
_BATCH = 8
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
        Samples that show the first parting that samples carry.
    shown : str
        Name of its number.
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
    shown: str = ""
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
    rewards, ignored = reward_caveats(mine, theirs)
    shared = shared_prompts(mine, theirs)
    evaluations = [held_out_prompts(side.index, side.view.snapshot) for side in (here, there)]
    held = np.concatenate([prompts for prompts, _ in evaluations])
    streams: list[PairedStream] = []
    only_one: list[str] = []
    if len(pairs) >= MIN_STEPS:
        for of_mine in with_texts(here.index, mine, pairs.first_here, pairs):
            if isinstance(of_mine, int):
                yield Divergence(0)
            else:
                mine = of_mine
        for of_theirs in with_texts(there.index, theirs, pairs.first_there, pairs):
            if isinstance(of_theirs, int):
                yield Divergence(0)
            else:
                theirs = of_theirs
        for each in paired_streams(mine, theirs, pairs, held, ignored):
            if isinstance(each, str):
                only_one.append(each)
            elif np.isfinite(each.difference).sum() >= MIN_STEPS:
                streams.append(each)
            if (len(streams) + len(only_one)) % _BATCH == 0:
                yield Divergence(len(streams))
    partings = find_partings(streams, levels=shared >= SHARED) if streams else []
    limits = limits_of(streams, len(pairs)) if streams else np.empty(0)
    leak = next((at for at, each in enumerate(streams) if each.stream.name == HELD_OUT), None)
    if leak is not None:
        chance = CHANCE * streams[leak].stream.weight / sum(each.stream.weight for each in streams)
        partings = with_held_out(partings, streams[leak], chance, (mine, theirs), pairs, held)
    # A scalar of the trainer, such as the learning rate, shows in no sample.
    carried = (each for each in partings if each.stream.stream.column or each.stream.stream.where)
    shown = next(carried, None)
    configs = [read_run_config(side.index.path, side.index.root) for side in (here, there)]
    by_prompt = max((int(each.by_prompt.sum()) for each in streams), default=0)
    yield Divergence(
        done=len(streams),
        pairs=pairs,
        partings=tuple(partings),
        tested=len(streams),
        only_one=tuple(only_one),
        by_prompt=by_prompt,
        caveats=(
            *step_caveats(mine, theirs, pairs),
            *rewards,
            *(
                caveat("large_evaluation", run=side.view.snapshot.name, folder=folder)
                for side, (_, folders) in zip((here, there), evaluations, strict=True)
                for folder in folders
            ),
            *(prompt_caveats(shared, by_prompt) if streams else ()),
        ),
        settings=tuple(compare_configs(*configs)) if all(each.files for each in configs) else (),
        hidden=sum(each.hidden for each in configs),
        has_settings=(bool(configs[0].files), bool(configs[1].files)),
        samples=() if shown is None else tuple(samples_of(shown, mine, theirs, pairs)),
        shown="" if shown is None else shown.stream.stream.name,
        powers=tuple(
            Detectable(each.stream.name, each.stream.column, detectable(each, float(limit)))
            for column in _POWER_OF
            for each, limit in zip(streams, limits, strict=True)
            if each.stream.column == column and not each.stream.name.startswith(("spread", "samples"))
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
    rest = f" Further numbers that part at that step or later: {more:,}." if more else ""
    return (
        f"The second run leaves the first {where}: {first.stream.stream.name} differs by "
        f"{number(first.difference, sign=True)}{error} "
        f"({number(first.here)} and {number(first.there)}).{rest}"
    )
