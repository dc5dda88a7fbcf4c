"""Remarks on steps whose samples may not be what they seem, because the files of the trainer do not tell.

Some trainers write the samples of evaluations to the same place as those of training. A step of training is
marked if the trainer's own log has numbers of an evaluation at that step, if ``run.json`` says that there was
one, or if the prompts of some steps come back as only those of an evaluation do. A run without an evaluation
has no marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from rlpanel.metrics.engine.constants import Constants
from rlpanel.number_text import number
from rlpanel.schema import FIELD_REMARKS
from rlpanel.sources.records.field_values import READ_FROM
from rlpanel.store.columns.related_rows import has_key, mix
from rlpanel.store.columns.scalar_log import Scalars
from rlpanel.store.columns.splits import DISCARDED, SPLIT_COLUMN, TRAIN, TRAIN_CODE, limit_codes

Kind = Literal["evaluation", "attempts", "groups", "split", "epochs", "fields", "guess"]
#: Kind of a remark on what was inferred about a file.
GUESS: Kind = "guess"

#: Beginnings of names of an evaluation's numbers in trainers' logs.
_EVALUATED = ("eval_", "eval/", "val/")
#: Names of the mean reward in these logs.
_EVAL_REWARD = ("eval_reward", "eval/reward", "val/reward", "val/score/mean")
#: Largest step of a log up to which the steps of ``eval_steps`` are listed.
_MAX_STEPS = 1 << 24
#: Number of steps that a sentence names.
_NAMED = 8
#: Advice on groups that mix prompts, by what wrote the log.
_RECORD_AGAIN = "Earlier recorders did this with OnlineDPOTrainer: record such a run again."
_CHECK_GROUPS = "Log one group id for all samples of a prompt, or log each prompt whole."
#: Newest steps whose groups are compared with their prompts.
_LOOKED_AT = 8


@dataclass(frozen=True)
class Remark:
    """A fact about the log that the numbers of some steps depend on.

    Attributes
    ----------
    kind : str
        ``evaluation``: the steps may hold samples of an evaluation; ``attempts``: they may hold samples of
        two attempts; ``groups``: the logged groups mix prompts; ``split``: where the split of the samples
        comes from; ``epochs``: they hold samples of several epochs; ``fields``: a field has values of another
        shape, or none; ``guess``: which keys were taken for which fields.
    sentence : str
    steps : tuple of int
        The steps, ascending; empty if it is about the whole run.
    short : str
        What it says about one of these steps, in a few words; empty if nothing.
    split : str
        The split that it is about.
    """

    kind: Kind
    sentence: str
    steps: tuple[int, ...] = ()
    short: str = ""
    split: str = TRAIN


class LoggedRows(Protocol):
    """The part of a snapshot that remarks depend on."""

    @property
    def scalars(self) -> Scalars:
        """The trainer's own log."""

    @property
    def constants(self) -> Constants:
        """Training constants."""

    @property
    def shares_evaluation(self) -> Mapping[int, str]:
        """How evaluations get into files without a mark, by number of the file."""

    @property
    def once_per_step(self) -> Mapping[int, str]:
        """A file's number → ``line`` or the column whose values are logged once per step."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the label columns."""

    @property
    def split(self) -> str:
        """The split whose samples count."""

    @property
    def alive_rows(self) -> np.ndarray:
        """Row numbers of the samples that count."""

    @property
    def alive_in_all_splits(self) -> np.ndarray:
        """Mask of the rows that count in their split."""

    def metadata(self, column: str) -> np.ndarray:
        """Return a column that every row has."""

    def number(self, column: str) -> np.ndarray:
        """Return a number column."""

    def is_stored(self, column: str) -> bool:
        """Return True if there is a number column of this name."""

    def has_number(self, column: str) -> bool:
        """Return True if a number column has a value."""

    def label_codes(self, column: str) -> tuple[np.ndarray, list[str]]:
        """Return a label column as codes, and the text of each code."""


def listed_remarks(remarks: Sequence[Remark]) -> list[dict[str, object]]:
    """Return remarks as plain values, for JSON."""
    return [
        {"kind": remark.kind, "sentence": remark.sentence, "steps": list(remark.steps)} for remark in remarks
    ]


def steps_text(steps: Sequence[int]) -> str:
    """Return steps as text, such as ``steps 2, 4, 6, …``."""
    named = ", ".join(f"{step:,}" for step in steps[:_NAMED])
    return f"step{'s' * (len(steps) > 1)} {named}{', …' * (len(steps) > _NAMED)}"


