"""Builds the report: the board with its plots, or one sample, as an HTML file that opens offline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import bokeh
import numpy as np
from bokeh.core.property.vectorization import Value
from bokeh.embed.util import OutputDocumentFor, standalone_docs_json_and_render_items
from bokeh.model import Model
from bokeh.resources import Resources

from rlpanel import __version__
from rlpanel.board_url import STEP
from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.number_text import utc_text
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.export.card_export import BarCard, file_name
from rlpanel.panels.findings.findings_list import findings_html
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.language.labels import ENGLISH, using
from rlpanel.panels.report.carried_samples import ReportSamples, collect_samples
from rlpanel.panels.samples.query_runner import Download
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from rlpanel.panels.step.step_bar import step_numbers_html
from rlpanel.panels.tokens.token_view import TokenComponent, metric_declarations, sample_scales
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_document import document
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.query import Query, QueryResult, QuerySpec, parse_order
from rlpanel.store.query.samples_export import ExportPart
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step

# -- report plots --------------------------------------------------------------------------------------
# Plots of the board for a page without a server: JSON for BokehJS, with the colours of both themes.


#: Model id → property → its values in the dark and in the light theme; only properties that differ.
Colors = dict[str, dict[str, list[Any]]]


class Drawing(NamedTuple):
    """One card of the board: the HTML of its header, and its plot."""

    head: str
    plot: Model


class Plots(NamedTuple):
    """Cards of the report, and the colours that depend on the reader's theme."""

    curves: list[Drawing]
    step: list[BarCard]
    colors: Colors


def plots_of(context: Context) -> Plots:
    """Return the cards that the board would show, drawn by new views of the context.

    Changes the context: its theme becomes light, and ridges become densities, because ridges must be drawn
    again for each theme, which requires a server.
    """
    context.selection.dark = True
    if context.display.band == "ridge":
        context.display.band = "density"
    cards = Curves(context, linked=False).cards.values()
    of_step: list[BarCard] = [RewardDistribution(context), RewardGap(context), GroupStrip(context)]
    curves = [Drawing(card.head.html, _without_callbacks(card.pane.object)) for card in cards]
    step = [card for card in of_step if card.visible]
    models = [model for drawing in curves for model in drawing.plot.references()]
    dark = _properties(models)
    context.selection.dark = False
    colors = _differences(dark, _properties(models))
    return Plots(curves, step, colors)


def plot_json(drawing: Drawing) -> dict[str, Any]:
    """Return a plot as JSON for ``Bokeh.embed.embed_item``."""
    plot = drawing.plot
    with OutputDocumentFor([plot], apply_theme=theme.PLOTS):
        # The same as `bokeh.embed.json_item`, but without its warning about Python callbacks.
        docs, _ = standalone_docs_json_and_render_items([plot], suppress_callback_warning=True)
    return {
        "doc": next(iter(docs.values())),
        "root_id": plot.id,
        "target_id": "",
        "version": bokeh.__version__,
    }


def _without_callbacks(plot: Model) -> Model:
    """Remove a plot's callbacks: no server handles its events, and the policy forbids code in strings."""
    plot.update(js_event_callbacks={}, subscribed_events=set())
    return plot


def _properties(models: Iterable[Model]) -> dict[str, dict[str, Any]]:
    """Return the properties that may be colours or palettes (texts and lists), by model id and name."""
    return {
        model.id: {
            name: plain
            for name, value in model.properties_with_values(include_defaults=True).items()
            if isinstance(plain := value.value if isinstance(value, Value) else value, (str, list))
        }
        for model in models
    }


def _differences(dark: dict[str, dict[str, Any]], light: dict[str, dict[str, Any]]) -> Colors:
    differing = {
        id: {name: [value, light[id][name]] for name, value in values.items() if value != light[id][name]}
        for id, values in dark.items()
    }
    return {id: values for id, values in differing.items() if values}


# -- report --------------------------------------------------------------------------------------------
# Builds the report: the current board or one sample as an HTML file that opens offline.
#
# It is drawn from a frozen copy of the session's context. Its head has facts: run, time, query, and parts of
# the board that it does not contain.


