"""Summary of a comparison of two runs as escaped HTML: matched prompts, win rate and mean difference."""

from __future__ import annotations

import math

from rlpanel.metrics.win_rate import Share, WinRate
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.store.snapshot.prompt_pairs import PromptPairs

_WILSON = "Share of prompts with 95 % Wilson score interval. Each prompt counts once, with its mean reward."
_NORMAL = "Mean difference over prompts ± 1.96 standard errors (normal approximation)."


def matched_html(pairs: PromptPairs, here: str, there: str, how: str) -> str:
    """Return HTML with the number of prompts in both runs and in only one of them."""
    noun = "prompt" if len(pairs) == 1 else "prompts"
    return (
        f'<div class="matched"><b>{len(pairs):,} {noun} in both runs</b>'
        f"<span>{pairs.only_here:,} only in {safe_text(here)}</span>"
        f"<span>{pairs.only_there:,} only in {safe_text(there)}</span>"
        f'<span class="how">{safe_text(how)}</span></div>'
    )


def win_rate_html(rate: WinRate) -> str:
    """Return HTML with a bar of wins, ties and losses, their intervals, and the mean difference."""
    parts = (("won", "good", rate.wins), ("tied", "tie", rate.ties), ("lost", "bad", rate.losses))
    bar = "".join(f'<i class="{color}" style="flex-grow:{share.count}"></i>' for _, color, share in parts)
    shares = "".join(
        f'<span title="{_WILSON}"><em class="{color}">{word}</em> <b>{share.value:.0%}</b> '
        f"{_interval(share)} <small>{share.count:,}</small></span>"
        for word, color, share in parts
    )
    mean = f'<span title="{_NORMAL}">mean difference <b>{number(rate.mean, sign=True)}</b>'
    if not math.isnan(rate.low):
        mean += f" {number(rate.low, sign=True)} … {number(rate.high, sign=True)}"
    return f'<div class="bar">{bar}</div><div class="outcome">{shares}{mean}</span></div>'


def win_rate_text(rate: WinRate) -> str:
    """Return the win rate and mean difference as plain text."""
    won, tied, lost = (f"{share.value:.0%}" for share in (rate.wins, rate.ties, rate.losses))
    return f"{won} won, {tied} tied, {lost} lost; mean difference {number(rate.mean, sign=True)}"


def _interval(share: Share) -> str:
    return f"{share.low:.0%}–{share.high:.0%}"