def evaluation_remarks(snapshot: LoggedRows) -> Iterator[Remark]:
    """Yield a remark for each way in which steps of training got samples of an evaluation, maybe."""
    shared = snapshot.shares_evaluation
    for reason in sorted(set(shared.values())):
        rows, evaluated = _rows_of(snapshot, [file for file, how in shared.items() if how == reason])
        steps = np.unique(snapshot.metadata("step")[rows])
        told = np.unique(snapshot.metadata("step")[evaluated])  # here the evaluation's samples are known
        logged = np.isin(steps, logged_evaluations(snapshot.scalars, snapshot.constants.logged))
        marked = steps[logged & ~np.isin(steps, told)]
        if len(marked):
            marked = _with_repeats(snapshot, rows, marked)
            yield _remark(marked, f"the trainer evaluated {_there(snapshot.scalars, marked)}, and {reason}")
        elif not logged.any() and len(marked := _steps_with_an_evaluations_prompts(snapshot, rows)):
            yield _remark(
                marked,
                "the same prompts come back in the same order in these steps only, as an evaluation's do, "
                f"and {reason}",
            )


def attempt_remarks(snapshot: LoggedRows) -> Iterator[Remark]:
    """Yield a remark on the steps in which a sample was logged twice, though a trainer logs each once."""
    for key in sorted(set(snapshot.once_per_step.values())):
        rows, _ = _rows_of(snapshot, [file for file, name in snapshot.once_per_step.items() if name == key])
        if key != "line" and not snapshot.is_stored(key):
            continue
        step = snapshot.metadata("step")[rows]
        if key == "line":
            place = [
                snapshot.metadata(name)[rows] for name in ("file", "offset")
            ]  # a line's rows are together
            is_first = np.logical_or.reduce([np.diff(values, prepend=-1) != 0 for values in place])
            found, times = np.unique(step[is_first], return_counts=True)
            steps = found[times > 1]
        else:
            index = snapshot.number(key)[rows]
            step, index = step[np.isfinite(index)], index[np.isfinite(index)]
            order = np.lexsort([index, step])
            is_equal = (np.diff(step[order]) == 0) & (np.diff(index[order]) == 0)
            steps = np.unique(step[order][1:][is_equal])
        if len(steps):
            listed = tuple(steps.tolist())
            again = "its samples" if len(listed) == 1 else "their samples"
            yield Remark(
                "attempts",
                f"{steps_text(listed).capitalize()}: two attempts are mixed? The trainer logs a step once, "
                f"but {again} were logged again, as after a resume; all of them count.",
                listed,
                "may hold samples of two attempts",
            )


def sequence_remarks(epochs: int, doubtful: Sequence[int], split: str) -> Iterator[Remark]:
    """Yield remarks on steps that are logged again in later epochs, or perhaps by a resumed job.

    Parameters
    ----------
    epochs : int
        How often the steps begin again in a later epoch.
    doubtful : sequence of int
        Steps that a second file has as well, which may be that of a resumed job.
    split : str
    """
    if epochs:
        later = "a later epoch" if epochs == 1 else f"{epochs:,} later epochs"
        sentence = f"The steps begin again in {later}: a step holds the samples of all epochs, and all count."
        yield Remark("epochs", sentence, split=split)
    if doubtful:
        yield Remark(
            "attempts",
            f"{steps_text(doubtful).capitalize()}: two attempts are mixed? A later file has these steps as "
            "well, as after a resume, but nothing is sure; all samples count.",
            tuple(doubtful),
            "may hold samples of two attempts",
            split,
        )


def group_remarks(snapshot: LoggedRows) -> Iterator[Remark]:
    """Yield a remark on the newest steps in which all logged groups mix prompts that other groups have, too.

    Prompts alone do not show a fault: those of several agents or turns differ within a group. Only if each
    prompt also recurs in other groups, the groups were put together wrongly.
    """
    if "group" not in snapshot.labels or {"episode", "agent"} & set(snapshot.labels):
        return
    codes, step = snapshot.label_codes("group")[0], snapshot.metadata("step")
    rows = np.flatnonzero(snapshot.alive_in_all_splits & (codes >= 0))
    newest = np.unique(step[rows])[-_LOOKED_AT:]
    rows = rows[step[rows] >= newest[0]] if len(rows) else rows
    parts = ((int(at), rows[step[rows] == at]) for at in newest)
    listed = tuple(at for at, here in parts if _mixes(codes[here], snapshot.metadata("prompt_hash")[here]))
    if listed:
        is_recorded = "OnlineDPO" in str(snapshot.constants.logged.get("trainer"))
        yield Remark(
            "groups",
            f"{steps_text(listed).capitalize()}: each logged group holds different prompts, and each prompt "
            "is in several groups, so statistics of groups compare different tasks. "
            + (_RECORD_AGAIN if is_recorded else _CHECK_GROUPS),
            listed,
            "groups mix prompts",
        )


