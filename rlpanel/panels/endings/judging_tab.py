"""Tab of the sample: one card per judge call, and the output of the verifier."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import JudgeCall, Sample
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import escape_invisible

#: Characters of a text that are sent, and of an answer or a verdict that a card shows unopened.
MAX_CHARS, HEAD_CHARS = 200_000, 600


def has_judging(snapshot: Snapshot) -> bool:
    """Return whether samples of the run log calls of judges, or the output of a verifier."""
    return bool(snapshot.has_number("judge_calls") or snapshot.has_number("verifier_outputs"))


class JudgingView(Component):
    """Cards drawn by ``judging_view.js``, which asks for the texts of a card when it is opened."""

    cards = param.List(default=[], doc="Calls as made by `card_of`.")
    outputs = param.List(default=[], doc="Name and number of characters of each output of the verifier.")
    words = param.Dict(default={}, doc="Summary, and a sentence where something is missing.")

    _esm = read_assets("panels/ui/dom.js", "panels/endings/judging_view.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/endings/judging_view.css")]

    def __init__(self) -> None:
        super().__init__(sizing_mode="stretch_both", margin=(4, 8), css_classes=["rl-judging"])
        self.sample: Sample | None = None

    def receive(self, message: Any) -> None:
        """Send the texts of the card or the output that was opened; a browser may ask for anything."""
        sample = self.sample
        try:
            kind, at, shown = message
            if sample is None or shown != sample.uid or not isinstance(at, int) or at < 0:
                return
            if kind == "call":
                call = _calls(sample)[at]
                request = [[escape_invisible(role), _sent(text)] for role, text in call.request]
                texts = {"request": request, "answer": _sent(call.answer), "verdict": _sent(call.verdict)}
            else:
                texts = {"output": _sent([*sample.verifier.values()][at])}
        except (LookupError, TypeError, ValueError):
            return
        self.send({"uid": shown, "kind": kind, "at": at, **texts})


class JudgingTab(Viewer):
    """The judge calls of the shown sample, and its verifier's output.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._view = JudgingView()
        self._column = pn.Column(self._view, sizing_mode="stretch_both", margin=0)
        context.param.watch(self._draw, "sample")
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        sample = self.context.sample
        if self.active and sample is not self._view.sample:
            self._view.sample = sample
            self._view.param.update(**payload(sample))


def payload(sample: Sample | None) -> dict[str, Any]:
    """Return what the view shows before a card is opened."""
    if sample is None:
        return {"cards": [], "outputs": [], "words": {}}
    calls = _calls(sample)
    outputs = [[escape_invisible(name), len(text)] for name, text in sample.verifier.items()]
    nothing = tr("No judge call and no output of a verifier is logged for this sample.")
    words = {"uid": sample.uid, "summary": summary(calls), "missing": "" if calls or outputs else nothing}
    return {"cards": [card_of(call) for call in calls], "outputs": outputs, "words": words}


def _calls(sample: Sample) -> tuple[JudgeCall, ...]:
    """Return the calls of judges, and after them their texts that are logged by name without a call."""
    known = {call.answer for call in sample.judge_calls}
    texts = (
        JudgeCall(name=name, answer=text, verdict_logged=False)
        for name, text in sample.judge.items()
        if text not in known
    )
    return (*sample.judge_calls, *texts)


def card_of(call: JudgeCall) -> dict[str, Any]:
    """Return the head of a card as plain texts."""
    tokens = [value for value in (call.prompt_tokens, call.answer_tokens) if math.isfinite(value)]
    usage = tr(
        "{read} → {written} tokens", read=_count(call.prompt_tokens), written=_count(call.answer_tokens)
    )
    facts = [usage] if tokens else []
    facts += [f"{call.seconds:,.3g} s"] if math.isfinite(call.seconds) else []
    facts += [f"${call.cost:,.3g}"] if math.isfinite(call.cost) else []
    state = "missing" if call.is_missing else "plain"
    if state == "plain" and math.isfinite(call.score):
        state = "good" if call.score >= 1 else "bad" if call.score <= 0 else "plain"
    return {
        "name": escape_invisible(call.name),
        "model": escape_invisible(call.model if call.model != call.name else ""),
        "state": state,
        "verdict": _head(call.verdict) if call.verdict else _no_verdict(call),
        "score": number(call.score) if math.isfinite(call.score) else "",
        "error": _head(call.error),
        "facts": facts,
        "answer": _head(call.answer),
        "cut": max(len(call.answer) - HEAD_CHARS, 0),
        "messages": len(call.request),
        "long": len(call.verdict) > HEAD_CHARS,
    }


def _no_verdict(call: JudgeCall) -> str:
    return tr("no verdict") if call.verdict_logged else tr("verdict not logged")


def summary(calls: tuple[JudgeCall, ...]) -> str:
    """Return the number of calls, missing verdicts, tokens and seconds as far as known."""
    if not calls:
        return ""
    parts = [tr("{calls:,} judge calls", calls=len(calls))]
    if missing := sum(call.is_missing for call in calls):
        parts.append(tr("{missing:,} without a verdict", missing=missing))
    tokens = [call.prompt_tokens + call.answer_tokens for call in calls]
    seconds = [call.seconds for call in calls]
    for values, label in ((tokens, tr("tokens")), (seconds, "s")):
        known = [value for value in values if math.isfinite(value)]
        if known:
            part = f"{sum(known):,.6g} {label}"
            parts.append(part if len(known) == len(values) else f"≥ {part}")
    return " · ".join(parts)


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "?"


def _head(text: str) -> str:
    return escape_invisible(text if len(text) <= HEAD_CHARS else f"{text[:HEAD_CHARS]}…")


def _sent(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return escape_invisible(text)
    left = tr("[… {chars:,} characters left out …]", chars=len(text) - MAX_CHARS)
    half = MAX_CHARS // 2
    return escape_invisible(f"{text[:half]}\n{left}\n{text[-half:]}")