def frozen(context: Context, **overrides: Any) -> Context:
    """Return a copy of a context that does not follow the run, for views on any thread.

    Parameters
    ----------
    **overrides
        Parameters of `Selection` to override. Without a step the newest complete one is selected.
    """
    selection = {**context.selection.param.values(), **overrides}
    if selection["step"] is None:
        selection["step"] = newest_complete_step(context.snapshot, time.time())
    return Context(
        index=context.index,
        view=context.view,
        selection=Selection(**{**selection, "follow": False}),
        display=Display(**context.display.param.values()),
    )


def check_step(context: Context) -> None:
    """Raise SettingError if the run does not have the selected step; the message names the nearest step."""
    step, steps = context.selection.step, context.snapshot.steps
    if step is None:
        raise SettingError(f"run {context.snapshot.name!r} has no samples yet")
    if steps.position(step) < 0:
        nearest = context.nearest_step(float(step))
        raise SettingError(
            f"step {step} is not in run {context.snapshot.name!r}; step {nearest} is the nearest"
        )


def run_query(context: Context) -> QueryResult:
    """Run the query of the context's selection: scope, filter, search and sort order."""
    assert context.index is not None
    selection = context.selection
    spec = QuerySpec(
        selection.step if selection.scope == "step" else None,
        older=context.display.older_attempts,
        filter=selection.filter,
        search=selection.search,
        sort=selection.sort,
    )
    if context.notes is not None:
        context.notes.refresh()
    return list(Query(context.index, context.snapshot, spec, context.notes).results())[-1]


def select_rows(context: Context, outcome: QueryResult, most: int) -> np.ndarray:
    """Return the rows to include: the first ones if sorted, otherwise a reproducible random draw by uid.

    The selected sample is always included.
    """
    rows = outcome.rows[:most] if context.selection.sort else context.snapshot.sample_rows(outcome.rows, most)
    if not context.selection.uid:
        return rows
    selected = context.snapshot.row(context.selection.uid)
    return rows if selected in rows else np.append(rows[: most - 1], selected)


def first_position(context: Context, uids: list[str]) -> int:
    """Return the position of the sample that is shown first."""
    return uids.index(context.selection.uid) if context.selection.uid in uids else 0


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


#: Default number of samples in a report.
SAMPLES = 32


@using(ENGLISH)  # an exported file is read by others, too
def board_html(context: Context, samples: int = SAMPLES) -> bytes:
    """Return the report of a board: findings, curves, the step's plots, and the samples of its query.

    Parameters
    ----------
    context : Context
        A copy returned by `frozen`.
    samples : int
        Maximum number of samples, including the selected one.

    Raises
    ------
    FilterError
        If the filter, the search or the sort order is not valid.
    SettingError
        If the run does not have the selected step.
    """
    now, snapshot = time.time(), context.snapshot
    check_step(context)
    outcome = run_query(context)
    carried = collect_samples(context, select_rows(context, outcome, samples), outcome)
    # Before the plots are drawn, because `plots_of` changes display settings that the facts mention.
    facts = facts_html(context, outcome, carried, now, alone=False)
    plots = plots_of(context)
    curves = _cards("plot", [drawing.head for drawing in plots.curves])
    of_step = _cards("bars", [card.head_html() for card in plots.step])
    body = (
        f"{_header(snapshot.name)}{facts}"
        f"<h2>Findings</h2>{findings_html(context.view, now)}"
        f'<h2>Curves</h2><div class="cards">{curves}</div>'
        f'<h2>Step {context.selection.step}</h2><div class="cards of-step">{of_step}</div>'
        f'<div class="numbers">{step_numbers_html(context)}</div>'
        f'<h2>Samples</h2><div class="samples"><div class="grid">{carried.table}</div>'
        f'<div class="shown">{"".join(carried.articles)}</div></div>'
    )
    data = _data(context, carried) | {
        "plots": [plot_json(drawing) for drawing in plots.curves],
        "bars": [{"plot": card.plot, "marker": card.marker, "height": card.height_px} for card in plots.step],
        "colors": plots.colors,
        "first": first_position(context, [sample.uid for sample in carried.samples]),
    }
    title = f"{snapshot.name} · step {context.selection.step} · rlpanel"
    bokeh = Resources(mode="inline", components=["bokeh"]).js_raw
    scripts = [*bokeh, _script()]
    return document(title, _style(), body, data, scripts, plays_media=carried.embedded_chars > 0)


