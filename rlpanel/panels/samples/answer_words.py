"""Answer, ground truth and match of one sample in words, and how the answer is read."""

from __future__ import annotations

from markupsafe import Markup

from rlpanel.display_settings import ANSWER_RULES
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.schema import Sample
from rlpanel.store.query.answer_columns import answer_columns
from rlpanel.texts.final_answers import DIFFERENT, EQUAL, RULES, UNCLEAR, ChosenRule
from rlpanel.texts.shorten import one_line, shorten

#: Most characters of an answer or a truth in a line.
_MAX_CHARS = 60


def answer_tip(chosen: ChosenRule) -> str:
    """Return how answers are read, and why so, in one paragraph."""
    labels = {key: label for label, key in ANSWER_RULES.items()}
    read = tr("Our reading, not the trainer's reward: {rule}.", rule=tr(labels[chosen.rule.key]))
    why = tr("The side panel sets this rule.")
    if chosen.equal:
        others = [
            f"{RULES[key].key} {count}" for key, count in chosen.equal.items() if key != chosen.rule.key
        ]
        why = tr(
            "Of {samples:,} samples tried, it equals the ground truth in {equal:,} (other rules: {others}).",
            samples=chosen.samples,
            equal=chosen.equal[chosen.rule.key],
            others=", ".join(others),
        )
    return f"{read} {why}"


def answer_html(context: Context, sample: Sample) -> str:
    """Return a line with the sample's answer beside its ground truth; empty if there is no truth."""
    if context.index is None or not (sample.ground_truth or "").strip():
        return ""
    columns = answer_columns(context.index, context.snapshot, context.display.answer_rule)
    if columns.chosen is None:
        return ""
    truth = sample.ground_truth or ""
    read = columns.read({"response": sample.response or "", "ground_truth": truth})
    answer, match = read.get(columns.answer), read.get(columns.match, UNCLEAR)
    words = {
        EQUAL: ("✓", tr("equal")),
        DIFFERENT: ("✗", tr("different")),
        UNCLEAR: ("○", tr("not comparable") if answer else tr("no answer found")),
    }
    return Markup(
        '<div class="answer {match}" title="{tip}"><span>{title} <b>{answer}</b></span>'
        "<span>{truth_title} <b>{truth}</b></span><span>{sign} {words}</span></div>"
    ).format(
        match=match,
        tip=answer_tip(columns.chosen),
        title=tr("answer ({rule})", rule=tr(columns.chosen.rule.key)),
        answer=shorten(one_line(answer), _MAX_CHARS) if answer else "–",
        truth_title=tr("truth"),
        truth=shorten(one_line(truth), _MAX_CHARS),
        sign=words[match][0],
        words=words[match][1],
    )
