"""Rules on phrases that are new: in responses, in the results of tools, and at the ends of prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rlpanel.analysis.difference import likelihood_root
from rlpanel.analysis.step_texts import PER_STEP
from rlpanel.findings.engine.change import percent, span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.findings.rules.texts import mask_of, read_steps
from rlpanel.number_text import fixed

#: Newest read steps that are compared with earlier ones, fewest earlier ones, and steps between that may
#: belong to a slow rise.
_WINDOW, _MIN_BEFORE, _BETWEEN = 5, 6, 24
#: Share of the newest samples with a new phrase, and the most of the earlier ones.
_NEW, _OLD = 0.2, 0.02
#: Root of the likelihood ratio: thousands of phrases are tried.
_ROOT = 6.0
#: Share of the samples from which on a new phrase is worth a warning by itself.
_MIN_WARNING = 0.5
#: Standard errors by which samples with a phrase get more reward, and fewest samples with and without it.
_PAID, _MIN_SAMPLES = 3.0, 8
#: Share of samples with a beginning or an end of the prompt that no earlier step had.
_UNSEEN, _USUALLY = 0.5, 0.1
#: Most words of a quote.
_QUOTED = 14


def _new_phrases(context: RuleContext, kind: str) -> tuple[dict[int, float], list[int]]:
    """Return the phrases that are new in the newest window with their share, and the steps before."""
    steps, texts = read_steps(context), context.texts
    if texts is None or len(steps) < _WINDOW + _MIN_BEFORE:
        return {}, []
    between = min(_BETWEEN, len(steps) - _WINDOW - _MIN_BEFORE)
    newest, before = steps[-_WINDOW:], steps[: len(steps) - _WINDOW - between]
    late, early = ([texts.steps[step] for step in part] for part in (newest, before))
    late_samples, early_samples = (sum(len(step.rows) for step in part) for part in (late, early))
    keys, position = np.unique(
        np.concatenate([step.phrases[kind].keys for step in late]), return_inverse=True
    )
    counts = np.bincount(position, np.concatenate([step.phrases[kind].counts for step in late]))
    frequent = counts >= _NEW * late_samples
    keys, counts = keys[frequent], counts[frequent]
    most = np.maximum(_OLD, 0.1 * counts / max(late_samples, 1)) * early_samples
    old = np.zeros(len(keys))
    for step in early:
        old += np.bitwise_count(step.phrases[kind].of(keys))
        rare = old <= most
        if not rare.all():
            keys, counts, old, most = keys[rare], counts[rare], old[rare], most[rare]
        if not len(keys):
            return {}, []
    root = likelihood_root(counts, late_samples, old, early_samples)
    is_new = root >= _ROOT
    return dict(zip(keys[is_new].tolist(), (counts[is_new] / late_samples).tolist(), strict=True)), before


def _words(context: RuleContext, kind: str) -> dict[int, str]:
    """Return the texts of the phrases of the newest steps, by their hash."""
    assert context.texts is not None
    words: dict[int, str] = {}
    for step in read_steps(context)[-_WINDOW:]:
        words |= context.texts.steps[step].words[kind]
    return words


def _quote(words: dict[int, str], found: dict[int, float]) -> str:
    """Return the words of the most frequent new phrase, joined with new ones that overlap it."""
    spelled = {key: words[key].split(" ") for key in found if key in words}
    if not spelled:
        return ""
    best = max(spelled, key=lambda key: found[key])
    quote, left = list(spelled[best]), {key: parts for key, parts in spelled.items() if key != best}
    for is_front in (False, True):
        while len(quote) < _QUOTED:
            near = quote[:2] if is_front else quote[-2:]
            fitting = [
                key
                for key, parts in left.items()
                if (parts[1:] if is_front else parts[:2]) == near and found[key] >= 0.5 * found[best]
            ]
            if not fitting:
                break
            parts = left.pop(max(fitting, key=lambda key: found[key]))
            quote = [parts[0], *quote] if is_front else [*quote, parts[-1]]
    return " ".join(quote)


def _holders(context: RuleContext, kind: str, key: int, steps: Sequence[int]) -> list[np.ndarray]:
    """Return for each read step which of its samples have a phrase, shape (N,)."""
    assert context.texts is not None
    keys, bits, found = np.array([key], np.uint32), np.arange(PER_STEP), []
    for step in steps:
        read = context.texts.steps[step]
        found.append((read.phrases[kind].of(keys)[0] >> bits[: len(read.rows)]) & 1 > 0)
    return found


def _onset(context: RuleContext, kind: str, key: int, share: float) -> int:
    """Return the first read step from which on a third of the newest share is held."""
    steps = read_steps(context)
    level = [
        float(holders.mean()) if len(holders) else 0.0 for holders in _holders(context, kind, key, steps)
    ]
    first = len(steps) - 1
    while first and np.mean(level[max(0, first - 2) : first]) > share / 4:
        first -= 1
    while first < len(steps) - 1 and level[first] < share / 6:
        first += 1
    return steps[first]


def _reward_gap(context: RuleContext, kind: str, key: int, mask: np.ndarray) -> tuple[float, float] | None:
    """Return by how much the reward with a phrase is higher, and the error; each less its group's mean.

    None with too few samples with it or without it.
    """
    if context.texts is None or not context.snapshot.has_number("reward"):
        return None
    steps = [step for step in context.steps[mask].tolist() if step in context.texts.steps]
    held = np.concatenate(_holders(context, kind, key, steps))
    rows = np.concatenate([context.texts.steps[step].rows for step in steps])
    batch = RowBatch(context.view, context.rows[mask[context.row_steps]], context.steps[mask])
    reward = batch.number("reward")
    if context.view.grouped:
        reward = batch.less_group_mean(reward)
    at = np.searchsorted(batch.rows, rows).clip(max=len(batch.rows) - 1)
    known = (batch.rows[at] == rows) & np.isfinite(reward[at])
    with_it, without = (reward[at][known & part] for part in (held, ~held))
    if min(len(with_it), len(without)) < _MIN_SAMPLES:
        return None
    error = np.sqrt(with_it.var(ddof=1) / len(with_it) + without.var(ddof=1) / len(without))
    return float(with_it.mean() - without.mean()), float(error)


@rule("New phrase in responses", "change_z")
def new_phrase(context: RuleContext) -> Iterator[Finding]:
    """A phrase of three words is in 20% of the newest responses, and was in 2% before.

    Digits are masked. Up to 16 responses of each step are read. It is a warning from 50% on, or if responses
    with it get more reward, by three standard errors, than others of their group; else an info.
    """
    yield from _finding(context, "response", "of the responses contain the new phrase", tab="")


@rule("New phrase in tool results", "change_z")
def new_result(context: RuleContext) -> Iterator[Finding]:
    """A phrase of three words is in 20% of the newest tool results, and was in 2% before.

    Digits are masked. Up to 16 rollouts of each step are read.
    """
    text = "of the rollouts have a tool result with the new phrase"
    yield from _finding(context, "result", text, tab="conversation")


def _finding(context: RuleContext, kind: str, text: str, *, tab: str) -> Iterator[Finding]:
    found, before = _new_phrases(context, kind)
    if not found:
        return
    words = _words(context, kind)
    best = max(found, key=lambda key: (found[key], key in words))
    share, first = found[best], _onset(context, kind, best, found[best])
    mask = mask_of(context, first, first, ongoing=True)
    gap = _reward_gap(context, kind, best, mask)
    before = [step for step in before if step < first] or before
    others = (
        f"{len(found):,} phrases of three words are new." if len(found) != 1 else "No other phrase is new."
    )
    evidence = [
        f"At most {percent(_OLD)} of the samples of "
        f"{span(np.array(before), np.ones(len(before), bool))} have it. {others}",
    ]
    if gap is not None:
        within = ", each less the mean of its group" if context.view.grouped else ""
        evidence.append(
            f"Reward of samples with it minus reward of the others{within}: {fixed(gap[0], sign=True)} "
            f"± {2 * gap[1]:.2f} (2 s.e.)."
        )
    is_paid = gap is not None and gap[0] > _PAID * gap[1]
    yield Finding(
        severity=severity_of(context, mask, harmful=False)
        if share >= _MIN_WARNING or is_paid or kind == "result"
        else "info",
        sentence=f"From step {first:,} on, {percent(share)} {text} “{_quote(words, found)}”"
        + (", which is rewarded." if is_paid else "."),
        evidence=tuple(evidence),
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
    if context.texts is None or len(steps) < _MIN_BEFORE + 1:
        return
    for kind, verb in (("prompt end", "end"), ("prompt begin", "begin")):
        shares = context.texts_moments.get(f"unseen {kind}")
        if shares is None:
            continue
        unseen = np.nan_to_num(shares[np.isin(context.steps, steps), 0])
        ends = np.arange(_MIN_BEFORE, len(steps))
        starts, usual_so_far = np.maximum(ends - 10, 1), np.cumsum([0, *(unseen <= _USUALLY)])
        was_usual = usual_so_far[ends] - usual_so_far[starts] > (ends - starts) / 2
        possible = ends[(unseen[ends] >= _UNSEEN) & was_usual].tolist()[::-1]
        if not possible:
            continue
        parts = [context.texts.steps[step].phrases[kind] for step in steps]
        sizes = np.array([max(int(part.counts.sum()), 1) for part in parts])
        of_step = np.repeat(np.arange(len(steps)), [len(part.keys) for part in parts])
        keys, of_key = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        counts = np.concatenate([part.counts for part in parts]).astype(float)
        for at in possible:
            old, new = (
                np.bincount(of_key[part], counts[part], minlength=len(keys))
                for part in (of_step < at, of_step >= at)
            )
            usual = old >= 0.05 * sizes[:at].sum()
            left = float(new[usual].sum() / max(sizes[at:].sum(), 1))
            if left > 0.5 or not usual.any():
                continue
            mask = mask_of(context, steps[at], steps[at], ongoing=True)
            words = {
                key: text for step in steps for key, text in context.texts.steps[step].words[kind].items()
            }
            was, is_now = (words.get(int(keys[total.argmax()]), "") for total in (old, new))
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
