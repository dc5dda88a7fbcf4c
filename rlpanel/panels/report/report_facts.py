"""Facts at the head of a report: run, time, query, and parts of the board that it does not contain."""

from __future__ import annotations

from collections.abc import Iterator

from rlpanel import __version__
from rlpanel.board_url import STEP
from rlpanel.number_text import utc_text
from rlpanel.panels.report.carried_samples import ReportSamples
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.query import QueryResult, parse_order
from rlpanel.store.snapshot.snapshot import Snapshot


def facts_html(
    context: Context, outcome: QueryResult, carried: ReportSamples, now: float, *, alone: bool
) -> str:
    """Return the list of facts as HTML; ``alone`` means a report of a single sample."""
    pairs = [*_run_facts(context.snapshot), *_query_facts(context, outcome, carried, alone=alone)]
    pairs.append(("Created", f"{_time(now)} by rlpanel {__version__}; a snapshot that does not change"))
    pairs.append(("Not included", "; ".join(_omissions(context, carried, alone=alone))))
    rows = "".join(f"<div><dt>{name}</dt><dd>{safe_text(text)}</dd></div>" for name, text in pairs)
    return f'<dl class="facts">{rows}</dl>'


def _run_facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    steps = snapshot.steps.values
    contents = f"{snapshot.samples:,} samples"
    contents += f", {snapshot.episodes:,} episodes" if snapshot.has_episodes else ""
    if len(steps):
        contents += f" in {len(steps):,} steps, {steps[0]:,} to {steps[-1]:,}"
    contents += f", {snapshot.ranks:,} ranks" if snapshot.ranks else ""
    yield "Run", f"{snapshot.name}: {contents}"
    if snapshot.newest_line:
        yield "Newest line", _time(snapshot.newest_line)
    if not snapshot.progress.caught_up:
        yield "Reading", f"{snapshot.progress.fraction:.0%} of the run had been read"
    if snapshot.bad_count:
        yield "Bad lines", f"{snapshot.bad_count:,}, not shown"
    if snapshot.remarks:
        yield "Remarks", " ".join(remark.sentence for remark in snapshot.remarks)
    if snapshot.problems:
        yield "Problems", "; ".join(snapshot.problems)


def _query_facts(
    context: Context, outcome: QueryResult, carried: ReportSamples, *, alone: bool
) -> Iterator[tuple[str, str]]:
    selection, included = context.selection, len(carried.samples)
    if alone:
        yield "Sample", ", ".join(sample.uid for sample in carried.samples)
        return
    scope = "all steps" if selection.scope == "run" else f"step {selection.step}"
    yield "Step", f"{selection.step}"
    if selection.filter.strip():
        yield "Filter", selection.filter
    if selection.search.strip():
        yield "Search", selection.search
    hits = len(outcome.rows)
    matching = f"{hits:,} of {outcome.total:,} match" if hits < outcome.total else f"{outcome.total:,}"
    order = parse_order(selection.sort)
    end = "largest" if order and order.falling else "smallest"
    criterion = f"those with the {end} {order.name}" if order else "a random but reproducible choice"
    choice = "all included" if included == hits else f"{included:,} of them included, {criterion}"
    yield "Samples", f"{scope}: {matching}; {choice}"


def _omissions(context: Context, carried: ReportSamples, *, alone: bool) -> Iterator[str]:
    others = context.snapshot.samples - len(carried.samples)
    if others > 0:
        yield f"texts and tokens of {others:,} other samples"
    if carried.too_long:
        yield f"{carried.too_long:,} selected samples that would have made this file too large"
    if carried.unread:
        yield f"{carried.unread:,} samples whose lines could not be read"
    if carried.media_left_out:
        yield f"{carried.media_left_out:,} audio or video files; their samples say why"
    if alone:
        yield "the run's curves"
    elif context.display.band == "ridge" and context.selection.align == STEP:
        yield "ridges, which are replaced by densities"
    yield "run comparison, groups side by side, prompt history, token ranking"


def _time(seconds: float) -> str:
    return utc_text(seconds, "%Y-%m-%d %H:%M UTC") or "unknown"
