"""Compares two runs step by step: where the second leaves the first, and what cannot be said about that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.divergence.divergence_caveats import (
    SHARED,
    Caveat,
    caveat,
    prompt_caveats,
    reward_caveats,
    shared_prompts,
    step_caveats,
)
from rlpanel.divergence.evaluation_prompts import held_out_prompts
from rlpanel.divergence.held_out_parting import with_held_out
from rlpanel.divergence.paired_streams import PairedStream, paired_streams
from rlpanel.divergence.parting import CHANCE, Parting, detectable, find_partings, limits_of
from rlpanel.divergence.parting_samples import SamplePair, samples_of
from rlpanel.divergence.read_texts import HELD_OUT, with_texts
from rlpanel.divergence.step_pairs import Align, StepPairs, pair_steps
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.window_scan import MIN_STEPS
from rlpanel.number_text import number
from rlpanel.settings import FindingSettings
from rlpanel.sources.config.run_config import SettingPair, compare_configs, read_run_config
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

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
