"""Summary of a comparison of two runs as escaped HTML: matched prompts, win rate and mean difference."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rlpanel.metrics.win_rate import Share, WinRate
from rlpanel.number_text import number
from rlpanel.panels.compare.comparison_notes import ComparisonNote
from rlpanel.panels.language.labels import marked, tr, tr_html, trn
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.prompt_pairs import PromptPairs

#: Half widths outside of these bounds are shown with an exponent.
_SMALLEST, _LARGEST = 1e-4, 1e6
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
    parts = ((tr("won"), "good", rate.wins), (tr("tied"), "tie", rate.ties), (tr("lost"), "bad", rate.losses))
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
    if not _SMALLEST <= rate.half < _LARGEST:
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
