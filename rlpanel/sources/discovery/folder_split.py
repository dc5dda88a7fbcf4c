"""Takes the split of samples that name none from the name of their run's folder.

Some trainers write evaluations to a folder of their own, and nothing in the lines says so: verl's
``validation_data_dir``, AReaL's ``eval-rollout``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rlpanel.sources.records.adapter_calls import WrappedAdapter
from rlpanel.sources.records.record_types import Adapter, FlatFormat, Record, flat_format, shares_evaluation

#: First or last word of a name; "with_eval", "no-eval" and "eval_beside_train" name runs that are trained.
_WORD = r"(?:val|validation|evals?|evaluations?)"
_FIRST = re.compile(rf"{_WORD}\d*(?:[-_.].*)?", re.IGNORECASE)
_LAST = re.compile(rf".*[^-_.][-_.]{_WORD}", re.IGNORECASE)
_NOT = re.compile(r"(?:.*[-_.])?(?:no|with|without|and)[-_.][^-_.]*", re.IGNORECASE)
_TRAINED = re.compile(r"(?:^|[-_.])train(?:ed|ing)?(?![a-z])", re.IGNORECASE)

EVAL = "eval"


def split_of_folder(name: str, adapters: Iterable[Adapter]) -> str:
    """Return the split that a folder's name gives to the samples of its run; empty if none.

    A format that holds evaluations beside training is left as it is: its files are not an evaluation's alone.

    Parameters
    ----------
    name : str
    adapters : iterable of Adapter
        Adapters of the run's files.
    """
    return EVAL if names_evaluation(name) and not all(map(shares_evaluation, adapters)) else ""


def names_evaluation(name: str) -> bool:
    """Return True if a folder's name says that its samples are an evaluation's."""
    if _TRAINED.search(name):
        return False
    is_last = _LAST.fullmatch(name) is not None and _NOT.fullmatch(name) is None
    return is_last or _FIRST.fullmatch(name) is not None


def in_folder(adapter: Adapter, name: str) -> Adapter:
    """Return the adapter for a file of a run whose folder has this name."""
    return FolderSplit(adapter) if split_of_folder(name, [adapter]) else adapter


class FolderSplit(WrappedAdapter):
    """Adapter that gives samples without a split that of an evaluation."""

    @property
    def name(self) -> str:
        """Name of the wrapped adapter and of the split."""
        return f"{self.adapter.name}, split {EVAL}"

    @property
    def flat_format(self) -> FlatFormat | None:
        """How many lines are read at once, with the split."""
        flat = flat_format(self.adapter)
        return None if flat is None else replace(flat, split=EVAL)

    def read(self, document: Any, path: str, *, full: bool) -> list[Record]:
        """Read the line's samples; a split in the line comes first."""
        records = self.adapter.read(document, path, full=full)
        for record in records:
            record.labels.setdefault("split", EVAL)
        return records
