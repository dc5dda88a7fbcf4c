"""The file of a run's reports: entries are appended, the newest line of an entry applies.

The file is small: it holds at most `MAX_BYTES`, and the entries beyond `MAX_ENTRIES` are counted, not read.
`LinesBesideLog` says where it is, and how it is read and written.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.investigations.report_entry import USUAL_REPORT, ReportEntry, check_entry, parse_entry
from rlpanel.sources.files.file_access import AnyPath, Stamp
from rlpanel.store.query.notes_beside_log import LinesBesideLog

FILE = ".rlpanel-claims.jsonl"
#: Most bytes of the file, and most entries and reports that are read.
MAX_BYTES, MAX_ENTRIES, MAX_REPORTS = 4 << 20, 2_000, 50
#: Damaged lines that are named one by one.
_NAMED = 5


class ReportFile:
    """The reports of one run.

    Parameters
    ----------
    run : path
        The run's folder, with symbolic links resolved.

    Attributes
    ----------
    problems : tuple of str
        Lines that were not read, with their numbers and reasons.
    """

    def __init__(self, run: AnyPath) -> None:
        self._file = LinesBesideLog(run, FILE, "claims", MAX_BYTES)
        self._lock = threading.Lock()
        self._stamps: tuple[Stamp | None, ...] | None = None
        self._entries: list[ReportEntry] = []
        self.problems: tuple[str, ...] = ()

    def entries(self) -> list[ReportEntry]:
        """Return the entries that apply, in the order in which they were first written."""
        with self._lock:
            stamps = self._file.stamps()  # before reading: later changes are noticed
            if stamps != self._stamps:
                self._read()
                self._stamps = stamps
            return list(self._entries)

    def version(self) -> object:
        """Return what changes whenever the file does."""
        return self._file.stamps()

    def _read(self) -> None:
        lines, problems = self._file.read()
        newest: dict[str, ReportEntry] = {}
        bad = 0
        for file, number, line in lines:
            try:
                entry = parse_entry(line)
            except SettingError as error:
                bad += 1
                if bad <= _NAMED:
                    place = f"line {number:,}" if number else "a line"
                    problems.append(f"{file}: {place} holds no valid entry and is skipped: {error}")
                continue
            newest[entry.id] = entry  # keeps the place of the first line
        if bad > _NAMED:
            problems.append(f"{bad - _NAMED:,} further lines hold no valid entry and are skipped")
        found = [entry for entry in newest.values() if entry.kind != "removed"]
        names = list(dict.fromkeys(entry.report for entry in found))
        if len(names) > MAX_REPORTS:
            problems.append(f"{len(names):,} reports: only the first {MAX_REPORTS} are read")
            found = [entry for entry in found if entry.report in names[:MAX_REPORTS]]
        if len(found) > MAX_ENTRIES:
            problems.append(f"{len(found):,} entries: only the first {MAX_ENTRIES:,} are read")
        self._entries, self.problems = found[:MAX_ENTRIES], tuple(problems)

    def write(self, entry: ReportEntry) -> Path:
        """Add an entry, or replace that of the same id.

        Returns
        -------
        Path
            The file written to.

        Raises
        ------
        SettingError
            If the entry is not valid, the file is full, or no folder is writable.
        """
        line = check_entry(entry).line()
        entries = self.entries()
        if entry.kind != "removed" and entry.id not in {each.id for each in entries}:
            if len(entries) >= MAX_ENTRIES:
                raise SettingError(f"the reports of a run have at most {MAX_ENTRIES:,} entries; remove some")
            names = {each.report for each in entries}
            if entry.report not in names and len(names) >= MAX_REPORTS:
                raise SettingError(f"a run has at most {MAX_REPORTS} reports; remove one")
        try:
            return self._file.append(line, MAX_BYTES)
        except RLPanelError:
            raise
        except OSError as error:
            raise SettingError(f"the claim cannot be written: {error.strerror}") from error

    def remove(self, identifier: str) -> Path:
        """Remove an entry.

        Raises
        ------
        SettingError
            If there is no such entry, or no folder is writable.
        """
        entry = next((each for each in self.entries() if each.id == identifier), None)
        if entry is None:
            raise SettingError(f"the run's reports have no entry {identifier[:40]!r}")
        return self.write(ReportEntry(entry.id, entry.report, "removed", time=time.time()))


def new_entry(kind: str, *, report: str = "", identifier: str = "", **parts: Any) -> ReportEntry:
    """Return an entry with an id of its own, unless it replaces another.

    Parameters
    ----------
    kind : str
    report : str
        Name of the report; `USUAL_REPORT` by default.
    identifier : str
        Id of the entry that it replaces.
    **parts
        As in `ReportEntry`.

    Raises
    ------
    SettingError
        If a part is not valid.
    """
    name = " ".join(report.split()) or USUAL_REPORT
    made = ReportEntry(identifier or secrets.token_hex(4), name, kind, time=time.time(), **parts)
    if made.is_claim:
        made = replace(made, claim=_given(made.claim))
    return check_entry(made)


def _given(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return a claim without the keys that were not given."""
    return {key: value for key, value in claim.items() if value not in (None, "", {})}
