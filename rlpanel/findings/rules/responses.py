"""Rules on responses: empty ones, special tokens, invalid UTF-8, language, and repetition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.findings.engine.change import at_place, percent, since, standard_errors
from rlpanel.findings.engine.change_finding import finding_of
from rlpanel.findings.engine.change_tests import sustained
from rlpanel.findings.engine.evaluation_run import is_evaluation
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding, share_findings
from rlpanel.findings.engine.signal import RowBatch, mark, signal
from rlpanel.metrics.special_tokens import ENDS
from rlpanel.store.columns.step_stats import MAX
from rlpanel.store.snapshot.snapshot import Snapshot

#: Share of a response's letters in foreign scripts from which on it counts as written in another language.
_FOREIGN = 0.3
#: Hashes of responses that are an end token and nothing else, where special tokens are decoded.
_ONLY_END = np.sort(
    np.array([xxh3_64_intdigest(f"{end}{rest}".encode()) for end in ENDS for rest in ("", "\n")], np.uint64)
)


@signal("empty_response", "response_chars")
def _empty(rows: RowBatch) -> np.ndarray:
    chars, tokens = rows.number("response_chars"), rows.number("response_tokens")
    hashes = rows.metadata("response_hash")
    only_end = _ONLY_END[np.searchsorted(_ONLY_END, hashes) % len(_ONLY_END)] == hashes
    return mark((chars == 0) | (tokens == 0) | only_end, np.isfinite(chars) | np.isfinite(tokens))


def _empty_where(snapshot: Snapshot) -> str:
    """Return the filter of empty responses: as long as the longest end token alone, if the run has one."""
    rows = snapshot.alive_rows
    only_end = rows[np.isin(snapshot.metadata("response_hash")[rows], _ONLY_END)]
    most = float(snapshot.number("response_chars")[only_end].max()) if len(only_end) else 0.0
    chars = f"response_chars <= {most:g}" if most > 0 else "response_chars == 0"
    has_tokens = snapshot.has_number("response_tokens")
    return " or ".join((chars, "response_tokens == 0")) if has_tokens else chars


@signal("one_token_response", "response_tokens")
def _one_token(rows: RowBatch) -> np.ndarray:
    tokens = rows.number("response_tokens")
    return mark(tokens == 1, np.isfinite(tokens))


@signal("special_tokens", "special_tokens")
def _special(rows: RowBatch) -> np.ndarray:
    """Mark responses with more special tokens than the chat template puts between the policy's turns."""
    tokens, turns = rows.number("special_tokens"), rows.number("turns")
    between = _tokens_per_turn(rows.view.snapshot) * np.where(turns > 1, turns - 1, 0)
    return mark(tokens > between, np.isfinite(tokens))


def _tokens_per_turn(snapshot: Snapshot) -> float:
    """Return the special tokens for each further turn in the first step that has a rollout of several turns.

    The log of an agent may show the markup between its turns, which is the same from the first rollout on.
    """
    if not (snapshot.has_number("turns") and snapshot.has_number("special_tokens")):
        return 0.0
    several = np.flatnonzero(snapshot.steps.stat("turns", MAX) > 1)
    if not len(several):
        return 0.0
    rows = snapshot.rows_of(int(snapshot.steps.values[several[0]]))
    further, tokens = snapshot.number("turns")[rows] - 1, snapshot.number("special_tokens")[rows]
    used = (further > 0) & np.isfinite(tokens)
    return float(np.median(tokens[used] / further[used])) if used.any() else 0.0


@signal("prompt_echo", "prompt_echo")
def _echo(rows: RowBatch) -> np.ndarray:
    return rows.number("prompt_echo")


@signal("invalid_text", "invalid_chars")
def _invalid(rows: RowBatch) -> np.ndarray:
    chars = rows.number("invalid_chars")
    return mark(chars > 0, np.isfinite(chars))


@signal("foreign_script", "foreign_script")
def _foreign(rows: RowBatch) -> np.ndarray:
    share = rows.number("foreign_script")
    return mark(share > _FOREIGN, np.isfinite(share))


@signal("foreign_letters", "foreign_script", kind="level")
def _foreign_letters(rows: RowBatch) -> np.ndarray:
    return rows.number("foreign_script")


@rule("Letters of other languages", "change_z")
def foreign_letters(context: RuleContext) -> Iterator[Finding]:
    """The mean share of a response's letters in scripts that its prompt does not use rises by one point.

    It is tested by two windows of steps with errors clustered by group.
    """
    change = sustained(context, _foreign_letters, 0.01)
    if change is None:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, {percent(change.after)} of the letters of "
        f"responses{at_place(change)} are in a script that the prompt does not use "
        f"({percent(max(change.before, 0.0))} before): languages mix.",
        harmful=False,
        column="foreign_script",
        evidence=[f"The difference is {standard_errors(change.z)} of the two windows."],
        advice="Read such responses; a reward for the language of the prompt keeps it.",
        where="foreign_script > 0",
        sort="-foreign_script",
        tab="reference",
    )


