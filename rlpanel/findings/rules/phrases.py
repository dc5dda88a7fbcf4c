"""Rules on phrases that are new: in responses, in the results of tools, and at the ends of prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from rlpanel.analysis.difference import likelihood_root
from rlpanel.findings.engine.change import percent, span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.rules.texts import mask_of, read_steps

#: Newest read steps that are compared with earlier ones, fewest earlier ones, and steps between that may
#: belong to a slow rise.
_WINDOW, _FEWEST_BEFORE, _BETWEEN = 5, 6, 24
#: Share of the newest samples with a new phrase, and the most of the earlier ones.
_NEW, _OLD = 0.2, 0.02
#: Root of the likelihood ratio: thousands of phrases are tried.
_ROOT = 6.0
#: Share of the samples from which on a new phrase is worth a warning by itself.
_MOST = 0.5
#: Share of samples with a beginning or an end of the prompt that no earlier step had.
_UNSEEN, _USUALLY = 0.5, 0.1
#: Most words of a quote.
_QUOTED = 14


def _counts(context: RuleContext, steps: list[int], kind: str) -> tuple[Counter[int], int]:
    """Return how many samples of some steps have each phrase, and the number of samples."""
    assert context.texts is not None
    total: Counter[int] = Counter()
    for step in steps:
        total.update(context.texts.steps[step].phrases[kind])
    return total, sum(len(context.texts.steps[step].rows) for step in steps)


def _new_phrases(context: RuleContext, kind: str) -> tuple[dict[int, float], list[int]]:
    """Return the phrases that are new in the newest window with their share, and the steps before."""
    steps = read_steps(context)
    if len(steps) < _WINDOW + _FEWEST_BEFORE:
        return {}, []
    between = min(_BETWEEN, len(steps) - _WINDOW - _FEWEST_BEFORE)
    newest, before = steps[-_WINDOW:], steps[: len(steps) - _WINDOW - between]
    late, late_samples = _counts(context, newest, kind)
    assert context.texts is not None
    early = [context.texts.steps[step].phrases[kind] for step in before]
    early_samples = sum(len(context.texts.steps[step].rows) for step in before)
    if not late_samples or not early_samples:
        return {}, []
    found = {}
    for key, count in late.items():
        share = count / late_samples
        most = max(_OLD, 0.1 * share) * early_samples
        if share >= _NEW and (old := _sum_up_to(early, key, most)) <= most:
            root = likelihood_root(np.array([count]), late_samples, np.array([old]), early_samples)[0]
            if root >= _ROOT:
                found[key] = share
    return found, before


def _sum_up_to(counters: Sequence[Counter[int]], key: int, most: float) -> int:
    """Return how often a phrase occurs; counting ends above a number, since most phrases are old."""
    total = 0
    for counter in counters:
        total += counter.get(key, 0)
        if total > most:
            break
    return total


def _quote(context: RuleContext, found: dict[int, float]) -> str:
    """Return the words of the most frequent new phrase, joined with new ones that overlap it."""
    assert context.texts is not None
    spelled = {key: context.texts.words[key].split(" ") for key in found if key in context.texts.words}
    if not spelled:
        return ""
    best = max(spelled, key=lambda key: found[key])
    quote, left = list(spelled[best]), {key: words for key, words in spelled.items() if key != best}
    for is_front in (False, True):
        while len(quote) < _QUOTED:
            near = quote[:2] if is_front else quote[-2:]
            fitting = [
                key
                for key, words in left.items()
                if (words[1:] if is_front else words[:2]) == near and found[key] >= 0.5 * found[best]
            ]
            if not fitting:
                break
            words = left.pop(max(fitting, key=lambda key: found[key]))
            quote = [words[0], *quote] if is_front else [*quote, words[-1]]
    return " ".join(quote)


def _onset(context: RuleContext, kind: str, key: int, share: float) -> int:
    """Return the first read step from which on a third of the newest share is held."""
    assert context.texts is not None
    steps = read_steps(context)
    level = [
        context.texts.steps[step].phrases[kind][key] / max(len(context.texts.steps[step].rows), 1)
        for step in steps
    ]
    first = len(steps) - 1
    while first and np.mean(level[max(0, first - 2) : first]) > share / 4:
        first -= 1
    while first < len(steps) - 1 and level[first] < share / 6:
        first += 1
    return steps[first]


@rule("New phrase in responses", "change_z")
def new_phrase(context: RuleContext) -> Iterator[Finding]:
    """A phrase of three words, with masked digits, is in 20% of the newest responses and was in 2% before.

    Up to 16 responses of each step are read. It is a warning from 50% on, else an info.
    """
    found, before = _new_phrases(context, "response")
    if not found:
        return
    yield _finding(
        context, "response", found, before, "of the responses contain the new phrase", harmful=False, tab=""
    )


@rule("New phrase in tool results", "change_z")
def new_result(context: RuleContext) -> Iterator[Finding]:
    """A phrase of three words, with masked digits, is in 20% of the newest tool results and was in 2% before.

    Up to 16 rollouts of each step are read.
    """
    found, before = _new_phrases(context, "result")
    if not found:
        return
    yield _finding(
        context,
        "result",
        found,
        before,
        "of the rollouts have a tool result with the new phrase",
        harmful=False,
        tab="conversation",
    )


def _new(count: int) -> str:
    return f"{count:,} phrases of three words are new." if count != 1 else "No other phrase is new."


def _finding(
    context: RuleContext,
    kind: str,
    found: dict[int, float],
    before: list[int],
    text: str,
    *,
    harmful: bool,
    tab: str,
) -> Finding:
    assert context.texts is not None
    best = max(found, key=lambda key: (found[key], key in context.texts.words))  # type: ignore[union-attr]
    share, first = found[best], _onset(context, kind, best, found[best])
    mask = mask_of(context, first, first, ongoing=True)
    quote = _quote(context, found)
    before = [step for step in before if step < first] or before
    severity = severity_of(context, mask, harmful=harmful) if share >= _MOST or kind == "result" else "info"
    return Finding(
        severity=severity,
        sentence=f"From step {first:,} on, {percent(share)} {text} “{quote}”.",
        evidence=(
            f"At most {percent(_OLD)} of the samples of "
            f"{span(np.array(before), np.ones(len(before), bool))} have it. {_new(len(found))}",
        ),
        advice="Read responses with it and without it, and compare their rewards within a group."
        if kind == "response"
        else "Run the tool by hand with the same arguments.",
        steps=tuple(context.steps[mask].tolist()),
        ongoing=True,
        tab=tab,
        subject=kind,
    )


@rule("Template of the prompts")
def prompt_template(context: RuleContext) -> Iterator[Finding]:
    """Half of a step's prompts begin or end as no prompt before did, and go on so.

    The first 24 and the last 12 characters count, with masked digits. Runs whose prompts all differ there are
    left out.
    """
    steps = read_steps(context)
    if context.texts is None or len(steps) < _FEWEST_BEFORE + 1:
        return
    for kind, verb in (("prompt end", "end"), ("prompt begin", "begin")):
        seen: Counter[int] = Counter()
        unseen = []
        for step in steps:
            counts = context.texts.steps[step].phrases[kind]
            size = max(sum(counts.values()), 1)
            unseen.append(sum(count for key, count in counts.items() if key not in seen) / size)
            seen.update(counts)
        for at in range(len(steps) - 1, _FEWEST_BEFORE - 1, -1):
            if unseen[at] < _UNSEEN or np.median(unseen[max(1, at - 10) : at]) > _USUALLY:
                continue
            old, old_size = _counts(context, steps[:at], kind)
            new, new_size = _counts(context, steps[at:], kind)
            usual = [key for key, count in old.items() if count >= 0.05 * old_size]
            left = sum(new[key] for key in usual) / max(new_size, 1)
            if left > 0.5 or not usual:
                continue
            mask = mask_of(context, steps[at], steps[at], ongoing=True)
            words = context.texts.words
            was, is_now = (words.get(counts.most_common(1)[0][0], "") for counts in (old, new))
            yield Finding(
                severity=severity_of(context, mask, harmful=False),
                sentence=f"From step {steps[at]:,} on, the prompts {verb} as none did before: the template "
                "changed.",
                evidence=(
                    f"The most common {verb} before: {was!r}; now: {is_now!r}.",
                    f"{percent(left)} of the prompts still {verb} as before.",
                ),
                advice="Compare the chat template, the generation prompt, the system prompt and the limit "
                "of the prompt's length.",
                steps=tuple(context.steps[mask].tolist()),
                ongoing=True,
                tab="reference",
                uid=context.snapshot.uid(int(context.texts.steps[steps[at]].rows[0])),
                subject=verb,
            )
            return
