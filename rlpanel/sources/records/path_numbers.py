"""Reads the numbers that the names of files and folders give: step, rank and epoch.

`_STEPS` holds the spellings of steps, the surest first: in ``epoch_2/step_5/rank_0/3.jsonl`` the step is 5,
and in ``epoch_2/3.jsonl`` it is 3. Paths begin below the run.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: What may stand between a word and its number: ``step_12``, ``checkpoint-12``, ``gpu0``, ``step=12``.
_TO = "[_=-]?"
_EPOCH = rf"epochs?{_TO}(\d{{1,7}})"
_RANK_WORDS = "rank|worker|dp|gpu|device|process|proc|replica"
#: Spellings of steps, the surest first. Seven digits exclude dates.
_STEPS = (
    re.compile(rf"step{_TO}(\d{{1,15}})(?!\d)", re.IGNORECASE),
    re.compile(rf"(?:^|[/._-])(?:iter|iteration|update){_TO}(\d{{1,7}})(?=[/._]|$)", re.IGNORECASE),
    re.compile(rf"(?:^|[/._-])(?:checkpoint|ckpt){_TO}(\d{{1,7}})(?=[/._]|$)", re.IGNORECASE),
    re.compile(rf"(?:^|[/._-])rollouts?{_TO}(\d{{1,7}})(?=[/._]|$)", re.IGNORECASE),
    re.compile(r"(?:^|/)(\d+)(?:\.[^/]*)?$", re.ASCII),  # the number is the file's whole name
    re.compile(rf"(?:^|[/._-]){_EPOCH}(?=[/._]|$)", re.IGNORECASE),
)
#: A folder that is one step or one rank of the run that contains it.
_PART = re.compile(
    rf"(?:global_?)?(?:step|iter|iteration|update|checkpoint|ckpt|rollouts?|epochs?){_TO}\d{{1,15}}"
    rf"|(?:{_RANK_WORDS}){_TO}\d{{1,9}}",
    re.IGNORECASE,
)
#: Spellings of steps for lines that have none. ``step-2-16k`` is a model: others choose such names.
_NAMED = (
    re.compile(rf"(?:^|[/._-])(?:global)?step{_TO}(\d{{1,15}})(?=[/._]|$)", re.IGNORECASE),
    *_STEPS[1:3],
    re.compile(r"(?:^|/)(\d+)\.(?:jsonl|ndjson)(?:\.[^/]*)?$", re.ASCII),
    _STEPS[-1],
)
#: A trial of Harbor, and the steps of its task, which are not steps of training.
_TRIAL = re.compile(r"(?:^|(?<=/))[^/]+/(?:steps/[^/]+/)?(?:agent/[^/]+|(?:metadata/)?result\.json[^/]*)$")
_STEP_FOLDER = re.compile(r"(?:^|/)step_(\d{1,15})/")
_RANK = re.compile(r"rank[_-]?(\d{1,9})(?!\d)")
_RANK_FOLDER = re.compile(rf"(?:^|.*/)(?:{_RANK_WORDS}){_TO}(\d{{1,9}})/", re.IGNORECASE)
_EPOCH_FOLDER = re.compile(rf"(?:^|[/._-]){_EPOCH}(?=[/._-]|$)", re.IGNORECASE)
_EVAL = re.compile(r"_val\d*(?:[._]|$)")


@lru_cache(maxsize=1 << 16)
def step_from_path(path: str) -> int | None:
    """Return the step that a path names (``step_12/log.jsonl`` → 12), or None."""
    return next((int(match[1]) for each in _STEPS if (match := each.search(path))), None)


@lru_cache(maxsize=1024)
def said_step(path: str) -> int | None:
    """Return the step of a file that is one sample: its folder's, or one that its name calls a step, or None.

    ``rollouts_003.json`` and ``3.json`` count samples.
    """
    folder, _, name = path.rpartition("/")
    return next(
        (int(match[1]) for each in _STEPS[:3] if (match := each.search(name))), step_from_path(folder)
    )


@lru_cache(maxsize=1024)
def named_step(path: str, *, is_one: bool) -> int | None:
    """Return the step that a path gives to lines without one (``run_step_12.jsonl`` → 12), or None.

    Parameters
    ----------
    path : str
    is_one : bool
        Whether the file is one sample or is named by its program: then, only folders name steps.
    """
    path = _TRIAL.sub("", path)
    if is_one:
        path = path[: path.rfind("/") + 1]
    return next((int(match[1]) for each in _NAMED if (match := each.search(path))), None)


def folder_step(path: str) -> int | None:
    """Return the step that a folder ``step_N`` of a path names (``step_40/log.eval`` → 40), or None."""
    match = _STEP_FOLDER.search(path)
    return int(match[1]) if match else None


def number_from_name(path: str) -> int | None:
    """Return the number that is the file's whole name (``12.jsonl`` → 12), or None."""
    stem = path.rsplit("/", 1)[-1].partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else None


@lru_cache(maxsize=1024)
def epoch_from_path(path: str) -> int | None:
    """Return the epoch that a path names (``epoch_2/step_5.jsonl`` → 2), or None."""
    match = _EPOCH_FOLDER.search(path)
    return int(match[1]) if match else None


@lru_cache(maxsize=1024)
def rank_of(path: str) -> int:
    """Return the rank that a file's name gives (``data_rank_3.jsonl`` → 3), or else a folder, or -1."""
    match = _RANK.search(path.rsplit("/", 1)[-1]) or _RANK_FOLDER.match(path)
    return int(match[1]) if match else -1


@lru_cache(maxsize=1024)
def is_eval(path: str) -> bool:
    """Return True if a file's name marks evaluation samples (``rollout_data_rank0_val2.jsonl``)."""
    return bool(_EVAL.search(path.rsplit("/", 1)[-1]))


def names_part(folder: str) -> bool:
    """Return True if a folder's name is that of one step or one rank of the run that contains it."""
    return _PART.fullmatch(folder) is not None