@rule("Empty responses", "change_z")
def empty_responses(context: RuleContext) -> Iterator[Finding]:
    """The share of empty responses, or of end tokens alone, rises by 10 points, or is above 30%.

    Or that of responses of one token rises by 20 points.

    A rise is tested by two windows of steps with errors clustered by group. Responses of one token from the
    start are normal, for example in multiple choice.
    """
    advice = "Check stop strings, the chat template, and whether the reward favours saying nothing."
    empty = ShareRule(
        signal=_empty,
        verb="are empty",
        noun="empty responses",
        limit=0.3,
        column="response_chars",
        where=_empty_where,
        advice=advice,
    )
    short = ShareRule(
        signal=_one_token,
        verb="have a single token",
        noun="one-token responses",
        rise=0.2,
        column="response_tokens",
        where="response_tokens == 1",
        sort="response_tokens",
        advice=advice,
    )
    found = share_finding(context, empty)
    found = found or share_finding(context, short, "one token")
    if found is not None:
        yield found


@rule("Special tokens in responses", "change_z")
def special_tokens(context: RuleContext) -> Iterator[Finding]:
    """The share of responses with special tokens or padding rises by 10 points or is above 50%.

    A rise is tested by two windows of steps with errors clustered by group. One token that ends the response
    is normal, and so is what the first rollouts of an agent have between two of their turns.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_special,
            verb="contain special tokens or parts of a chat template",
            noun="responses with special tokens",
            limit=0.5,
            harmful_always=False,
            column="special_tokens",
            where="special_tokens > 0",
            sort="-special_tokens",
            advice="Compare the chat template and stop tokens of the engine with those of the model.",
        ),
    )


@rule("Prompt repeated in responses", "change_z")
def prompt_echo(context: RuleContext) -> Iterator[Finding]:
    """The share of responses that repeat a long part of their prompt rises by 15 points or is above 50%.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_echo,
            verb="repeat a long part of the prompt",
            noun="responses that repeat the prompt",
            rise=0.15,
            limit=0.5,
            harmful_always=False,
            column="prompt_echo",
            where="prompt_echo > 0",
            advice="Check whether prompt tokens are decoded with the response, and whether copying is "
            "rewarded.",
        ),
    )


@rule("Invalid UTF-8", "rise", "change_z")
def invalid_text(context: RuleContext) -> Iterator[Finding]:
    """The share of responses with U+FFFD rises by more than this, or is above 30%.

    U+FFFD replaces bytes that are not valid UTF-8. A rise is tested by two windows of steps with errors
    clustered by group.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_invalid,
            verb="contain invalid characters",
            noun="responses with invalid characters",
            rise=context.thresholds.rise,
            limit=0.3,
            column="invalid_text_share",
            where="invalid_chars > 0",
            sort="-invalid_chars",
            advice="Read some of them: the policy emits half characters. Check whether the reward sees them.",
        ),
    )


@rule("Language drift", "change_z")
def language_drift(context: RuleContext) -> Iterator[Finding]:
    """The share of responses in scripts that their prompt does not use rises by 15 points, from at most 30%.

    A response counts if at least 30% of its letters are in such scripts. A rise is tested by two windows of
    steps with errors clustered by group.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_foreign,
            verb="are written in another script than their prompt",
            noun="responses in another script",
            rise=0.15,
            at_most_before=0.3,
            column="foreign_script",
            where=f"foreign_script > {_FOREIGN}",
            sort="-foreign_script",
            advice="Check whether the reward depends on the language; a language reward may be needed.",
        ),
    )


#: Shorter responses, such as numbers, repeat by chance.
_MIN_CHARS = 16


@signal("duplicate", "response_chars")
def duplicate_signal(rows: RowBatch) -> np.ndarray:
    """Mark long responses that equal another response of their step."""
    chars = rows.number("response_chars")
    long = chars >= _MIN_CHARS
    result = mark(np.zeros(len(rows), bool), np.isfinite(chars))
    where = np.flatnonzero(long)
    keys = rows.metadata("response_hash")[where]
    order = np.lexsort((keys, rows.position[where]))
    key, step = keys[order], rows.position[where][order]
    same = (key[1:] == key[:-1]) & (step[1:] == step[:-1])
    repeated = np.zeros(len(order), bool)
    repeated[:-1] |= same
    repeated[1:] |= same
    result[where[order[repeated]]] = 1.0
    return result


@rule("Duplicate responses", "duplicate_share", "change_z")
def duplicates(context: RuleContext) -> Iterator[Finding]:
    """The share of responses that equal another one of their step rises by 25 points, or is above this.

    Responses of fewer than 16 characters, such as numbers, do not count, as they repeat by chance. A rise is
    tested by two windows of steps with errors clustered by group. Of an evaluation, which may sample
    greedily, a rise is a warning.
    """
    limit = 2.0 if is_evaluation(context) else context.thresholds.duplicate_share
    yield from share_findings(
        context,
        ShareRule(
            signal=duplicate_signal,
            verb="equal another response of the same step",
            noun="duplicate responses",
            rise=0.25,
            limit=limit,
            harmful=limit,
            column="repeated_responses",
            tab="group",
            advice="Check entropy and sampling temperature; for templates and refusals, read the prompts.",
        ),
    )