@using(ENGLISH)  # an exported file is read by others, too
def sample_html(context: Context, uid: str) -> bytes:
    """Return the report of one sample: texts, tokens and numbers.

    Raises
    ------
    SampleNotFound
        If no current row has this uid.
    """
    now, snapshot = time.time(), context.snapshot
    rows = np.array([snapshot.row(uid)])
    outcome = QueryResult(rows, snapshot.samples)
    carried = collect_samples(context, rows, outcome)
    facts = facts_html(context, outcome, carried, now, alone=True)
    body = f'{_header(snapshot.name)}{facts}<div class="shown">{"".join(carried.articles)}</div>'
    data = _data(context, carried) | {"plots": [], "bars": [], "colors": {}, "first": 0}
    title = f"{snapshot.name} · {uid} · rlpanel"
    return document(title, _style(), body, data, [_script()], plays_media=carried.embedded_chars > 0)


# -- pieces of the page --------------------------------------------------------------------------


def _header(run: str) -> str:
    return (
        '<header><span class="logo">rl<span class="policy">panel</span></span>'
        f"<h1>{safe_text(run)}</h1><span class='snapshot'>snapshot</span></header>"
    )


def _cards(name: str, heads: list[str]) -> str:
    """Return a card per head, with an element for its plot whose id is the name and a number."""
    return "".join(
        f'<div class="card">{head}<div class="plot" id="{name}-{number}"></div></div>'
        for number, head in enumerate(heads)
    )


def _data(context: Context, carried: ReportSamples) -> dict[str, Any]:
    return {
        "tokens": carried.tokens,
        "scale": context.selection.scale,
        "scales": [sample_scales(context.snapshot, sample) for sample in carried.samples],
        "metrics": metric_declarations(),
        "metric": context.selection.metric,
        "token": context.selection.token,
        "styles": TokenComponent._stylesheets,
    }


def _style() -> str:
    """Return the CSS: colours for the light and dark theme of the reader's system, and the layout."""
    fonts = {"font": theme.FONT, "mono": theme.MONO}
    return "\n".join(
        (
            f":root {{{theme.variables(theme.LIGHT | fonts)}}}",
            f"@media (prefers-color-scheme: dark) {{ :root {{{theme.variables(theme.DARK)}}} }}",
            theme.CSS.replace(":host", "body"),
            f".numbers {{ {read_assets('panels/step/step_summary.css')} }}",
            read_assets("panels/findings/findings_list.css"),
            read_assets("panels/plots/bar_plot.css"),
            read_assets("panels/texts/prompt.css", "panels/report/report.css"),
        )
    )


def _script() -> str:
    """Return the page's module script: the functions that draw tokens and bars, followed by ``report.js``."""
    tokens = TokenComponent._esm.replace("export function render", "function render")
    bars = read_assets("panels/ui/dom.js", "panels/ui/svg.js", "panels/plots/bar_plot.js")
    page = read_assets("panels/report/report.js")
    return "\n".join(
        (
            f"const tokenView = (() => {{\n{tokens}\nreturn render\n}})()",
            f"const barPlot = (() => {{\n{bars}\nreturn barPlot\n}})()",
            page,
        )
    )


def board_download(context: Context, **overrides: Any) -> Download:
    """Return the current state of the board as a download of one HTML file.

    Parameters
    ----------
    context : Context
        Its selection must have a step.
    **overrides
        Parameters of its `Selection` to override.
    """
    selection = context.selection
    copy = frozen(context, uid=selection.uid or context.first_uid, **overrides)
    name = f"{file_name(context.snapshot.name)}-step-{selection.step}.html"
    return Download(name, "text/html", f"{name}, a snapshot", _parts(copy))


def _parts(context: Context) -> Iterator[ExportPart]:
    yield ExportPart(board_html(context), 1.0)
