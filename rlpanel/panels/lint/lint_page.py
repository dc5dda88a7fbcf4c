"""Page of the run: lint rules that failed with their samples, those that passed, and what to log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import SampleNotFound
from rlpanel.lint.lint_result import RuleResult
from rlpanel.lint.linter import LINT_RULES, LintProgress, linter_of
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import note_html

#: Samples of each step that the page reads by itself: less than 5 % of the time in which a step is indexed.
PER_STEP = 8
#: Seconds between two results of a reading that goes on, and between two readings of a run that grows.
PULSE, EVERY = 0.3, 10.0
#: Tab of the sample that shows what a part's rules are about.
_TABS = {
    "tokens and text": "tokens",
    "masks and turns": "tokens",
    "groups and prompts": "group",
    "advantages": "group",
    "logprobs": "tokens",
    "secrets": "conversation",
}


class LintRules(Component):
    """The rules in three groups, drawn by ``lint_rules.js``; a click on a sample calls ``pick``."""

    rules = param.List(default=[], doc="Results as made by `rule_row`, failed first.")

    _esm = read_assets("panels/ui/dom.js", "panels/lint/lint_rules.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/lint/lint_rules.css")]

    def __init__(self, pick: Callable[[str, str], None]) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(4, 8), css_classes=["rl-lint-rules"])
        self._pick = pick

    def receive(self, message: Any) -> None:
        """Open the sample that was clicked."""
        known = {(row["name"], each["uid"]) for row in self.rules for each in row["samples"]}
        if isinstance(message, list) and tuple(message) in known:  # the rules may have changed since
            self._pick(*message)


def rule_row(result: RuleResult) -> dict[str, Any]:
    """Return a result as plain texts."""
    counts = ""
    if result.state == "failed":
        counts = tr(
            "{failed:,} of {checked:,} samples ({share:.1%}), first at step {step:,}",
            failed=result.failed,
            checked=result.checked,
            share=result.share,
            step=result.first,
        )
    elif result.state == "passed":
        some = result.checked < result.samples
        counts = tr("{checked:,} of {samples:,} samples", checked=result.checked, samples=result.samples)
        counts = counts if some else tr("all {samples:,} samples", samples=result.samples)
    return {
        "name": result.rule.name,
        "title": tr(result.rule.title),
        "state": result.state,
        "counts": counts,
        "formula": result.rule.formula,
        "log": well_formed(result.log) if result.state == "not checkable" else "",
        "remark": well_formed(result.remark),
        "samples": [
            {
                "uid": each.uid,
                "place": well_formed(f"{each.file}:{each.line}" if each.line else each.uid),
                "step": tr("step {step:,}", step=each.step),
                "detail": well_formed(each.detail),
            }
            for each in result.examples
        ],
    }


class LintPage(Viewer):
    """The results of the lint rules, found in the background while the page is open.

    It reads some samples of each step; the others are read on demand. A run that grows is read on.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the page is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._most: int | None = PER_STEP
        self._key: tuple[object, ...] = ()
        self._begun, self._reads = 0.0, False
        self._work: BackgroundTask[LintProgress] = BackgroundTask(self._show, context.threads.views)
        self._note = Html(
            stylesheets=[theme.CSS, "p { margin: 0; }"], margin=(2, 8), css_classes=["rl-lint-note"]
        )
        self._all = button(tr("Read all samples"), self._on_all, visible=False, css_classes=["rl-lint-all"])
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-lint-stop"])
        self.rules = LintRules(self._pick)
        self._column = pn.Column(
            pn.FlexBox(
                self._note,
                self._all,
                self._stop,
                margin=(8, 8, 0, 8),
                gap="4px",
                min_height=34,
                align_items="center",
            ),
            self.rules,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-lint"],
        )
        context.param.watch(self._draw, ["view", "now"])
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        """Read what is new, unless it is being read already, or was a moment ago."""
        context, snapshot = self.context, self.context.snapshot
        if not self.active:
            if self._reads:  # what was read stays read
                self._end()
                self._key = ()
            return
        if self._key and self._key[0] is not context.index:
            self._most = PER_STEP  # all samples were asked for in another run
        run = (context.index, snapshot.split, self._most)
        key = (*run, snapshot.version)
        is_other = self._key[:3] != run
        if key == self._key or (not is_other and (self._reads or time.monotonic() - self._begun < EVERY)):
            return
        if context.index is None or not snapshot.samples:
            self._note.html = note_html(tr("This run has no samples yet."))
            self.rules.rules = []
            return
        if is_other:
            self.rules.rules = []
        self._key, self._begun, self._reads = key, time.monotonic(), True
        linter = linter_of(context.index, snapshot.split, self._most)
        self._work.start(_slowly(linter.update(context.view, time.time())))

    def _show(self, found: LintProgress) -> None:
        if not found.results:
            self._note.html = note_html(
                tr("Reading {read:,} of {total:,} samples …", read=found.read, total=found.total)
            )
            self._stop.visible, self._all.visible = True, False
            return
        self._end()
        self._all.visible = found.read < found.samples and self._most is not None
        self._note.html = note_html(_summary(found))
        self.rules.rules = [rule_row(result) for result in found.results]

    def _end(self) -> None:
        self._work.stop()
        self._reads = self._stop.visible = False

    def _on_all(self, *_: Any) -> None:
        self._most = None
        self._draw()

    def _on_stop(self, *_: Any) -> None:
        self._end()
        self._most = PER_STEP
        self._key = (self.context.index, self.context.snapshot.split, self._most, -1)
        self._all.visible = True
        self._note.html = note_html(tr("Stopped. What was read is kept."))

    def _pick(self, rule: str, uid: str) -> None:
        snapshot = self.context.snapshot
        try:
            step = int(snapshot.metadata("step")[snapshot.row(uid)])
        except SampleNotFound:
            return
        tab = _TABS[LINT_RULES[rule].part]
        self.context.selection.param.update(
            follow=False, token=-1, uid=uid, step=step, page="samples", tab=tab
        )


def _slowly(results: Iterator[LintProgress]) -> Iterator[LintProgress]:
    """Yield the first result, one every `PULSE` seconds, and the last."""
    last = -PULSE
    for result in results:
        if result.results or time.monotonic() - last >= PULSE:
            last = time.monotonic()
            yield result


def _summary(found: LintProgress) -> str:
    """Return the number of rules by state, and how many samples were read."""
    counts = [sum(each.state == state for each in found.results) for state in ("failed", "passed")]
    text = tr(
        "{failed:,} failed, {passed:,} passed, {others:,} not checkable in {samples:,} samples.",
        failed=counts[0],
        passed=counts[1],
        others=len(found.results) - sum(counts),
        samples=found.samples,
    )
    if found.read < found.samples:
        text += " " + tr(
            "The lines of {read:,} samples were read, up to {most} of each step; rules on groups and "
            "advantages check all.",
            read=found.read,
            most=PER_STEP,
        )
    return f"{text} {found.tokenizer}." if found.tokenizer else text
