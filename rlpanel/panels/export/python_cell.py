"""Writes the notebook cell that loads what a part of the board shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rlpanel.findings.engine.finding import Finding
from rlpanel.metrics.engine.column_info import describe
from rlpanel.panels.session.context import Context

#: Most uids that a cell lists.
MAX_UIDS = 500
#: Bands of the board that a curve of `Run.plot` has, too.
_BANDS = ("se", "iqr", "std", "range", "none")


def samples_cell(context: Context, uids: Sequence[str] | None = None) -> str:
    """Return the cell that loads the samples of the grid.

    Parameters
    ----------
    context : Context
    uids : sequence of str, optional
        The samples that pass the filters in the heads of columns, in the grid's order.
    """
    selection, display = context.selection, context.display
    whole_run = selection.scope == "run"
    given = {
        "filter": selection.filter.strip(),
        "search": selection.search.strip(),
        "sort": selection.sort,
        "older": display.older_attempts,
        "text": not whole_run,  # the texts of all steps take long to read
    }
    lines = [f"samples = run.samples({_arguments(None if whole_run else selection.step, **given)})"]
    if uids is not None and len(uids) <= MAX_UIDS:
        lines += [
            f"uids = {_literal(list(uids))}  # those that pass the filters in the heads of columns",
            'samples = samples.set_index("uid").loc[uids].reset_index()',
        ]
    elif uids is not None:
        heads = ", ".join(f"{name}: {text}" for name, text in selection.columns.items())
        lines.append(f"# Without the filters in the heads of columns: {' '.join(heads.split())}")
    if display.fold_episodes:
        lines.append("# The board shows one row per episode; these are all its rows.")
    return _cell(context, [*lines, "samples"])


def finding_cell(context: Context, finding: Finding) -> str:
    """Return the cell that loads a finding or symptom, and the samples of its first affected step."""
    lines = [
        "every = [each for found in run.findings.finding for each in (found, *found.symptoms)]",
        f"finding = next(each for each in every if each.key == {_literal(finding.key)})",
        'print(finding.sentence, *finding.evidence, sep="\\n")',
    ]
    run = f"run.split({_literal(finding.split)})" if finding.split else "run"
    given = _arguments(finding.onset, filter=finding.where, sort=finding.sort, text=finding.onset is not None)
    return _cell(context, [*lines, f"samples = {run}.samples({given})", "samples"])


def curve_cell(context: Context, columns: Sequence[str], band: str, *, log: bool) -> str:
    """Return the cell that draws a curve over the steps.

    Parameters
    ----------
    context : Context
    columns : sequence of str
        The trainer's scalars have the prefix ``log:``.
    band : str
        The band that the card shows.
    log : bool
        Whether the axis is logarithmic.
    """
    lines, plots = [], []
    for column in columns:
        scalar = column.removeprefix("log:") if column.startswith("log:") else None
        if scalar is not None:
            if not lines:
                lines.append("import hvplot.pandas  # noqa: F401")
            options = _arguments("step", scalar, logy=log)
            plots.append(f"run.scalars.hvplot.line({options})")
        elif band in ("density", "ridge"):
            plots.append(f"run.plot.ridge({_literal(column)})")
        else:
            shown = band if band in _BANDS else "none"
            plots.append(f"run.plot.curve({_arguments(column, band=shown, logy=log)})")
    titles = ", ".join(dict.fromkeys(describe(column).label for column in columns))
    return _cell(context, [*lines, f"# {' '.join(titles.split())}", " * ".join(plots)])


def sample_cell(context: Context, uid: str) -> str:
    """Return the cell that loads a sample."""
    return _cell(context, [f"sample = run.sample({_literal(uid)})", "sample"])


def what_if_cell(context: Context, step: int, loss: str, constants: Mapping[str, object]) -> str:
    """Return the cell that compares losses on the samples of a step; all of them without a name."""
    given = _arguments(*([loss] if loss else []), step=step, **constants)
    return _cell(context, [f'losses = run.ask("what_if", {given}).frame()', "losses"])


def _cell(context: Context, lines: Sequence[str]) -> str:
    """Return the lines after those that open the run; a public board names the run without its folder."""
    where = context.selection.run if context.read_only or context.index is None else str(context.index.path)
    split, rows = context.selection.split, context.display.count_rewards == "rows"
    opened = f"rlpanel.open_run({_literal(where)})"
    if split:
        opened += f".split({_literal(split)})"
    if rows:
        opened += ".by_rows"
    return "\n".join(["import rlpanel", "", f"run = {opened}", *lines, ""])


def _arguments(*values: object, **named: object) -> str:
    """Return the arguments of a call, without those that have no value."""
    given = [_literal(value) for value in values if value is not None]
    return ", ".join([*given, *(f"{name}={_literal(value)}" for name, value in named.items() if value)])


def _literal(value: object) -> str:
    """Return a value as Python; texts in double quotes, and ASCII where a terminal could be controlled."""
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=not value.isprintable())
        return quoted if "\\u" not in quoted else ascii(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)
