"""Page of the run: lint rules that failed with their samples, those that passed, and what to log."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import param

from rlpanel.errors import SampleNotFound
from rlpanel.lint.lint_rule import RuleResult
from rlpanel.lint.linter import LINT_RULES, LintProgress, linter_of
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.explain.sampled_page import SampledPage
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.language.finding_sentences import tr_lint
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView

# -- lint words ----------------------------------------------------------------------------------------
# Translates what to log for a lint rule into the language of the session.


_BREAK, _OR = marked("; "), marked(" or ")
#: What separates fields, but not within the brackets of a meaning.
_PARTS = re.compile(r"; (?![^()]*\))")
#: Keys of a field, and what it means.
_FIELD = re.compile(r"(\w+(?: or \w+)*)(?: \((.+)\))?", re.DOTALL)


def tr_log(text: str) -> str:
    """Return what to log, which is advice and fields with their meaning, in the current language."""
    parts, shown = _PARTS.split(text), []
    while parts:
        # The longest beginning that is one text: an advice may have a semicolon of its own.
        texts = ((at, "; ".join(parts[:at])) for at in range(len(parts), 0, -1))
        whole, said = next(((at, said) for at, each in texts if (said := tr_lint(each)) != each), (0, ""))
        shown.append(said if whole else _field(parts[0]))
        parts = parts[whole or 1 :]
    return tr(_BREAK).join(shown)


def _field(text: str) -> str:
    """Return the keys of a field and their meaning in the current language; another text stays as it is."""
    field = _FIELD.fullmatch(text)
    if field is None:
        return text
    names = field[1].replace(" or ", tr(_OR))
    sentence = f"{field[2]}." if field[2] else ""
    meaning = tr(sentence).rstrip("。.")
    return f"{names} ({meaning})" if meaning else names


# -- lint page -----------------------------------------------------------------------------------------


#: Samples of a step that the page reads by itself, and samples of the run of which it reads those of one
#: step: less than 5 % of the time in which they are indexed.
PER_STEP, SPREAD = 8, 2048
#: Seconds between two results of a reading that goes on.
PULSE = 0.3
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
        "formula": tr(result.rule.formula),
        "log": well_formed(tr_log(result.log)) if result.state == "not checkable" else "",
        "remark": well_formed(tr_lint(result.remark)),
        "samples": [
            {
                "uid": each.uid,
                "place": well_formed(f"{each.file}:{each.line}" if each.line else each.uid),
                "step": tr("step {step:,}", step=each.step),
                "detail": well_formed(tr_lint(each.detail)),
            }
            for each in result.examples
        ],
    }


class LintPage(SampledPage[LintProgress]):
    """The results of the lint rules, found in the background while the page is open.

    It reads some samples of each step; the others are read on demand. A run that grows is read on.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context, **params: Any) -> None:
        self.rules = LintRules(self._pick)
        everything = tr("Read all samples")
        super().__init__(
            context, self.rules, kind="lint", read_all=everything, per_step=PER_STEP, least=SPREAD, **params
        )

    def read(self, index: RunIndex, view: RunView) -> Iterator[LintProgress]:
        """Check the samples that the linter has not read yet."""
        linter = linter_of(index, view.snapshot.split, self.most, SPREAD if self.most else 0)
        return _slowly(linter.update(view, time.time()))

    def clear(self) -> None:
        """Show no rules."""
        self.rules.rules = []

    def show_found(self, found: LintProgress) -> None:
        """Show the progress, or all results at the end."""
        if not found.results:
            self.say_progress(
                tr("Reading {read:,} of {total:,} samples …", read=found.read, total=found.total)
            )
            return
        self.end(has_more=found.read < found.samples)
        self.note.html = note_html(_summary(found))
        self.rules.rules = [rule_row(result) for result in found.results]

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
            "The lines of {read:,} samples were read, up to {most} of a step; rules on groups and advantages "
            "check all.",
            read=found.read,
            most=PER_STEP,
        )
    return f"{text} {tr_lint(found.tokenizer)}." if found.tokenizer else text
