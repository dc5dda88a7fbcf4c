"""Part of the page *Drift*: what corrections for the gap do, beside what the trainer logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpanel.drift.corrections import (
    CORRECTIONS,
    LOGGED,
    LOGGED_TITLE,
    Corrected,
    RunCorrection,
    corrected,
    logged_correction,
)
from rlpanel.drift.gap_tokens import GapTokens
from rlpanel.drift.taken_away import Taken, taken_away
from rlpanel.number_text import number
from rlpanel.panels.explain.link_rows import LinkRows, link_row
from rlpanel.panels.inputs.input_fields import TabBar, slider_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text


class CorrectionView:
    """Rows of corrections, the bound of the chosen one, and what it takes away.

    Parameters
    ----------
    words, what : Html
        Places of the two headings.

    Attributes
    ----------
    parts : list
        The views, from top to bottom.
    """

    def __init__(self, words: Html, what: Html) -> None:
        self._tokens: GapTokens | None = None
        self._logged: Corrected | None = None
        self._own: dict[str, RunCorrection] = {}
        self._not_recomputed: list[str] = []
        self._chosen, self._dimension = "", ""
        self._taken: list[Taken] = []
        self._words, self._what = words, what
        self.rows = LinkRows(self._choose, "rl-drift-corrections")
        self.bound = slider_field(
            "drift-bound",
            tr("Upper bound of the ratio"),
            start=1.0,
            end=10.0,
            step=0.05,
            value=CORRECTIONS["tis"].high,
            width=320,
            margin=(6, 16, 4, 16),
        )
        self.bound.param.watch(self._draw, "value")
        self.bar = TabBar(
            css_classes=["rl-drift-taken-bar"],
            label=tr("What the correction takes away"),
            margin=(6, 8, 0, 8),
        )
        self.bar.on_message(self._choose_dimension)
        self.taken = LinkRows(lambda key: None, "rl-drift-taken")
        self.parts = [self._words, self.rows, self.bound, self._what, self.bar, self.taken]

    def show(self, tokens: GapTokens, own: Sequence[RunCorrection] = ()) -> None:
        """Show the corrections of trained tokens; the logged one, then the run's own, is chosen first.

        Parameters
        ----------
        tokens : GapTokens
        own : sequence of RunCorrection
            Corrections that the run's settings name; they have the bounds of these.
        """
        had, self._tokens = self._logged, tokens
        self._own = {each.name: each for each in own if each.name}
        self._not_recomputed = [each.settings for each in own if not each.name]
        self._logged = logged_correction(tokens) if len(tokens.trainer) else None
        if self._logged is not None and had is None:
            self._choose(LOGGED)
        elif not self._chosen or (self._logged is None and self._chosen == LOGGED):
            self._choose(next(iter(self._own), "tis"))
        else:
            self._draw()

    def _usual(self, key: str) -> tuple[float, float]:
        """Return the bounds of a correction: the run's own ones, else the usual ones."""
        rule = self._own.get(key) or CORRECTIONS[key]
        return rule.low, rule.high

    def _choose(self, key: str) -> None:
        self._chosen = key
        self.bound.visible = key != LOGGED
        if key in CORRECTIONS:
            high = self._usual(key)[1]
            small = high < 1.01
            self.bound.param.update(
                start=1.0, end=1.02 if small else max(10.0, high), step=0.0001 if small else 0.05, value=high
            )
        self._draw()

    def _choose_dimension(self, key: Any) -> None:
        if key in {tab["key"] for tab in self.bar.tabs}:
            self._dimension = key
            self._show_taken()

    def _draw(self, *_: Any) -> None:
        tokens = self._tokens
        if tokens is None or not len(tokens.trainer):
            return
        words = tr("What corrections for the gap do")
        note = tr(
            "Recomputed for each token from the logprobs, with the usual bounds. A click chooses a "
            "correction, and the slider moves its upper bound."
        )
        if self._own:
            of_run = "; ".join(each.settings for each in self._own.values())
            note += " " + tr("The run trains with these bounds: {settings}.", settings=of_run)
        if self._not_recomputed:
            note += " " + tr("Not recomputed here: {settings}.", settings="; ".join(self._not_recomputed))
        self._words.html = f'<h4>{safe_text(words)}</h4><p class="note">{safe_text(note)}</p>'
        rows, chosen = [], self._logged
        if self._logged is not None:
            rows.append(self._row(LOGGED, tr(LOGGED_TITLE), self._logged))
        for key, rule in CORRECTIONS.items():
            low, usual = self._usual(key)
            high = float(self.bound.value or 0.0) if key == self._chosen else usual
            if high <= low:
                continue
            result = corrected(tokens, key, low, high)
            chosen = result if key == self._chosen else chosen
            label = tr("{correction}, {low:g} to {high:g}", correction=tr(rule.title), low=low, high=high)
            if key in self._own:
                own = tr("of this run")
                label += f" · {own}"
            rows.append(self._row(key, label, result))
        titles = ["", tr("changes"), tr("correction and bounds of the ratio")]
        titles += [tr("kept"), tr("effective"), tr("weight")]
        titles += [tr("as logged")] if self._logged is not None else []
        self.rows.param.update(titles=titles, rows=rows, chosen=self._chosen)
        self._show_what(chosen, tokens)

    def _row(self, key: str, label: str, result: Corrected) -> dict[str, Any]:
        changed = float(result.changed.mean())
        # Where all tokens are masked, no weight is left to be effective.
        effective = "–" if np.isnan(result.effective) else f"{result.effective:.1%}"
        numbers = [f"{result.kept:.1%}", effective, number(float(result.weight.mean()))]
        if self._logged is not None:
            agrees = result.agreement(self._logged)
            numbers.append("–" if key == LOGGED or np.isnan(agrees) else f"{agrees:.0%}")
        tip = tr("as logged: share of the tokens masked by this or by the log that both mask")
        return link_row(key, label, f"{changed:.1%}", changed, numbers, tip=tip if self._logged else "")

    def _show_what(self, result: Corrected | None, tokens: GapTokens) -> None:
        self._taken = [] if result is None else taken_away(tokens, result)
        names = list(dict.fromkeys(each.dimension for each in self._taken))
        self._dimension = self._dimension if self._dimension in names else next(iter(names), "")
        self.bar.tabs = [{"key": name, "title": tr(name)} for name in names]
        self.bar.visible = self.taken.visible = bool(names)
        chosen = CORRECTIONS.get(self._chosen)
        words = tr(
            "What it takes away: {correction}", correction=tr(chosen.title if chosen else LOGGED_TITLE)
        )
        if not names:
            words = tr(
                "{correction}: it changes no token.", correction=tr(chosen.title if chosen else LOGGED_TITLE)
            )
        self._what.html = f"<h4>{safe_text(words[:1].upper() + words[1:])}</h4>"
        self._show_taken()

    def _show_taken(self) -> None:
        self.bar.value = self._dimension
        shown = [each for each in self._taken if each.dimension == self._dimension]
        largest = max((each.part for each in shown), default=1.0) or 1.0
        self.taken.param.update(
            titles=[
                "",
                tr("changes"),
                tr(self._dimension),
                tr("share"),
                tr("tokens"),
                tr("samples"),
                tr("weight"),
            ],
            rows=[
                link_row(
                    each.value,
                    each.value if each.value.strip() else each.value.replace(" ", "␣"),
                    f"{each.part:.1%}",
                    each.part / largest,
                    [f"{each.share:.0%}", f"{each.changed:,}", f"{each.samples:,}", number(each.weight)],
                    tip=tr("{changed:,} of {tokens:,} tokens", changed=each.changed, tokens=each.tokens),
                )
                for each in shown
            ],
            chosen="",
        )
