"""Summary of a comparison of two runs as escaped HTML, with notes, and its export: one row per prompt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rlpanel.analysis.run_comparison import Prompts, RunComparison, pairs_frame
from rlpanel.board_url import BEST
from rlpanel.metrics.win_rate import Share, WinRate
from rlpanel.number_text import number
from rlpanel.panels.export.card_export import CardExport, file_name
from rlpanel.panels.language.labels import marked, tr, tr_html, trn
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.alignment import ComparedReward
from rlpanel.store.snapshot.prompt_pairs import PromptPairs

#: Maximum number of reward functions that a sentence names.
_MAX_NAMED = 6

_SHARED = marked(
    "The rewards of the two runs are different sums. So the functions that both runs log are summed instead, "
    "also in the chart, the list and the export. As in TRL, a function without a score is left out of its "
    "sample's sum."
)
_DOUBTFUL = marked(
    "A difference may come from the reward functions alone and say nothing about the policies."
)
_HALVES = marked(
    "The prompts are split into two halves by a hash of their text. The step with the highest mean reward "
    "over one half is chosen, and the runs are compared on the other half. On the prompts by which it was "
    "chosen, the best of many steps would win by luck alone."
)


class ComparisonNote(NamedTuple):
    """A sentence in plain text, its tooltip, and whether it warns."""

    text: str
    tip: str
    warns: bool = False


def comparison_notes(
    reward: ComparedReward, pairs: PromptPairs, at: tuple[str, str], labels: tuple[str, str]
) -> list[ComparisonNote]:
    """Return the sentences about a comparison; none if both runs' own rewards of all prompts are compared.

    Parameters
    ----------
    reward : ComparedReward
    pairs : PromptPairs
    at : tuple of str
        Choice of the samples of either run (see `rlpanel.board_url.NEWEST`).
    labels : tuple of str
        Names of the two runs.
    """
    notes = []
    if reward.functions:
        notes.append(ComparisonNote(_shared_text(reward, labels), tr(_SHARED)))
    elif reward.doubtful:
        notes.append(ComparisonNote(_doubtful_text(reward, labels), tr(_DOUBTFUL), warns=True))
    if BEST in at and len(pairs):
        notes.append(ComparisonNote(_best_text(pairs, at, labels), tr(_HALVES), not pairs.held_out.any()))
    return notes


def _shared_text(reward: ComparedReward, labels: tuple[str, str]) -> str:
    count = len(reward.functions)
    text = trn(
        "Compared on {count:,} shared reward function: {names}.",
        "Compared on {count:,} shared reward functions: {names}.",
        count,
        names=_sum_text(reward),
    )
    left_out = [
        tr("{names} (only in {label})", names=_names(names), label=label)
        for names, label in zip((reward.only_here, reward.only_there), labels, strict=True)
        if names
    ]
    return tr("{text} Left out: {left_out}.", text=text, left_out=", ".join(left_out)) if left_out else text


def _sum_text(reward: ComparedReward) -> str:
    """Return the sum as text, with its weights or the reason why it has none."""
    if reward.weighting == "same":
        pairs = zip(reward.weights, reward.functions, strict=True)
        return tr(
            "{names}, with the runs' weights",
            names=_names([f"{weight:g} × {name}" for weight, name in pairs], " + "),
        )
    reason = {
        "different": tr("unweighted, since the runs give them different weights"),
        "unknown": tr("unweighted, since run.json does not give their weights in both runs"),
    }[reward.weighting]
    return f"{_names(reward.functions, ' + ')}, {reason}"


def _doubtful_text(reward: ComparedReward, labels: tuple[str, str]) -> str:
    start = tr("The rewards of the two runs may be different numbers:")
    here, there = labels
    if reward.only_here and reward.only_there:
        return tr(
            "{start} they have no reward function in common. "
            "{here} logs {here_names}, {there} logs {there_names}.",
            start=start,
            here=here,
            here_names=_names(reward.only_here),
            there=there,
            there_names=_names(reward.only_there),
        )
    names, with_functions, without = (
        (reward.only_here, here, there) if reward.only_here else (reward.only_there, there, here)
    )
    return tr(
        "{start} {with_functions} logs its reward functions ({names}), {without} only their total.",
        start=start,
        with_functions=with_functions,
        names=_names(names),
        without=without,
    )


def _best_text(pairs: PromptPairs, at: tuple[str, str], labels: tuple[str, str]) -> str:
    """Return which steps were chosen on how many prompts, and how many other prompts are compared."""
    counts, sides = (pairs.chose_here, pairs.chose_there), (pairs.here, pairs.there)
    steps = [f"{label} ({side.step[0]:,})" for label, side in zip(labels, sides, strict=True)]
    if at == (BEST, BEST) and counts[0] == counts[1]:
        chosen = tr(
            "Best steps of {steps} chosen on {prompts}",
            steps=tr(" and ").join(steps),
            prompts=_prompts(counts[0]),
        )
    else:
        chosen = tr(" and ").join(
            tr("best step of {step} chosen on {prompts}", step=step, prompts=_prompts(count))
            for step, count, choice in zip(steps, counts, at, strict=True)
            if choice == BEST
        )
    chosen = chosen[0].upper() + chosen[1:]
    others = int(pairs.held_out.sum())
    if not others:
        return tr("{chosen}; no other prompt is in both runs, so there is no win rate.", chosen=chosen)
    return tr("{chosen}; compared on the other {others:,}.", chosen=chosen, others=others)


def _prompts(count: int) -> str:
    return trn("{count:,} prompt", "{count:,} prompts", count)


def _names(names: Sequence[str], separator: str = ", ") -> str:
    listed = separator.join(names[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return (
        tr("{listed}{separator}{more:,} more", listed=listed, separator=separator, more=more)
        if more > 0
        else listed
    )


#: Half widths outside of these bounds are shown with an exponent.
_MIN_PLAIN, _MAX_PLAIN = 1e-4, 1e6
_UNIT = marked(
    "Each prompt counts once, with its mean reward over its samples in a run: samples of one prompt are "
    "correlated and do not count as independent."
)
_WILSON = marked("Share of the prompts with its 95 % Wilson score interval.")
_MEAN = marked("Mean over prompts of this run's reward minus the other run's.")


def matched_html(pairs: PromptPairs, here: str, there: str, how: str) -> str:
    """Return HTML with the number of prompts in both runs and in only one of them."""
    both = trn("{count:,} prompt in both runs", "{count:,} prompts in both runs", len(pairs))
    only_here = tr_html("{count:,} only in {run}", count=pairs.only_here, run=here)
    only_there = tr_html("{count:,} only in {run}", count=pairs.only_there, run=there)
    return (
        f'<div class="matched"><b>{both}</b>'
        f"<span>{only_here}</span>"
        f"<span>{only_there}</span>"
        f'<span class="how">{safe_text(tr(how))}</span></div>'
    )


def notes_html(notes: Iterable[ComparisonNote]) -> str:
    """Return HTML with a line for each note."""
    return "".join(
        f'<div class="basis{" warns" if note.warns else ""}" title="{safe_text(note.tip)}">'
        f"{safe_text(note.text)}</div>"
        for note in notes
    )


def win_rate_html(rate: WinRate) -> str:
    """Return HTML with a bar of wins, ties and losses, their intervals, and the mean difference."""
    mean_label = tr("mean difference")
    parts = (
        (tr("won"), "policy", rate.wins),
        (tr("tied"), "tie", rate.ties),
        (tr("lost"), "reference", rate.losses),
    )
    bar = "".join(f'<i class="{color}" style="flex-grow:{share.count}"></i>' for _, color, share in parts)
    shares = "".join(
        f'<span><em class="{color}">{word}</em> <b>{share.value:.0%}</b> '
        f"({_interval(share)}) <small>{share.count:,}</small></span>"
        for word, color, share in parts
    )
    return (
        f'<div class="bar">{bar}</div><div class="outcome">'
        f'<div title="{tr(_WILSON)} {tr(_UNIT)}">{shares}<small>Wilson 95 %</small></div>'
        f'<div title="{tr(_MEAN)} {tr(_UNIT)}">{mean_label} <b>{_mean(rate)}</b> '
        f"<small>{_method(rate)}</small></div>"
        "</div>"
    )


def win_rate_text(rate: WinRate) -> str:
    """Return the win rate and mean difference as plain text."""
    if not rate.prompts:
        return ""
    parts = ((tr("won"), rate.wins), (tr("tied"), rate.ties), (tr("lost"), rate.losses))
    shares = ", ".join(f"{share.value:.0%} {word} ({_interval(share)})" for word, share in parts)
    return tr(
        "{shares}, Wilson 95 %; mean difference {mean} {method}",
        shares=shares,
        mean=_mean(rate),
        method=_method(rate),
    )


def _mean(rate: WinRate) -> str:
    """Return the mean difference, rounded like its half width, which has two significant digits."""
    if rate.no_interval:
        return number(rate.mean, sign=True)
    if not _MIN_PLAIN <= rate.half < _MAX_PLAIN:
        return f"{number(rate.mean, sign=True)} ± {number(rate.half)}"
    decimals = max(0, 1 - math.floor(math.log10(rate.half)))
    mean = round(rate.mean, decimals)
    sign = "+" if mean > 0 else "−" if mean < 0 else ""
    return f"{sign}{abs(mean):,.{decimals}f} ± {rate.half:,.{decimals}f}"


def _method(rate: WinRate) -> str:
    if rate.no_interval:
        return tr("(no interval: {no_interval})", no_interval=rate.no_interval)
    return tr("(95 %, Student's t over {prompts:,} prompts)", prompts=rate.prompts)


def _interval(share: Share) -> str:
    return f"{100 * share.low:.0f}–{100 * share.high:.0f}%"


def comparison_export(comparison: RunComparison, prompts: Prompts, labels: tuple[str, str]) -> CardExport:
    """Return the export of the histogram of differences.

    Parameters
    ----------
    comparison : RunComparison
    prompts : Prompts
        Reads the prompts on the thread that builds the table.
    labels : tuple of str
        Names of the selected run and of the other run.
    """
    here, there = labels
    notes = comparison_notes(
        comparison.reward, comparison.pairs, (comparison.here.at, comparison.there.at), labels
    )
    sentences = [
        tr("{pairs:,} prompts.", pairs=len(comparison.pairs)),
        f"{comparison.how}.",
        *(note.text for note in notes),
    ]
    return CardExport(
        name=f"{file_name(here)}-against-{file_name(there)}",
        title=tr("Reward of {here} minus reward of {there}, per prompt", here=here, there=there),
        words=" ".join([*sentences, win_rate_text(comparison.rate)]).strip(),
        rows=lambda: pairs_frame(comparison, prompts),
        legend=(("won", "policy"), ("tied", "muted"), ("lost", "reference")),
    )
