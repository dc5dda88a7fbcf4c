"""Parses consecutive lines with the same keys straight into batches of columns.

A line that a plan cannot read, for whatever reason, is left to the file's adapter, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlpanel.sources.records.column_batch import ColumnBatch
from rlpanel.sources.records.column_plan import ColumnPlan
from rlpanel.sources.records.json_parser import parse_fast, parse_lines
from rlpanel.sources.records.record_types import Chunk, FlatFormat, Record, is_eval

#: Misfit score above which a plan is dropped: +2 for a line that does not fit, -1 for a line that fits.
_MAX_MISFITS = 8
#: Fewest and most lines that are parsed one by one after a call for many lines failed.
_MIN_ALONE, _MAX_ALONE = 64, 4096
#: Most lines that are read as records before a new plan is made.
_MAX_PAUSE = 1024


class ColumnReader:
    """Reads lines of one file into column batches, as long as they fit a plan.

    Parameters
    ----------
    path : str
        The file's path below the run.
    flat : FlatFormat or None
        How the keys of a line become fields; None if no line of the format can be read by a plan.
    """

    def __init__(self, path: str, flat: FlatFormat | None) -> None:
        self._path = path
        self._flat = flat
        self._step = None if flat is None else flat.step_of(path)
        self._split = "eval" if is_eval(path) else "" if flat is None else flat.split
        self._plan: ColumnPlan | None = None
        self._misfits = 0  # misfit score of the plan, see `_MAX_MISFITS`
        self._wait = 0  # lines still to be read as records before the next plan
        self._pause = 1  # lines to wait after the next failure
        self._alone = 0  # lines still to be parsed one by one, after one of many was odd
        self._next_alone = _MIN_ALONE

    @property
    def takes_many(self) -> bool:
        """True if `add_lines` may succeed."""
        return self._plan is not None and not self._plan.lazy and not self._alone

    def add_lines(self, lines: Sequence[bytes], chunk: Chunk) -> bool:
        """Append lines to the chunk's last batch; return False if one does not fit a plan without lists."""
        columns = self._parse_columns(lines)
        if columns is None or self._plan is None:
            self._alone, self._next_alone = self._next_alone, min(2 * self._next_alone, _MAX_ALONE)
            return False
        self._next_alone = _MIN_ALONE
        self._batch(self._plan, chunk).add_columns(columns)
        self._misfits = max(0, self._misfits - len(lines))
        return True

    def add_line(self, line: bytes, chunk: Chunk) -> bool:
        """Append a line to the chunk's last batch; return False if the line does not fit the plan."""
        plan = self._plan
        if plan is None:
            return False
        self._alone = max(0, self._alone - 1)
        if self._add_alone(plan, line, chunk):
            self._misfits = max(0, self._misfits - 1)
            return True
        self._misfits += 2
        if self._misfits > _MAX_MISFITS:
            self._plan, self._misfits, self._wait = None, 0, self._pause
            self._pause = min(2 * self._pause, _MAX_PAUSE)
        return False

    def make_plan(self, fields: Mapping[str, Any], record: Record) -> bool:
        """Make a plan from a line that was read as a record; return whether this call made one."""
        if self._plan is not None or self._flat is None:
            return False
        if self._wait:
            self._wait -= 1
            return False
        self._plan = self._plan_of(self._flat, fields, record)
        if self._plan is None:
            self._wait = self._pause
            self._pause = min(2 * self._pause, _MAX_PAUSE)
        return self._plan is not None

    def _plan_of(self, flat: FlatFormat, fields: Mapping[str, Any], record: Record) -> ColumnPlan | None:
        """Return the plan for lines like this one, if the plan can give what the adapter gives."""
        document = dict(fields)
        is_completed = any(key in document for key in flat.told_by)
        try:
            if is_completed and flat.complete is not None and not flat.complete(document):
                return None
            plan = ColumnPlan.from_line(document, record, flat.names)
        except MemoryError:
            raise
        except Exception:
            return None
        if plan is None or (plan.lazy and is_completed):  # lazy lines cannot be completed
            return None
        return plan if "step" in plan.place or self._step == record.step else None

    def _parse_columns(self, lines: Sequence[bytes]) -> list[list[Any]] | None:
        plan, flat = self._plan, self._flat
        if plan is None or flat is None or plan.lazy:
            return None
        # Without one of these keys there is nothing to complete, and the plan knows all keys of its lines.
        complete = flat.complete if plan.reads_any(flat.told_by) else None
        try:
            documents = parse_lines(lines)
            if documents is None or (complete is not None and not all(map(complete, documents))):
                return None
            return plan.parse_columns(documents)
        except MemoryError:
            raise
        except Exception:
            return None

    def _add_alone(self, plan: ColumnPlan, line: bytes, chunk: Chunk) -> bool:
        """Append one line; of a line with lists, only the values needed become Python objects."""
        try:
            fields = parse_fast(line, lazy=plan.lazy)
            if fields is None or not self._is_complete(fields, plan):
                return False
            row = plan.parse_row(fields)
            lists = plan.parse_lists(fields) if row is not None and plan.lazy else None
        except MemoryError:
            raise
        except Exception:
            return False
        if row is None or (plan.lazy and lists is None):
            return False
        batch = self._batch(plan, chunk)
        batch.rows.append(row)
        if lists is not None:
            batch.sizes.append(lists[0])
            batch.arrays.append(lists[1])
        return True

    def _is_complete(self, fields: Any, plan: ColumnPlan) -> bool:
        """Complete a line without lists; return False if the adapter must read it."""
        complete = None if self._flat is None or plan.lazy else self._flat.complete
        return complete is None or complete(fields)

    def _batch(self, plan: ColumnPlan, chunk: Chunk) -> ColumnBatch:
        """Return the batch to append to: the chunk's last one if it has this plan, otherwise a new one."""
        last = chunk.parts[-1] if chunk.parts else None
        if isinstance(last, ColumnBatch) and last.plan is plan:
            return last
        batch = ColumnBatch(plan, self._path, self._step, split=self._split)
        chunk.parts.append(batch)
        return batch
