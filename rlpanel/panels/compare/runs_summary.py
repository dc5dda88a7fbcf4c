"""What a comparison of two runs came to, in words and a bar; safe as HTML."""

from __future__ import annotations

import math

from rlpanel.metrics.win_rate import Share, WinRate
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.store.snapshot.prompt_pairs import PromptPairs

_WILSON = "Share of prompts, with its 95 % Wilson score interval. A prompt counts once, by its mean reward."
_NORMAL = "Mean over prompts of the difference, ± 1.96 standard errors (normal approximation)."


def matched_html(pairs: PromptPairs, here: str, there: str, how: str) -> str:
    """How many prompts both runs have, and how many stand alone."""
    noun = "prompt" if len(pairs) == 1 else "prompts"
    return (
        f'<div class="matched"><b>{len(pairs):,} {noun} in both</b>'
        f"<span>{pairs.alone_here:,} in {safe_text(here)} alone</span>"
        f"<span>{pairs.alone_there:,} in {safe_text(there)} alone</span>"
        f'<span class="how">{safe_text(how)}</span></div>'
    )


def win_rate_html(found: WinRate) -> str:
    """Wins, ties and losses as a bar with their intervals, and the mean difference."""
    parts = (("won", "good", found.wins), ("tied", "tie", found.ties), ("lost", "bad", found.losses))
    bar = "".join(f'<i class="{color}" style="flex-grow:{share.count}"></i>' for _, color, share in parts)
    words = "".join(
        f'<span title="{_WILSON}"><em class="{color}">{word}</em> <b>{share.value:.0%}</b> '
        f"{_between(share)} <small>{share.count:,}</small></span>"
        for word, color, share in parts
    )
    mean = f'<span title="{_NORMAL}">mean difference <b>{number(found.mean, sign=True)}</b>'
    if not math.isnan(found.low):
        mean += f" {number(found.low, sign=True)} … {number(found.high, sign=True)}"
    return f'<div class="bar">{bar}</div><div class="outcome">{words}{mean}</span></div>'


def win_rate_text(found: WinRate) -> str:
    """The same in plain words."""
    won, tied, lost = (f"{share.value:.0%}" for share in (found.wins, found.ties, found.losses))
    return f"{won} won, {tied} tied, {lost} lost; mean difference {number(found.mean, sign=True)}"


def _between(share: Share) -> str:
    return f"{share.low:.0%}–{share.high:.0%}"
