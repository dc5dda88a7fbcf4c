"""The rows a filter runs on: stored columns, computed ones, answers and whether they match."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel import schema
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.columns.related_rows import mix
from rlpanel.store.columns.row_table import OLDER
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.query.filter import LABEL, NUMBER, TEXT, Labels
from rlpanel.store.query.notes_beside_log import NOTE_COLUMNS, Notes
from rlpanel.store.snapshot.sample_places import spread_rows
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.final_answers import AUTO, RULES, ChosenRule, answer_of, choose_rule, match_of

# -- answer columns ------------------------------------------------------------------------------------
# The columns of a sample's answer, and of whether it equals the ground truth.
#
# `rlpanel.texts.final_answers` reads them from texts, only for samples that are shown, exported or searched.
# The rule is chosen from a few of the run's samples, and again only when the run has twice as many: it does
# not change with each step.


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


# -- filter columns ------------------------------------------------------------------------------------
# The rows a filter runs on, with stored columns and computed ones (attempt, copies, group_reward).


#: Number columns that locate a sample in the run.
POSITION_COLUMNS = ("step", "rank", "line")
#: Column that says whether a sample is of its step's newest attempt, or of one that a restart replaced.
ATTEMPT = "attempt"
_ATTEMPTS = ("newest", "older")
#: Column with the mean reward of the sample's group.
GROUP_REWARD = "group_reward"
#: Column with the number of samples of the step that have the same prompt and response.
COPIES = "copies"
#: Column with a key that all samples of one prompt share.
PROMPT_KEY = "prompt_key"


class FilterScope:
    """Rows of a snapshot as a `rlpanel.store.query.filter.FilterTable`.

    Parameters
    ----------
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    notes : Notes, optional
        Adds the columns ``tag`` and ``note``.
    copies : callable, optional
        Returns the column `COPIES`, shape (N,); without it there is no such column.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rows: np.ndarray,
        notes: Notes | None = None,
        copies: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.rows = rows
        self.answers = answer_names(snapshot)
        self._notes = notes
        self._copies = copies

    def __len__(self) -> int:
        return len(self.rows)

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column that the run has, the most useful columns first."""
        snapshot = self.snapshot
        numbers = [name for name in snapshot.numbers if snapshot.has_number(name)]
        aliases = [alias for alias, name in ALIASES.items() if name in numbers]
        kinds = dict.fromkeys([*numbers, *aliases, *POSITION_COLUMNS], NUMBER)
        if "reward" in numbers:
            kinds[GROUP_REWARD] = NUMBER
        if self._copies is not None:
            kinds[COPIES] = NUMBER
        kinds |= {label_name(snapshot, name): LABEL for name in snapshot.labels}
        kinds |= {PROMPT_KEY: LABEL} if snapshot.has_number("prompt_chars") else {}
        kinds |= {"file": LABEL}
        kinds |= dict.fromkeys(NOTE_COLUMNS, LABEL) if self._notes is not None else {}
        kinds |= {ATTEMPT: LABEL} if self._older.any() else {}
        return kinds | dict.fromkeys((*schema.TEXTS, *self.answers.names), TEXT)

    def number(self, name: str) -> np.ndarray:
        """Return a number column of the rows, shape (N,)."""
        if name == GROUP_REWARD:
            return self._group_reward
        if name == COPIES:
            return self._copied
        is_place = name in POSITION_COLUMNS and name not in self.snapshot.numbers
        column = self.snapshot.metadata(name) if is_place else self.snapshot.number(name)
        return self._of_rows(column)

    def codes(self, name: str) -> Labels:
        """Return a label column of the rows: codes, shape (N,), -1 if not logged, and texts by code."""
        if name in NOTE_COLUMNS:
            return self._noted[name]
        if name == ATTEMPT:
            return self._older.astype(np.intp), _ATTEMPTS
        if name == PROMPT_KEY:
            prompt_hashes = self._of_rows(self.snapshot.prompts())
            hashes, codes = np.unique(prompt_hashes, return_inverse=True)
            return codes, [prompt_key(text) for text in hashes.tolist()]
        if name == "file":
            return self._of_rows(self.snapshot.metadata("file")), self.snapshot.files
        for label in self.snapshot.labels:
            if label_name(self.snapshot, label) == name:
                codes, texts = self.snapshot.label_codes(label)
                return self._of_rows(codes), texts
        raise KeyError(name)

    def subset(self, positions: np.ndarray) -> FilterScope:
        """Return the same columns for some of the rows, given by their positions in `rows`, shape (M,)."""
        part = FilterScope(self.snapshot, self.rows[positions], self._notes, self._copies)
        # These columns aggregate over the whole scope, so they must not be computed from the part alone.
        for name in ("_group_reward", "_copied"):
            if name in self.__dict__:
                part.__dict__[name] = self.__dict__[name][positions]
        if "_noted" in self.__dict__:
            part._noted = {name: (codes[positions], texts) for name, (codes, texts) in self._noted.items()}
        return part

    def _of_rows(self, column: np.ndarray) -> np.ndarray:
        """Return a column at the rows, without a copy if these are all rows."""
        return column if self._whole else column[self.rows]

    @cached_property
    def _whole(self) -> bool:
        rows = self.rows
        return len(rows) == self.snapshot.rows and bool((rows[1:] > rows[:-1]).all())

    @cached_property
    def _noted(self) -> dict[str, Labels]:
        labels = self._notes.labels(self.snapshot) if self._notes is not None else {}
        return {name: (self._of_rows(codes), texts) for name, (codes, texts) in labels.items()}

    @cached_property
    def _older(self) -> np.ndarray:
        return self._of_rows(self.snapshot.state) == OLDER

    @cached_property
    def _copied(self) -> np.ndarray:
        return self._copies() if self._copies is not None else np.full(len(self), np.nan)

    @cached_property
    def _group_reward(self) -> np.ndarray:
        """Mean reward of each row's group; groups go by label, else prompt, within a step and attempt."""
        group = self._of_rows(self.snapshot.prompts())
        if "group" in self.snapshot.labels:
            codes = self._of_rows(self.snapshot.label_codes("group")[0])
            group = np.where(codes >= 0, codes.astype(np.uint64), group)
        step = self._of_rows(self.snapshot.metadata("step")).astype(np.uint64)
        key = mix(group ^ mix(step ^ (self._older.astype(np.uint64) << np.uint64(63))))
        group_of_row = np.unique(key, return_inverse=True)[1]
        reward = self._of_rows(self.snapshot.counted("reward"))
        finite = np.isfinite(reward)
        count = np.bincount(group_of_row[finite], minlength=int(group_of_row.max(initial=-1)) + 1)
        total = np.bincount(group_of_row[finite], reward[finite], minlength=len(count))
        with np.errstate(invalid="ignore"):
            return (total / count)[group_of_row]


def prompt_key(prompt_hash: int) -> str:
    """Return the value of `PROMPT_KEY` for a prompt's hash."""
    return f"{prompt_hash:016x}"


def label_name(snapshot: Snapshot, name: str) -> str:
    """Return a label column's name; it gets the suffix ``_text`` if a number column has the same name."""
    return f"{name}_text" if name in snapshot.numbers else name
