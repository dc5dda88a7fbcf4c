"""What a report is of: run, time, steps, question, and what it leaves out, in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rlpanel import __version__
from rlpanel.panels.plots.alignment import STEP
from rlpanel.panels.report.carried_samples import CarriedSamples
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.order import parse_order
from rlpanel.store.query.query import QueryResult
from rlpanel.store.snapshot.snapshot import Snapshot


def facts_html(
    context: Context, outcome: QueryResult, carried: CarriedSamples, now: float, *, alone: bool
) -> str:
    """The list at the report's head."""
    pairs = [*_of_run(context.snapshot), *_of_question(context, outcome, carried, alone=alone)]
    pairs.append(("Taken", f"{_time(now)} by rlpanel {__version__}; a snapshot, it does not change"))
    pairs.append(("Left out", "; ".join(_left_out(context, carried, alone=alone))))
    rows = "".join(f"<div><dt>{name}</dt><dd>{safe_text(text)}</dd></div>" for name, text in pairs)
    return f'<dl class="facts">{rows}</dl>'


def _of_run(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    steps = snapshot.steps.values
    held = f"{snapshot.samples:,} samples"
    if len(steps):
        held += f" in {len(steps):,} steps, {steps[0]:,} to {steps[-1]:,}"
    held += f", {snapshot.ranks:,} ranks" if snapshot.ranks else ""
    yield "Run", f"{snapshot.name}: {held}"
    if snapshot.newest_line:
        yield "Newest line", _time(snapshot.newest_line)
    if not snapshot.progress.caught_up:
        yield "Reading", f"{snapshot.progress.fraction:.0%} of the run was read by then"
    if snapshot.bad_count:
        yield "Bad lines", f"{snapshot.bad_count:,}, not shown"
    if snapshot.problems:
        yield "Problems", "; ".join(snapshot.problems)


def _of_question(
    context: Context, outcome: QueryResult, carried: CarriedSamples, *, alone: bool
) -> Iterator[tuple[str, str]]:
    selection, here = context.selection, len(carried.samples)
    if alone:
        yield "Sample", ", ".join(sample.uid for sample in carried.samples)
        return
    where = "all steps" if selection.scope == "run" else f"step {selection.step}"
    yield "Step", f"{selection.step}"
    if selection.filter.strip():
        yield "Filter", selection.filter
    if selection.search.strip():
        yield "Search", selection.search
    hits = len(outcome.rows)
    passed = f"{hits:,} of {outcome.of:,} pass" if hits < outcome.of else f"{outcome.of:,}"
    order = parse_order(selection.sort)
    end = "largest" if order and order.falling else "smallest"
    how = f"those with the {end} {order.name}" if order else "drawn by uid, always the same"
    chosen = "all of them here" if here == hits else f"{here:,} of them here, {how}"
    yield "Samples", f"{where}: {passed}; {chosen}"


def _left_out(context: Context, carried: CarriedSamples, *, alone: bool) -> Iterator[str]:
    others = context.snapshot.samples - len(carried.samples)
    if others > 0:
        yield f"texts and tokens of {others:,} other samples"
    if carried.too_long:
        yield f"{carried.too_long:,} chosen samples that would have made this file too large"
    if carried.unread:
        yield f"{carried.unread:,} samples whose lines could not be read"
    if alone:
        yield "the run's curves"
    elif context.display.band == "ridge" and context.selection.align == STEP:
        yield "ridges, for which densities stand here"
    yield "comparisons, groups side by side, a prompt over the steps, the step's tokens"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