#: Samples whose remarks are counted at once.
_BLOCK = 1 << 21
#: Share of the samples from which on a remark on their fields is one on the run.
_SHARE = 0.01


@dataclass(frozen=True)
class FieldFault:
    """A remark on a field that several samples have.

    Attributes
    ----------
    text : str
        The field and the reason.
    rows : ndarray of int
        The samples.
    is_read : bool
        True if the value was read; it only has another shape.
    """

    text: str
    rows: np.ndarray
    is_read: bool


def field_faults(snapshot: LoggedRows, rows: np.ndarray) -> list[FieldFault]:
    """Return the remarks on the fields of some samples, the most frequent first."""
    if FIELD_REMARKS not in snapshot.labels:
        return []
    codes, names = snapshot.label_codes(FIELD_REMARKS)
    of_row = codes[rows]
    codes_of: dict[str, list[int]] = {}
    for code in np.unique(of_row[of_row >= 0]).tolist():
        for text in names[code].split("; "):
            codes_of.setdefault(text, []).append(code)
    faults = [
        FieldFault(text, rows[np.isin(of_row, codes)], READ_FROM in text) for text, codes in codes_of.items()
    ]
    return sorted(faults, key=lambda fault: -len(fault.rows))


def _fault_counts(snapshot: LoggedRows, rows: np.ndarray) -> list[tuple[str, int]]:
    """Return the remarks on fields and their numbers of samples, the most frequent first.

    Without the samples of each, as `field_faults` has them: of a long run, every page asks for this.
    """
    if FIELD_REMARKS not in snapshot.labels:
        return []
    codes, names = snapshot.label_codes(FIELD_REMARKS)
    counts = np.zeros(len(names) + 1, np.int64)
    for start in range(0, len(rows), _BLOCK):
        counts += np.bincount(codes[rows[start : start + _BLOCK]] + 1, minlength=len(names) + 1)
    found: dict[str, int] = {}
    for code in np.flatnonzero(counts[1:]).tolist():
        for text in names[code].split("; "):
            found[text] = found.get(text, 0) + int(counts[code + 1])
    return sorted(found.items(), key=lambda item: -item[1])


def field_remarks(snapshot: LoggedRows) -> Iterator[Remark]:
    """Yield a remark on each field whose values were left out, or read from another shape, in many samples.

    Also on columns that hold numbers and texts, and on a run in which no sample has a response.
    """
    rows = snapshot.alive_rows
    find = f": --filter 'not missing({FIELD_REMARKS})' finds them."
    sentences = [
        f"{text} in {_share(count, len(rows))}{'.' if READ_FROM in text else find}"
        for text, count in _fault_counts(snapshot, rows)
        if count > _SHARE * len(rows)
    ]
    for name in snapshot.labels:
        if not snapshot.is_stored(name):
            continue
        texts = int(np.count_nonzero(snapshot.label_codes(name)[0][rows] >= 0))
        if texts > _SHARE * len(rows):
            sentences.append(
                f"{name!r} is a number in some samples and a text in {_share(texts, len(rows))}: statistics "
                f"of {name} leave out the texts, which are the column {name}_text."
            )
    has_response = any(map(snapshot.has_number, ("response_chars", "response_tokens")))
    if len(rows) and not has_response and not snapshot.split.startswith(DISCARDED):
        sentences.append(
            f"None of the {len(rows):,} samples has a response: the lines have none, or it is null."
        )
    for sentence in sentences:
        yield Remark("fields", sentence, split=snapshot.split)


def _share(count: int, total: int) -> str:
    return f"{count:,} of {total:,} samples ({count / total:.1%})"


