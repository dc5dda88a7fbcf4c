"""Shell completion of runs, columns, steps and names of tables.

A completion never prints and never fails: whatever goes wrong, nothing is offered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rlpanel.api.run import Run

#: Maximum number of values that are offered, and of folders that are searched for runs.
MAX_VALUES, MAX_FOLDERS = 100, 300

_Complete = Callable[[typer.Context, str], list[str]]


def _quiet(complete: _Complete) -> _Complete:
    """Return nothing instead of an error, such as for a run that does not exist."""

    @wraps(complete)
    def quietly(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return complete(ctx, incomplete)
        except Exception:
            return []

    return quietly


@_quiet
def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the folders that are runs, or lead to runs, and begin with what was typed."""
    from rlpanel.sources.discovery.directory import Directory

    typed = Path(incomplete)
    parent = typed if incomplete.endswith(os.sep) else typed.parent
    prefix = incomplete[: incomplete.rfind(os.sep) + 1]
    begun = incomplete[len(prefix) :]
    found = []
    with os.scandir(parent) as entries:
        folders = sorted(
            entry.name
            for entry in entries
            if entry.name.startswith(begun) and (begun or entry.name[0] != ".") and entry.is_dir()
        )
    for name in folders[:MAX_FOLDERS]:
        directory = Directory(parent / name)
        if directory.files(directory.root):
            found.append(f"{prefix}{name}")
        elif directory.has_runs():
            found.append(f"{prefix}{name}{os.sep}")
    return found[:MAX_VALUES]


@_quiet
def steps(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the steps of the run that begin with what was typed, the newest first."""
    with _opened(ctx) as run:
        values = run.snapshot.steps.values.tolist()
    return [str(step) for step in reversed(values) if str(step).startswith(incomplete)][:MAX_VALUES]


@_quiet
def step_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of columns of the table of steps; several are separated by commas."""
    from rlpanel.queries.steps import step_curves

    with _opened(ctx) as run:
        return _listed(step_curves(run.view), incomplete)


@_quiet
def sample_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of columns of samples; several are separated by commas."""
    from rlpanel.queries.samples import sample_columns as columns_of

    with _opened(ctx) as run:
        return _listed(columns_of(run.view), incomplete)


@_quiet
def sort_orders(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return number columns, with a minus sign in front if that was typed."""
    from rlpanel.queries.samples import sample_columns as columns_of

    with _opened(ctx) as run:
        columns = [column.name for column in columns_of(run.view).values() if column.type == "number"]
    sign, name = ("-", incomplete[1:]) if incomplete.startswith("-") else ("", incomplete)
    return [f"{sign}{column}" for column in columns if column.startswith(name)][:MAX_VALUES]


@_quiet
def token_metrics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of token metrics; several are separated by commas."""
    import rlpanel.metrics
    from rlpanel.metrics.engine.metric import of_level

    assert rlpanel.metrics  # importing it registers the metrics
    return _listed([metric.name for metric in of_level("token") if not metric.hidden], incomplete)


@_quiet
def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of tables."""
    from rlpanel.queries.catalogue import QUESTIONS

    return [name for name in QUESTIONS if name.startswith(incomplete)]


def _listed(names: Iterable[str], incomplete: str) -> list[str]:
    """Complete the last of several names that are separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    given = set(before.split(","))
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given][
        :MAX_VALUES
    ]


def _opened(ctx: typer.Context) -> Run:
    """Open the run that is named on the command line."""
    from rlpanel.api.open_run import open_run

    # The arguments are not parsed yet if the option to complete has no value.
    run: str = ctx.params.get("run") or next(word for word in ctx.args if not word.startswith("-"))
    return open_run(run, follow=False, jobs=0)
