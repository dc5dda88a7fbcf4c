"""Rule on duplicate responses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import mark, signal

#: Shorter responses, such as numbers, repeat by chance.
_SHORTEST = 16


@signal("duplicate", "response_chars")
def duplicate_signal(rows: RowBatch) -> np.ndarray:
    """Mark long responses that equal another response of their step."""
    chars = rows.number("response_chars")
    long = chars >= _SHORTEST
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
    tested by two windows of steps with errors clustered by group.
    """
    found = share_finding(
        context,
        ShareRule(
            signal=duplicate_signal,
            verb="equal another response of the same step",
            noun="duplicate responses",
            rise=0.25,
            limit=context.thresholds.duplicate_share,
            harmful=context.thresholds.duplicate_share,
            column="repeated_responses",
            tab="group",
            advice="Check entropy and sampling temperature; for templates and refusals, read the prompts.",
        ),
    )
    if found is not None:
        yield found
