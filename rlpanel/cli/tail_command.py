"""The command ``tail``: prints each step of a growing run in one line, when the step is complete."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli import completion, shared_options
from rlpanel.cli.reader_settings import say_left_out, set_reader_environment
from rlpanel.cli.shared_options import DefaultStep, FollowLinks, Map, Tokenizer, names
from rlpanel.cli.table_output import json_text
from rlpanel.cli.terminal_messages import printable, say

if TYPE_CHECKING:
    from rlpanel.api.run import Run
    from rlpanel.queries.table import Table
    from rlpanel.store.snapshot.left_out import Omissions

#: Seconds between two looks at the run while it does not change: a last step is complete after some time.
_PATIENCE = 0.5
#: Lines after which the names of the columns are printed again.
_HEADER_EVERY = 20


def tail(
    run: shared_options.Run,
    columns: Annotated[
        str,
        typer.Option(
            help="Columns, separated by commas.",
            show_default="those most used",
            autocompletion=completion.step_columns,
        ),
    ] = "",
    last: Annotated[int, typer.Option(min=0, help="Number of steps to print at the start.")] = 10,
    as_jsonl: shared_options.AsJsonl = False,
    split: shared_options.Split = "",
    keys: Map = None,
    default_step: DefaultStep = None,
    tokenizer: Tokenizer = None,
    follow_links: FollowLinks = False,
) -> None:
    """Follow a run and print one line per step when the step is complete, until Ctrl-C.

    A finding is printed when it is new; --jsonl prints steps only.
    """
    set_reader_environment(keys, tokenizer, follow_links, default_step)
    from rlpanel.api.open_run import open_run

    with open_run(run) as opened:
        changed = threading.Event()
        opened.listen(lambda _: changed.set())
        printer = StepPrinter(opened.split(split) if split else opened, names(columns), as_jsonl=as_jsonl)
        try:
            printer.print_new(last=last)
            say_left_out(printer.left_out)
            while True:
                changed.wait(_PATIENCE)
                changed.clear()
                printer.print_new()
        except KeyboardInterrupt:
            say("", "")


class StepPrinter:
    """Prints the complete steps of a run, each once.

    Parameters
    ----------
    run : Run
    columns : sequence of str or None
        Columns of the table of steps; None for those most used.
    as_jsonl : bool
        Print each step as a JSON object.
    """

    def __init__(self, run: Run, columns: Sequence[str] | None, *, as_jsonl: bool) -> None:
        self._run, self._columns, self._as_jsonl = run, columns, as_jsonl
        self._printed: int | None = None
        self._announced: set[tuple[str, ...]] = set()
        self._hidden: list[str] = []
        self._names: list[str] = []
        self._lines = 0

    def print_new(self, last: int | None = None) -> None:
        """Print the complete steps after the newest one that was printed; ``last`` limits their number."""
        from rlpanel.queries.steps import steps
        from rlpanel.store.snapshot.snapshot import newest_complete_step

        newest = newest_complete_step(self._run.snapshot, time.time())
        if newest is None or (self._printed is not None and newest <= self._printed):
            return
        # Columns without values in the first steps appear later; those of the header stay.
        table = steps(self._run.data, columns=self._columns)
        rows = [
            row
            for row in table.rows
            if row["complete"] and (self._printed is None or row["step"] > self._printed)
        ]
        self._printed = newest
        for row in rows if last is None else rows[max(len(rows) - last, 0) :]:
            self._print(table, row)
        if not self._as_jsonl:
            self._print_findings()

    def _print_findings(self) -> None:
        """Print the findings that go on and were not printed before."""
        from rlpanel.cli.terminal_text import finding_lines, print_lines
        from rlpanel.queries.findings import findings

        table = findings(self._run.data)
        for finding in table.rows:
            key = tuple(str(finding[name]) for name in ("rule", "subject", "rank", "category", "severity"))
            if finding["severity"] == "info" or key in self._announced:
                continue
            self._announced.add(key)
            print_lines([("", ""), *finding_lines(table, finding), ("", "")])
            self._lines = 0  # the names of the columns follow

    @property
    def left_out(self) -> Omissions:
        """Counts of what the printed numbers leave out."""
        from rlpanel.store.snapshot.left_out import left_out

        return left_out(self._run.snapshot)

    def _print(self, table: Table, row: dict[str, object]) -> None:
        if self._as_jsonl:
            line = json_text(row)
        else:
            line = self._text(table, row)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def _text(self, table: Table, row: dict[str, object]) -> str:
        from rlpanel.number_text import number

        shown = self._fitting([column.name for column in table.columns if column.name != "complete"])
        cells = [
            str(row[name]) if name == "step" else "–" if row[name] is None else number(float(str(row[name])))
            for name in shown
        ]
        line = "  ".join(f"{cell:>{max(len(name), 8)}}" for cell, name in zip(cells, shown, strict=True))
        header = "  ".join(f"{name:>8}" for name in map(printable, shown))
        with_header = shown != self._names or self._lines % _HEADER_EVERY == 0
        self._lines = 1 if shown != self._names else self._lines + 1
        self._names = shown
        return f"{header}\n{line}" if with_header else line

    def _fitting(self, names: list[str]) -> list[str]:
        """Return the first columns that fit into a terminal, and say once on stderr which do not."""
        if not sys.stdout.isatty():
            return names
        free, shown = shutil.get_terminal_size((100, 24)).columns, []
        for name in names:
            free -= max(len(name), 8) + (2 if shown else 0)
            if free < 0 and shown:
                break
            shown.append(name)
        hidden = names[len(shown) :]
        if hidden and hidden != self._hidden:
            say(f"not shown in this width: {', '.join(hidden)}; choose with --columns", "bright_black")
        self._hidden = hidden
        return shown