def _mixes(group: np.ndarray, prompt: np.ndarray) -> bool:
    """Return True if each group has several prompts, and each prompt several groups."""
    groups, group = np.unique(group, return_inverse=True)
    prompts, prompt = np.unique(prompt, return_inverse=True)
    pairs = np.unique(group * len(prompts) + prompt)
    mixed = np.bincount(pairs // len(prompts), minlength=len(groups)) > 1
    spread = np.bincount(pairs % len(prompts), minlength=len(prompts)) > 1
    return bool(mixed.all() and spread.all())


def logged_evaluations(scalars: Scalars, logged: Mapping[str, object]) -> np.ndarray:
    """Return the steps at which the trainer evaluated, by its own log; ``run.json`` may say so, too."""
    names = [name for name in scalars.names if name.startswith(_EVALUATED)]
    steps = [series.steps[np.isfinite(series.values)] for series in map(scalars.series, names)]
    found = np.unique(np.concatenate(steps)) if steps else np.empty(0, np.int64)
    every = logged.get("eval_steps")
    if str(logged.get("eval_strategy")) == "steps" and type(every) is int and every > 0:
        ends = (series.steps[-1:] for series in map(scalars.series, scalars.names))
        last = max((int(step) for end in ends for step in end), default=0)
        found = np.union1d(found, np.arange(every, last + 1, every)) if last < _MAX_STEPS else found
    return found


# -- inside ------------------------------------------------------------------------------------------


def _remark(steps: np.ndarray, why: str) -> Remark:
    listed = tuple(steps.tolist())
    sentence = f"{steps_text(listed).capitalize()} may hold evaluation samples: {why}."
    return Remark("evaluation", sentence, listed, "may hold evaluation samples")


def _there(scalars: Scalars, steps: np.ndarray) -> str:
    """Return where the trainer evaluated, with the mean reward that it logged there."""
    where = "at this step" if len(steps) == 1 else "at these steps"
    for name in _EVAL_REWARD:
        values = [(int(step), scalars.series(name).at(int(step))) for step in steps]
        last = next(((step, value) for step, value in reversed(values) if np.isfinite(value)), None)
        if last is not None:
            return f"{where} (its log has {name} {number(last[1])} at step {last[0]:,})"
    return where


def _rows_of(snapshot: LoggedRows, files: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of some files that are training's by default, and those in another split."""
    rows = np.flatnonzero(np.isin(snapshot.metadata("file"), files) & snapshot.alive_in_all_splits)
    if SPLIT_COLUMN not in snapshot.labels:
        return rows, rows[:0]
    codes, names = snapshot.label_codes(SPLIT_COLUMN)
    in_training = limit_codes(codes, names)[rows] == TRAIN_CODE
    return rows[in_training & (codes[rows] < 0)], rows[~in_training]


def _with_repeats(snapshot: LoggedRows, rows: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Add the steps that only repeat samples of marked steps: those in which nothing was generated."""
    step = snapshot.metadata("step")[rows]
    key = mix(snapshot.metadata("prompt_hash")[rows]) ^ snapshot.metadata("response_hash")[rows]
    is_new = ~has_key(key, key[np.isin(step, marked)])
    return np.union1d(marked, np.setdiff1d(step, step[is_new]))


def _steps_with_an_evaluations_prompts(snapshot: LoggedRows, rows: np.ndarray) -> np.ndarray:
    """Return the steps whose prompts come back as those of an evaluation do; none if others come back, too.

    They are all multiples of a number above one among the steps, and have the same prompts in the same order.
    No other step has one of these prompts, and the prompts of no two others are equal. A data set that is
    shuffled or begins again does not look like this.
    """
    none = np.empty(0, np.int64)
    step, prompt = snapshot.metadata("step")[rows], snapshot.metadata("prompt_hash")[rows]
    order = np.lexsort([snapshot.metadata(name)[rows] for name in ("part", "offset", "file")] + [step])
    step, prompt = step[order], prompt[order]
    steps, starts = np.unique(step, return_index=True)
    if len(steps) < 4:
        return none
    prompts = [part.tobytes() for part in np.split(prompt, starts[1:])]
    by_prompts: dict[bytes, list[int]] = {}
    for number_of_step, key in zip(steps.tolist(), prompts, strict=True):
        by_prompts.setdefault(key, []).append(number_of_step)
    repeated = [found for found in by_prompts.values() if len(found) > 1]
    if len(repeated) != 1:
        return none
    found = np.array(repeated[0])
    every = int(np.gcd.reduce(found))
    if every < 2 or not np.array_equal(found, steps[steps % every == 0]):
        return none
    inside = np.isin(step, found)
    own = np.unique(prompt[inside])
    return found if len(own) > 1 and not has_key(prompt[~inside], own).any() else none
