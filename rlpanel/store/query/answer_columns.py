"""The columns of a sample's answer, and of whether it equals the ground truth.

`rlpanel.texts.final_answers` reads them from texts, only for samples that are shown, exported or searched.
The rule is chosen from a few of the run's samples, and again only when the run has twice as many: it does
not change with each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.snapshot.sample_places import spread_rows
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.final_answers import AUTO, RULES, ChosenRule, answer_of, choose_rule, match_of

#: Samples from which the rule is chosen, spread over the run, and most bytes of their lines.
SAMPLES, MAX_BYTES = 48, 1 << 19


@dataclass(frozen=True)
class AnswerColumns:
    """Reads the answer of a sample and compares it with the ground truth.

    Attributes
    ----------
    answer, match : str
        Names of the two columns: ``answer_read`` or ``match_read`` if the log has a column of that name.
    chosen : ChosenRule or None
        The rule; None if no sample that was tried has a ground truth.
    """

    answer: str
    match: str
    chosen: ChosenRule | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Both names."""
        return self.answer, self.match

    def read(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the values for a sample's texts; an answer that is not found is missing."""
        rule = self.chosen.rule if self.chosen else RULES["line"]
        truth = texts.get("ground_truth")
        answer = answer_of(texts.get("response", ""), rule) if self.chosen else None
        values = {self.answer: answer, self.match: match_of(answer, truth)}
        return {name: value for name, value in values.items() if value is not None}


def answer_names(snapshot: Snapshot) -> AnswerColumns:
    """Return the names of the columns, without a rule."""
    taken = {*snapshot.numbers, *snapshot.labels}
    answer, match = (f"{name}_read" if name in taken else name for name in ("answer", "match"))
    return AnswerColumns(answer, match)


class _Found:
    """Rules found so far by split, with the number of samples then."""

    def __init__(self) -> None:
        self.rules: dict[str, tuple[int, ChosenRule | None]] = {}


def answer_columns(index: RunIndex, snapshot: Snapshot, rule: str = AUTO) -> AnswerColumns:
    """Return the columns of a run; reads a few samples if its rule is not known.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    rule : str
        A key of `RULES`, or `AUTO` for the rule that equals the ground truths most often.
    """
    names = answer_names(snapshot)
    found = cached_on(index, "answers", None, _Found).rules
    samples, chosen = found.get(snapshot.split, (0, None))
    if snapshot.samples and snapshot.samples >= 2 * samples:
        chosen = choose_rule(_pairs(index, snapshot))
        found[snapshot.split] = snapshot.samples, chosen
    if chosen is not None and rule in RULES:
        chosen = ChosenRule(RULES[rule])
    return AnswerColumns(*names.names, chosen)


def _pairs(index: RunIndex, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return responses and ground truths of some samples."""
    rows = spread_rows(snapshot.alive_rows, SAMPLES)
    sizes = np.cumsum(snapshot.metadata("length")[rows], dtype=np.int64)
    if len(rows) and sizes[-1] > MAX_BYTES:
        rows = rows[:: int(-(-sizes[-1] // MAX_BYTES))]
    texts = fetch_all_texts(index, snapshot, rows)
    return [(each.get("response", ""), each.get("ground_truth", "")) for each in texts if each]
